package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/notebook"
)

func (a *app) sessionTranscriptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "transcript ID",
		Short: "Print all that a session has executed, and what came of it",
		Long: `Print what a session has executed, in its order: a line of JSON for each execution, with its
result and, as input, the code and files that it was given. Executions that have not ended, or
are no longer kept, are not in it. "glovebox verify --session" says whether it is whole.`,
		Example: `  glovebox session transcript default-s-abc… > transcript.jsonl
  glovebox verify --session transcript.jsonl
  glovebox session transcript default-s-abc… | jq -r .input.code`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error { return a.transcript(cmd.Context(), sessions, args[0]) })
		},
	}
}

func (a *app) transcript(ctx context.Context, sessions producer.Sessions, id string) error {
	out := untrusted(a.stdout)
	for e, err := range sessions.Transcript(ctx, id) {
		if err != nil {
			return err
		}
		line, err := job.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode execution: %w", err)
		}
		if _, err := fmt.Fprintf(out, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sessionNotebookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "notebook ID",
		Short: "Print a session as a Jupyter notebook",
		Long: `Print what a session has executed as a Jupyter notebook: a cell for each execution, with what
it printed, how it failed, and charts of up to 256 KiB. Executions that have not ended, or are
no longer kept, are not in it.`,
		Example: `  glovebox session notebook default-s-abc… > session.ipynb`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				return notebook.Write(cmd.Context(), untrusted(a.stdout), sessions, args[0])
			})
		},
	}
}
