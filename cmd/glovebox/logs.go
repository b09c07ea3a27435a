package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) logsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logs ID",
		Short: "Print all that a job printed",
		Long: `Print all that a job printed: its standard output on standard output, its standard
error on standard error. A pipe or a file gets every byte; on a terminal, control
characters are shown as ^X.`,
		Example: `  glovebox logs default-abc…
  glovebox logs default-abc… 2>/dev/null | sort`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.logs(cmd.Context(), args[0]) },
	}
}

func (a *app) logs(ctx context.Context, id string) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	j, err := jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	if !j.Ended() {
		return &failure{
			exitFailed, fmt.Errorf("there is no output yet: the job is %s", j.Status),
			fmt.Sprintf("glovebox get --wait %s waits for its end", id),
		}
	}
	return a.printOutput(ctx, jobs, *j.Result)
}
