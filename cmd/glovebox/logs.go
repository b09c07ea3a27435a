package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print all that a job printed",
		Long: `Print all that a job printed: its standard output on standard output, its standard
error on standard error. A pipe or a file gets every byte; on a terminal, control
characters are shown as ^X.

With --follow, of a job that runs: print what it has printed so far, then what it prints
while it does, until it ends. The exit code then tells how it went, as with "glovebox
submit --wait". Ctrl-C ends the following, not the job. A job whose worker is lost runs
again from the beginning, and so does its output; a line on standard error says so.`,
		Example: `  glovebox logs default-abc…
  glovebox logs --follow default-abc…
  glovebox logs default-abc… 2>/dev/null | sort`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.logs(cmd.Context(), args[0], follow) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	return cmd
}

func (a *app) logs(ctx context.Context, id string, follow bool) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	if follow {
		result, err := a.follow(ctx, jobs, id, forever)
		if err != nil {
			return err
		}
		return a.finish(ctx, jobs, result, finishing{printed: true})
	}
	j, err := jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	if !j.Ended() {
		return &failure{
			exitFailed, fmt.Errorf("there is no output yet: the job is %s", j.Status),
			fmt.Sprintf("glovebox logs --follow %s prints it while it comes", id),
		}
	}
	return a.printOutput(ctx, jobs, *j.Result)
}
