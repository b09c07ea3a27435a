package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/backup"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/version"
)

// operatorSettings is where infra/install.sh writes what backup and restore are told.
const operatorSettings = "/etc/glovebox/operator.env"

func (a *app) backupCommand() *cobra.Command {
	var settings string
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all that Redis and the bucket have into one file",
		Long: `Write the records in Redis, as they are at one moment, and the objects in the bucket that
they name into FILE, which must not be there yet. The service may run: jobs go on, and only
the deletion of objects waits until the backup is made.

It is told by its environment, or by the file that --settings names, which Redis and which
bucket: GLOVEBOX_REDIS_URL, of the user "default" (no other may take a snapshot), and the
GLOVEBOX_S3_… variables of "glovebox api". A managed Redis gives no snapshot to anybody:
there use the provider's own.

FILE has mode 0600, and secrets: what jobs were given and made, hashes of tokens, and sealed
secrets. The keys that open and sign (GLOVEBOX_WEBHOOK_KEY, _CAPABILITY_KEY, _SECRETS_KEY and
_SIGNING_KEY, in /etc/glovebox) are not in it: keep a copy of them elsewhere.

It prints what the backup has, and the SHA-256 by which "glovebox restore --sha256" knows it.`,
		Example: `  sudo glovebox backup /var/backups/glovebox-$(date +%F).tar`,
		Args:    one("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.backup(cmd.Context(), args[0], settings)
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`FILE` with the variables (default "+operatorSettings+", if it is there and GLOVEBOX_REDIS_URL is not set)")
	return cmd
}

// kept is the Redis and the bucket that are backed up, or restored to.
type kept struct {
	options *redis.Options
	redis   *redis.Client
	objects *artifacts.Store
}

func (k *kept) close() {
	k.redis.Close()
	k.objects.Close()
}

// openKept reads which they are, and connects.
func (a *app) openKept(ctx context.Context, settings string) (*kept, error) {
	r, err := a.operatorReader(settings)
	if err != nil {
		return nil, err
	}
	records, bucket := r.Redis(), r.S3()
	if err := r.Err(); err != nil {
		return nil, &failure{exitUsage, err, "--settings names a file that has them; infra/install.sh makes " + operatorSettings}
	}
	client, err := redisconn.Open(ctx, records.URL)
	if err != nil {
		return nil, &failure{exitGlovebox, err, "GLOVEBOX_REDIS_URL says which Redis, and as whom"}
	}
	options, err := server(ctx, records.URL)
	if err != nil {
		client.Close()
		return nil, &failure{exitGlovebox, err, "GLOVEBOX_REDIS_URL says which Redis, and as whom"}
	}
	objects, err := artifacts.Open(ctx, bucket)
	if err == nil {
		if err = objects.Ping(ctx); err != nil {
			objects.Close()
		}
	}
	if err != nil {
		client.Close()
		return nil, &failure{exitGlovebox, err, "the GLOVEBOX_S3_… variables say which bucket"}
	}
	return &kept{options, client, objects}, nil
}

// operatorReader reads the operator's settings: of the environment, of the file, or of that of infra/install.sh.
func (a *app) operatorReader(settings string) (*config.Reader, error) {
	getenv := a.getenv
	if settings == "" && getenv("GLOVEBOX_REDIS_URL") == "" && getenv("GLOVEBOX_REDIS_URL_FILE") == "" {
		if _, err := os.Stat(operatorSettings); err == nil {
			settings = operatorSettings
		}
	}
	if settings != "" {
		file, err := config.ReadFile(settings)
		if err != nil {
			return nil, err
		}
		getenv = file.Get
	}
	return config.NewReader(getenv), nil
}

// server is the Redis that takes writes now, which gives a snapshot.
func server(ctx context.Context, url string) (*redis.Options, error) {
	address, err := redisconn.Parse(url)
	if err != nil {
		return nil, err
	}
	return address.Server(ctx)
}

func (a *app) backup(ctx context.Context, path, settings string) (err error) {
	k, err := a.openKept(ctx, settings)
	if err != nil {
		return err
	}
	defer k.close()
	if _, err := os.Lstat(path); err == nil {
		return usagef("%s is there already: a backup replaces nothing", path)
	}
	// It has its name once it is whole.
	f, err := os.CreateTemp(filepath.Dir(path), ".glovebox-backup-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	whole := false
	defer func() {
		if !whole {
			os.Remove(f.Name())
		}
	}()
	report, err := backup.Save(ctx, k.options, k.redis, k.objects, f, version.Read().Version)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		hint := "there is no backup: mend that, and make it anew"
		if redis.HasErrorPrefix(err, "NOPERM") {
			hint = "GLOVEBOX_REDIS_URL has to be of Redis' user \"default\": no other may take a snapshot"
		}
		return &failure{exitFailed, err, hint}
	}
	whole = true
	if err := nameAnew(f.Name(), path, os.Link, renameAnew, renameAbsent); err != nil {
		return &failure{exitFailed, fmt.Errorf("name backup: %w", err), "the backup is whole, as " + f.Name() + ": give it a name"}
	}
	os.Remove(f.Name()) // which a link leaves
	a.tellBackup(report)
	if report.Records.Keys == 0 {
		fmt.Fprintf(a.stderr, "It has no records, so restore refuses it: database %d of that Redis has none.\n", report.Head.DB)
	}
	if report.Skipped > 0 {
		fmt.Fprintf(a.stderr, "%d objects in the bucket below tenants/ are not Glovebox's, and not in it.\n", report.Skipped)
	}
	fmt.Fprintf(a.stderr, "%s has secrets and mode 0600. Not in it: the keys in /etc/glovebox; without them sealed secrets stay closed.\n", path)
	return nil
}

// nameAnew gives a file its name in the first way that the file system knows. Each replaces nothing:
// where the name is taken, it is os.ErrExist.
func nameAnew(from, to string, ways ...func(from, to string) error) (err error) {
	for _, way := range ways {
		if err = way(from, to); err == nil || errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return err
}

// renameAnew is for vfat and CIFS, which have no links.
func renameAnew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

// renameAbsent looks first: what appears between the two is replaced. It is for what has neither.
func renameAbsent(from, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(os.ErrExist, err)
	}
	return os.Rename(from, to)
}

func (a *app) tellBackup(r backup.Report) {
	fmt.Fprintf(a.stdout, "made     %s, Glovebox %s, %s\n", r.Head.MadeAt.Format("2006-01-02 15:04:05 UTC"), r.Head.Version, r.Head.Server())
	fmt.Fprintf(a.stdout, "records  %d keys: %d jobs, terms of %d tenants\n", r.Records.Keys, r.Records.Jobs, r.Records.Tenants)
	fmt.Fprintf(a.stdout, "objects  %d\n", r.Objects)
	fmt.Fprintf(a.stdout, "sha256   %s\n", r.SHA256)
}
