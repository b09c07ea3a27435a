package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) cancelCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "End a job before its time",
		Long: `End a job before its time. A queued job ends at once; a running one is stopped within
about a second. Its result says canceled, and is posted to its webhook like any other.

A job that has ended already can't be cancelled: exit code 1.`,
		Example: `  glovebox cancel default-abc…`,
		Args:    one("ID"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.cancel(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	return cmd
}

func (a *app) cancel(ctx context.Context, id string, asJSON bool) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	j, err := jobs.Cancel(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		return a.printJSON(j)
	case j.Ended():
		fmt.Fprintln(a.stdout, "canceled")
	default:
		fmt.Fprintln(a.stdout, "it is running, and is being stopped")
	}
	return nil
}
