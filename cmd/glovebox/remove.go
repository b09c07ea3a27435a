package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID…",
		Short: "Delete jobs that have ended, with all that they left",
		Long: `Delete jobs that have ended before their retention does: record, result, files and
charts, and what was still to be delivered to a webhook. There is no way back.

A job that is queued or runs is not touched, exit code 1: "glovebox cancel" ends it first.`,
		Example: `  glovebox rm default-abc…
  glovebox cancel default-abc… && glovebox get --wait default-abc… && glovebox rm default-abc…`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.remove(cmd.Context(), args) },
	}
}

// remove purges one job after the other, and goes on past one that it can't.
func (a *app) remove(ctx context.Context, ids []string) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	var errs []error
	for _, id := range ids {
		if err := jobs.Purge(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
		}
	}
	return errors.Join(errs...)
}
