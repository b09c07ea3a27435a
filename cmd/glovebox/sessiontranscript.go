package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) sessionTranscriptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "transcript ID",
		Short: "Print the results of all that a session has executed",
		Long: `Print the results of what a session has executed, oldest first, each as a line of JSON.
Executions that have not ended, or are no longer kept, are not in it. "glovebox verify
--session" says whether it is whole.`,
		Example: `  glovebox session transcript default-s-abc… > transcript.jsonl
  glovebox verify --session transcript.jsonl
  glovebox session transcript default-s-abc… | jq -r .stdout`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error { return a.transcript(cmd.Context(), sessions, args[0]) })
		},
	}
}

func (a *app) transcript(ctx context.Context, sessions *producer.Client, id string) error {
	var ids []string
	for o := (producer.SessionListOptions{Limit: producer.MaxPage}); ; {
		page, err := sessions.ListExecutions(ctx, id, o)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if j.Status.Final() {
				ids = append(ids, j.ID)
			}
		}
		if o.Cursor = page.Next; o.Cursor == "" {
			break
		}
	}
	for _, id := range slices.Backward(ids) {
		j, err := sessions.Get(ctx, id)
		if errors.Is(err, job.ErrNotFound) || err == nil && j.Result == nil { // purged meanwhile
			continue
		}
		if err != nil {
			return err
		}
		line, err := job.Marshal(j.Result)
		if err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
		if _, err := fmt.Fprintf(a.stdout, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}
