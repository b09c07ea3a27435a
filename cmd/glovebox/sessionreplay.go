package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/replay"
)

func (a *app) sessionReplayCommand() *cobra.Command {
	var o replay.Options
	var end, asJSON bool
	cmd := &cobra.Command{
		Use:   "replay ID",
		Short: "Execute again what a session has executed, in a new session",
		Long: `Start a session like that one, execute in it the code and files that it has executed, each once
and in their order, and say of each execution whether it came to the same: status, exit code,
what it printed, its results and its exception, files that it changed, and whether the state was
kept. The new session stays, and goes on from there: after the loss of the first one, or beside it.
The exit status is 1 where anything differs.

What reads a clock, draws random numbers or prints addresses differs each time. An execution
that was lost with its session is not executed again.`,
		Example: `  glovebox session replay default-s-abc…
  glovebox session replay default-s-abc… --upto 12
  glovebox session replay default-s-abc… --end && echo reproducible`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.UpTo < 0 || cmd.Flags().Changed("upto") && o.UpTo == 0 {
				return usagef("--upto %d: want the number of an execution, from 1", o.UpTo)
			}
			if !asJSON {
				o.Began = func(x job.Session) { fmt.Fprintf(a.stdout, "session %s\n", plain(x.ID)) }
				o.Each = func(s replay.Step) { fmt.Fprintf(a.stdout, "%5d  %s\n", s.Sequence, verdict(s)) }
			}
			return a.withJobs(func(sessions *producer.Client) error { return a.replay(cmd, sessions, args[0], o, end, asJSON) })
		},
	}
	cmd.Flags().Int64Var(&o.UpTo, "upto", 0, "replay executions up to number `N` (default all)")
	cmd.Flags().BoolVar(&end, "end", false, "end the new session when all is executed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the new session's id and the steps as JSON")
	return cmd
}

func (a *app) replay(cmd *cobra.Command, sessions *producer.Client, id string, o replay.Options, end, asJSON bool) error {
	ctx := cmd.Context()
	x, steps, err := replay.Run(ctx, sessions, id, o)
	if err != nil {
		return a.abandoned(ctx, sessions, x, end, err)
	}
	if end {
		if x, err = sessions.EndSession(ctx, x.ID); err != nil {
			return err
		}
	}
	if asJSON {
		if err := a.printJSON(struct {
			Session string        `json:"session"`
			Steps   []replay.Step `json:"steps"`
		}{x.ID, steps}); err != nil {
			return err
		}
	}
	return cameTo(steps)
}

// abandoned returns why a replay has failed. The session that the replay began is ended if end says so; else its id is said.
func (a *app) abandoned(ctx context.Context, sessions *producer.Client, x job.Session, end bool, why error) error {
	if x.ID == "" {
		return why
	}
	if end {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
		defer done()
		_, err := sessions.EndSession(ending, x.ID)
		if err == nil || job.CodeOf(err) == job.CodeSessionEnded {
			return why
		}
	}
	fmt.Fprintf(a.stderr, "the new session may go on: glovebox session end %s\n", plain(x.ID))
	return why
}

// cameTo is the exit code of a replay: it has failed where an execution came to something else.
func cameTo(steps []replay.Step) error {
	for _, s := range steps {
		if len(s.Differs) > 0 {
			return silent(exitFailed)
		}
	}
	return nil
}

// verdict is what is said of a step.
func verdict(s replay.Step) string {
	switch {
	case s.Skipped != "":
		return "skipped: " + s.Skipped
	case s.Same:
		return "same"
	}
	return "differs: " + strings.Join(s.Differs, ", ")
}
