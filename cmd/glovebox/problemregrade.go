package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type regradeOptions struct {
	batchOptions

	from, priority, endedBefore string
}

func (a *app) problemRegradeCommand() *cobra.Command {
	var o regradeOptions
	cmd := &cobra.Command{
		Use:   "regrade DIGEST --from OLDER",
		Short: "Grade again what another problem graded",
		Long: `Grade by a stored problem what another one graded, OLDER, as a batch with a job for each
submission: those that were graded last first, up to 10,000. Jobs have the metadata and the
callback of those before, and low priority. Wait for their end, and print a table as "glovebox
batch submit" does, with its exit codes. Ctrl-C ends the waiting, not the batch.

A submission is kept as long as the job that graded it. What can't be graded again is said.`,
		Example: `  glovebox problem regrade "$(glovebox problem upload sum)" --from 9f86d0…
  glovebox problem regrade 3e23e8… --from 9f86d0… --out regraded --key "sum, second tests" --ended-before 2026-11-27T10:00:00Z`,
		Args: one("DIGEST"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.from == "" {
				return usagef("--from is missing: the digest of the problem that graded the submissions")
			}
			if o.noWait && o.out != "" {
				return usagef("--out waits for results, and --no-wait does not wait: give one of the two")
			}
			if o.key != "" && o.endedBefore == "" {
				return usagef("--ended-before is missing: with --key, the same regrade is about the same submissions")
			}
			return a.regrade(cmd.Context(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "`DIGEST` of the problem that graded the submissions before")
	f.StringVar(&o.priority, "priority", "", "high, normal or low (the default)")
	f.StringVar(&o.key, "key", "", "idempotency `KEY` of the batch, with --ended-before; by default one that only this command knows")
	f.StringVar(&o.endedBefore, "ended-before", "", "only submissions whose jobs had ended by this `TIME`, RFC 3339 (default now)")
	f.StringVar(&o.callback, "callback", "", "`URL` where batch.completed is posted")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE` that the batch carries; can be given several times")
	f.StringVar(&o.out, "out", "", "write results.jsonl to `DIR`")
	f.BoolVar(&o.noWait, "no-wait", false, "print the batch's id, and don't wait")
	f.BoolVar(&o.json, "json", false, "print the batch as JSON instead of the table; with --no-wait, what is left out, too")
	return cmd
}

func (a *app) regrade(ctx context.Context, digest string, o regradeOptions) error {
	r := producer.RegradeRequest{From: o.from, Priority: job.Priority(o.priority)}
	ended := time.Now().UTC().Truncate(time.Millisecond)
	var err error
	if o.endedBefore != "" {
		if ended, err = time.Parse(time.RFC3339, o.endedBefore); err != nil {
			return usagef("--ended-before %q: want a time, RFC 3339: 2026-11-27T10:00:00Z", o.endedBefore)
		}
	}
	r.EndedBefore, r.IdempotencyKey = &ended, cmp.Or(o.key, rand.Text())
	if r.Metadata, err = pairs("--metadata", o.metadata); err != nil {
		return err
	}
	if o.callback != "" {
		r.Callback = &job.Callback{URL: o.callback}
	}
	return a.withJobs(func(jobs *producer.Client) error {
		answer, err := jobs.Regrade(ctx, digest, r)
		if code := job.CodeOf(err); err != nil && (code == "" || code == job.CodeUnavailable) {
			return fmt.Errorf("%w: to go on with it, and make nothing twice, add --key %q --ended-before %s", err, r.IdempotencyKey, ended.Format(time.RFC3339Nano))
		}
		if err != nil {
			return err
		}
		for _, left := range answer.LeftOut {
			fmt.Fprintf(a.stderr, "%s is left out: %s\n", plain(left.ID), plain(left.Reason))
		}
		if more := answer.LeftOutTotal - len(answer.LeftOut); more > 0 {
			fmt.Fprintf(a.stderr, "%d more are left out\n", more)
		}
		switch {
		case o.noWait && o.json:
			return a.printJSON(answer)
		case o.noWait:
			fmt.Fprintln(a.stdout, plain(answer.Batch.ID))
			return nil
		}
		fmt.Fprintf(a.stderr, "batch %s\n", plain(answer.Batch.ID))
		return a.awaitBatch(ctx, jobs, answer.Batch, o.batchOptions)
	})
}
