package dev

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// lockPatience is how long a start waits for what is left of a dev that was killed:
// its servers die with it, but not in the same instant.
var lockPatience = 5 * time.Second // a variable for tests

// data is the data directory, locked.
type data struct {
	dir     string
	lock    *os.File // the servers inherit it: while one of them lives, nobody else starts
	secrets config.File
}

// openData makes the directory where it is missing, locks it, and reads or makes its
// secrets.
func openData(ctx context.Context, dir string) (_ *data, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find data directory: %w", err)
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, "redis"), filepath.Join(dir, "s3"), filepath.Join(dir, "logs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil { // it may have been made by hand
		return nil, fmt.Errorf("close data directory to others: %w", err)
	}
	d := &data{dir: dir}
	if err := d.takeLock(ctx); err != nil {
		return nil, err
	}
	if d.secrets, err = loadSecrets(filepath.Join(dir, "secrets")); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// ours refuses a directory that is somebody else's, or holds something else: it would
// be closed to everybody, and somebody's home or /tmp must not be.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is no directory of ours: choose another one with --data", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "lock")); err != nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty, and not a data directory of dev: choose another one with --data", dir)
	}
	return nil
}

func (d *data) path(name ...string) string { return filepath.Join(append([]string{d.dir}, name...)...) }

// close says that nobody has the directory any more: a program that somebody is just starting may have the lock for a moment longer.
func (d *data) close() error { return errors.Join(d.lock.Truncate(0), d.lock.Close()) }

// takeLock makes this process the only dev of the directory. The lock belongs to the
// open file: it is free again when we and every server that inherited it are gone.
func (d *data) takeLock(ctx context.Context) error {
	f, err := os.OpenFile(d.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return fmt.Errorf("lock data directory: %w", err)
		}
		pid := holder(f)
		if time.Now().After(deadline) || pid > 0 && unix.Kill(pid, 0) == nil {
			f.Close()
			return fmt.Errorf("%s is in use by another glovebox dev (pid %d): end that one, or choose another directory with --data", d.dir, pid)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			f.Close()
			return context.Cause(ctx)
		}
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		f.Close()
		return fmt.Errorf("write lock: %w", err)
	}
	d.lock = f
	return nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// holder is the pid that the lock names, 0 if it names none.
func holder(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0) // an error is the end of a short file
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// The secrets of a data directory.
const (
	redisPassword = "REDIS_PASSWORD" // of the user "default", who may do everything
	redisAPI      = "REDIS_API_PASSWORD"
	redisWorker   = "REDIS_WORKER_PASSWORD"
	s3AccessKey   = "S3_ACCESS_KEY"
	s3SecretKey   = "S3_SECRET_KEY"
	apiToken      = "TOKEN"
	adminToken    = "ADMIN_TOKEN"
	webhookKey    = "WEBHOOK_KEY"
	capabilityKey = "CAPABILITY_KEY"
	signingKey    = "SIGNING_KEY"
	secretsKey    = "SECRETS_KEY"
	// instance tells the containers and the runtime directory of this data directory
	// from those of others. It is no secret, but made once, like them.
	instance = "INSTANCE"
)

// loadSecrets reads the secrets, and makes those that are missing.
func loadSecrets(path string) (config.File, error) {
	secrets, err := config.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if secrets == nil {
		secrets = config.File{}
	}
	changed := false
	for name, fresh := range map[string]func() string{
		redisPassword: rand.Text, redisAPI: rand.Text, redisWorker: rand.Text, s3AccessKey: rand.Text, s3SecretKey: rand.Text,
		apiToken:   func() string { return "gb_" + rand.Text() },
		adminToken: rand.Text,
		webhookKey: hookkeys.New,
		capabilityKey: func() string {
			key := make([]byte, 32)
			rand.Read(key) // never fails: it ends the program instead
			return base64.StdEncoding.EncodeToString(key)
		},
		signingKey: attest.NewSeed,
		secretsKey: newSecretsKey,
		instance:   func() string { return "dev" + strings.ToLower(rand.Text()[:8]) },
	} {
		if secrets[name] == "" {
			secrets[name], changed = fresh(), true
		}
	}
	if !changed {
		return secrets, nil
	}
	return secrets, secrets.Write(path, "Made by glovebox dev, once. Without them the data beside this file can't be read.")
}

func newSecretsKey() string { return secrets.NewKey() }

// writeEnv writes where the command line finds this Glovebox, and what verifies the
// webhooks of its tenant.
func (d *data) writeEnv(url, podmanUser string, isolation job.Isolation, hooks []producer.WebhookSecret) error {
	words := make([]string, len(hooks))
	for i, h := range hooks {
		words[i] = h.Secret
	}
	env := config.File{
		"GLOVEBOX_URL": url, "GLOVEBOX_TOKEN": d.secrets[apiToken], "GLOVEBOX_ADMIN_TOKEN": d.secrets[adminToken],
		"GLOVEBOX_WEBHOOK_SECRET": strings.Join(words, " "), "GLOVEBOX_PODMAN_USER": podmanUser,
	}
	if isolation.Or() != job.GVisor { // what is submitted from here accepts it
		env["GLOVEBOX_ISOLATION"] = string(isolation)
	}
	return env.Write(d.path("env"), "Written by glovebox dev: where the command line finds it, and with which secrets.")
}
