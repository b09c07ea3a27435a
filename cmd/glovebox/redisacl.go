package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/redisacl"
)

func (a *app) redisACLCommand() *cobra.Command {
	var workers []string
	var commands bool
	cmd := &cobra.Command{
		Use:   "redis-acl DIRECTORY",
		Short: "Print Redis users for api, workers and metrics",
		Long: `Print the users that Redis should know, each with no more keys and commands than its
role needs: an api or a worker then needs no password that can do everything.

  glovebox-api          the api, with its deliverer and sweeper
  glovebox-worker       any worker; with --worker NAME, glovebox-worker-NAME, a user for one
                        worker, who can't say that another worker lives, or is gone
  glovebox-metrics      counts jobs, deliveries and tasks, and sees which workers live; reads
                        nothing of a job
  default               you: everything, with a password

DIRECTORY keeps a password for each in a file of its name, mode 0600; one that is missing is
made, random. What is printed has only their SHA-256. Put it where Redis reads it:

  glovebox redis-acl DIRECTORY > /etc/redis/users.acl
      and "aclfile /etc/redis/users.acl" in redis.conf, without requirepass; then restart
      Redis, or "redis-cli ACL LOAD" where it had the file already
  glovebox redis-acl --commands DIRECTORY | redis-cli
      for a Redis that runs; "redis-cli ACL SAVE" or "CONFIG REWRITE" makes it last

and give each process its own:

  GLOVEBOX_REDIS_URL=redis://glovebox-worker:PASSWORD@host:6379/0

Do so again after an update of Glovebox, before its processes are updated: a version may need
keys that the one before didn't. It needs Redis 7 or later.`,
		Example: `  glovebox redis-acl /root/redis-passwords > /etc/redis/users.acl
  glovebox redis-acl --worker host-1 --worker host-2 --commands /root/redis-passwords | redis-cli`,
		Args: one("DIRECTORY"),
		RunE: func(_ *cobra.Command, args []string) error { return a.redisACL(args[0], workers, commands) },
	}
	cmd.Flags().StringArrayVar(&workers, "worker", nil, "`NAME` of a worker that gets a user of its own; may be given several times")
	cmd.Flags().BoolVar(&commands, "commands", false, "print commands for redis-cli, rather than an ACL file")
	return cmd
}

func (a *app) redisACL(dir string, workers []string, commands bool) error {
	users := []redisacl.User{{Role: redisacl.API}, {Role: redisacl.Metrics}}
	for _, name := range workers {
		if !redisacl.ValidWorker(name) {
			return usagef("--worker %q: want 1 to 63 of a-z, 0-9, - and .", name)
		}
		users = append(users, redisacl.User{Role: redisacl.Worker, Worker: name})
	}
	if len(workers) == 0 {
		users = append(users, redisacl.User{Role: redisacl.Worker})
	}
	users = append(users, redisacl.User{Role: redisacl.Admin}) // last: with --commands, it may be who sends them
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory of passwords: %w", err)
	}
	form := "user %s %s\n"
	if commands {
		form = "ACL SETUSER %s %s\n"
	}
	var list strings.Builder
	for _, u := range users {
		password, err := passwordFile(filepath.Join(dir, u.Name()))
		if err != nil {
			return fmt.Errorf("password of %s: %w", u.Name(), err)
		}
		fmt.Fprintf(&list, form, u.Name(), u.Rules(password))
	}
	_, err := io.WriteString(a.stdout, list.String())
	return err
}

// passwordFile reads a password, or makes it where there is none.
func passwordFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		password := rand.Text()
		_, err = f.WriteString(password + "\n")
		return password, errors.Join(err, f.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is %s, so others may read it: chmod 600 %s", path, info.Mode(), path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	password := strings.TrimSpace(string(b))
	if len(password) < minRedisPassword || strings.ContainsAny(password, "@:/?#% \t\n") {
		return "", fmt.Errorf("%s is no password for a URL: want %d or more characters, none of them @ : / ? # %% or blank; remove it, and one is made", path, minRedisPassword)
	}
	return password, nil
}

// minRedisPassword keeps anyone from choosing one that can be guessed: Redis answers a
// hundred thousand guesses a second.
const minRedisPassword = 20
