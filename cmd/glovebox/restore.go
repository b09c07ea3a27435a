package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/backup"
)

func (a *app) restoreCommand() *cobra.Command {
	var settings, sum string
	var replace, check bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Put a backup into a Redis and a bucket",
		Long: `Put what "glovebox backup" wrote into the Redis and the bucket that the settings name, as for
"glovebox backup". First FILE is read to its end: one that is damaged, changed or cut off is
refused, and nothing is touched. A backup is as powerful as the operator, so restore only your own:
--sha256 refuses every other.

Stop api and workers first: with one connected, it refuses; also with a client of another user's
that waits for work or takes it. It looks again when what was there is deleted, and at the end: what
has connected by then makes it fail, and nothing is whole. It refuses a Redis that has records, too, unless --replace says
that they go; then objects that no record names go as well.

Then start the api and workers. Jobs that were queued run, those that ran are taken back as
from a lost worker, and sessions that were open end so. Messages that were not delivered by
then go out, under the same ids as those that went out after it. What was revoked since, a
token say, is good again: revoke it anew.

It wants a Redis of the version that the backup is from, or a newer one: an older one is refused
before anything is deleted. The records come into the database that GLOVEBOX_REDIS_URL names,
whichever they were in. A backup without records is refused.`,
		Example: `  glovebox restore --check /var/backups/glovebox-2026-11-25.tar
  sudo systemctl stop glovebox-api glovebox-worker
  sudo glovebox restore --replace /var/backups/glovebox-2026-11-25.tar
  sudo systemctl start glovebox-api glovebox-worker`,
		Args: one("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.restore(cmd.Context(), args[0], settings, sum, replace, check)
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`FILE` with the variables (default "+operatorSettings+", if it is there and GLOVEBOX_REDIS_URL is not set)")
	cmd.Flags().StringVar(&sum, "sha256", "", "refuse a backup but the one for which \"glovebox backup\" printed this `SHA-256`")
	cmd.Flags().BoolVar(&replace, "replace", false, "delete the records that are there, and objects that no record names")
	cmd.Flags().BoolVar(&check, "check", false, "only read the backup and say what it has")
	return cmd
}

func (a *app) restore(ctx context.Context, path, settings, sum string, replace, check bool) error {
	f, err := os.Open(path)
	if err != nil {
		return &failure{code: exitUsage, err: err}
	}
	defer f.Close()
	var k *kept
	if !check {
		if k, err = a.openKept(ctx, settings); err != nil {
			return err
		}
		defer k.close()
	}
	report, err := backup.Verify(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if sum != "" && sum != report.SHA256 {
		return fmt.Errorf("%s has the SHA-256 %s, and --sha256 wants another: it is not that backup", path, report.SHA256)
	}
	a.tellBackup(report)
	if check {
		return nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s again: %w", path, err)
	}
	done, err := backup.Restore(ctx, f, report.SHA256, backup.Target{Redis: k.redis, Objects: k.objects, Replace: replace})
	if err != nil {
		return notRestored(path, err, report.Head, done.Begun)
	}
	fmt.Fprintf(a.stdout, "restored; %d objects of later jobs were left out, %d that no record names were deleted\n", done.LeftOut, done.Deleted)
	return nil
}

// notRestored says what a restore that failed leaves, and what to do.
func notRestored(path string, err error, head backup.Head, begun bool) error {
	const stop = "systemctl stop glovebox-api glovebox-worker, on every host, and glovebox autoscale, which is one of the api's users; redis-cli CLIENT LIST says who is left"
	switch {
	case begun && errors.Is(err, backup.ErrRunning):
		return &failure{exitFailed, fmt.Errorf("restore %s: %w", path, err), "nothing is whole now: stop that (" + stop + "), then restore again with --replace"}
	case begun:
		return &failure{exitFailed, fmt.Errorf("restore %s: %w", path, err), "nothing is whole now: mend that, then restore again with --replace, before you start an api"}
	case errors.Is(err, backup.ErrRunning):
		return &failure{exitFailed, err, "stop them first: " + stop}
	case errors.Is(err, backup.ErrNotEmpty):
		return &failure{exitFailed, err, "--replace deletes them, and puts the backup in their place"}
	case errors.Is(err, backup.ErrOlder):
		return &failure{exitFailed, err, "nothing was deleted: the backup is from " + head.Server() + ", so restore into that version, or a newer one of the same kind"}
	case errors.Is(err, backup.ErrFull):
		return &failure{exitFailed, err, "nothing was deleted: redis-cli CONFIG SET maxmemory gives it more"}
	}
	return &failure{exitFailed, fmt.Errorf("restore %s: %w", path, err), "nothing was deleted"}
}
