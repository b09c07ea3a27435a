package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type batchOptions struct {
	key, callback string
	metadata      []string
	out           string
	noWait, json  bool
}

func (a *app) batchSubmitCommand() *cobra.Command {
	var o batchOptions
	cmd := &cobra.Command{
		Use:   "submit FILE|-",
		Short: "Run the jobs of a file, and show how they went",
		Long: `Submit up to 10,000 jobs as one batch, from a file or from standard input (-), wait for
their end, and print a table: how many came to what, the slowest, and which failed and why.

FILE is JSON Lines, a job a line as POST /v1/jobs takes it; a first line {"batch": {…}}
may have metadata, callback and idempotency_key of the batch. A FILE whose name ends in
.json is one object, {"metadata": {…}, "jobs": [{…}, …]}. It is checked before anything
is sent, and sent again as often as need be: after an outage, or while the queue is full.
No job is made twice by that. --key names the batch, so that the same command goes on with
it within 15 minutes of being stopped, and finds it for 24 hours.

A job that is not valid is rejected, and the others run. Ctrl-C ends the waiting, not the
batch.

Exit codes: 0 every job succeeded, 1 some did not or were rejected, 3 Glovebox failed at
some.`,
		Example: `  glovebox batch submit jobs.jsonl
  glovebox batch submit jobs.jsonl --out results --key "import 17"
  seq 100 | jq -c '{runtime:"python", source:"print(\(.)**2)"}' | glovebox batch submit -
  glovebox batch submit --no-wait --callback https://example.com/hook jobs.jsonl`,
		Args: one("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.submitBatch(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "idempotency `KEY` of the batch; by default one that only this command knows")
	f.StringVar(&o.callback, "callback", "", "`URL` where batch.completed is posted")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE` that the batch carries; can be given several times")
	f.StringVar(&o.out, "out", "", "write results.jsonl, and what the jobs made, to `DIR`")
	f.BoolVar(&o.noWait, "no-wait", false, "print the batch's id once all of it is accepted, and don't wait")
	f.BoolVar(&o.json, "json", false, "print the batch as JSON instead of the table")
	return cmd
}

func (a *app) batchWaitCommand() *cobra.Command {
	var o batchOptions
	cmd := &cobra.Command{
		Use:   "wait BATCH",
		Short: "Wait for the end of a batch, and show how it went",
		Long: `Wait for the end of a batch, with its progress, and print the same table as "glovebox
batch submit", with the same exit codes. Ctrl-C ends the waiting, not the batch.`,
		Example: `  glovebox batch wait default-b-abc… --out results`,
		Args:    one("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(jobs *producer.Client) error {
				b, err := jobs.GetBatch(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.awaitBatch(cmd.Context(), jobs, b, o)
			})
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "write results.jsonl, and what the jobs made, to `DIR`")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the batch as JSON instead of the table")
	return cmd
}

func (a *app) submitBatch(ctx context.Context, name string, o batchOptions) error {
	if o.noWait && o.out != "" {
		return usagef("--out waits for results, and --no-wait does not wait: give one of the two")
	}
	file := a.batchFile(name)
	total := 0
	if file.again {
		var err error
		if total, err = file.count(); err != nil {
			return err
		}
	}
	return a.withJobs(func(jobs *producer.Client) error {
		b, err := a.sendBatch(ctx, jobs, file, total, o)
		if err != nil {
			return err
		}
		switch {
		case o.noWait && o.json:
			return a.printJSON(b)
		case o.noWait:
			fmt.Fprintln(a.stdout, b.ID)
			if b.Rejected > 0 {
				fmt.Fprintf(a.stderr, "%d jobs were rejected; \"glovebox batch get %s\" says why\n", b.Rejected, b.ID)
			}
			return nil
		}
		fmt.Fprintf(a.stderr, "batch %s\n", b.ID)
		return a.awaitBatch(ctx, jobs, b, o)
	})
}

// sendBatch submits the batch, and goes on with it when it could not all be received.
func (a *app) sendBatch(ctx context.Context, jobs producer.Batches, file batchFile, total int, o batchOptions) (job.Batch, error) {
	bar := a.progress("sending", total)
	defer bar.end()
	patience := newPatience()
	random := ""
	if file.again {
		random = "glovebox batch submit " + rand.Text()
	}
	taken := 0
	for {
		b, err := a.sendOnce(ctx, jobs, file, o, random, bar)
		var left *producer.BatchError
		if err == nil || !file.again || ctx.Err() != nil {
			return b, err
		}
		if errors.As(err, &left) && left.Batch.Total > taken { // it moves
			taken, patience = left.Batch.Total, newPatience()
		}
		bar.note("waiting to go on: " + plain(cause(err)))
		if err := patience.wait(ctx, err); err != nil {
			return b, err
		}
		bar.note("")
	}
}

// cause is what went wrong with a batch, in few words.
func cause(err error) string {
	var left *producer.BatchError
	if errors.As(err, &left) {
		err = left.Err
	}
	return err.Error()
}

func (a *app) sendOnce(ctx context.Context, jobs producer.Batches, file batchFile, o batchOptions, random string, bar *progress) (job.Batch, error) {
	source, err := file.read()
	if err != nil {
		return job.Batch{}, err
	}
	defer source.Close()
	options := source.options
	if o.key != "" {
		options.IdempotencyKey = o.key
	} else if options.IdempotencyKey == "" {
		options.IdempotencyKey = random
	}
	if o.callback != "" {
		options.Callback = &job.Callback{URL: o.callback}
	}
	metadata, err := pairs("--metadata", o.metadata)
	if err != nil {
		return job.Batch{}, err
	}
	if metadata != nil {
		options.Metadata = metadata
	}
	return jobs.SubmitBatch(ctx, producer.BatchOptions{BatchOptions: options, Progress: bar.set}, source.specs())
}

// patience is how long to bear with a Glovebox that is away, or has no room.
type patience struct {
	until time.Time
	delay time.Duration // before the next try
}

const (
	patienceTime  = time.Minute
	patienceDelay = 2 * time.Second // at first
	patienceMost  = 30 * time.Second
)

func newPatience() *patience { return &patience{time.Now().Add(patienceTime), patienceDelay} }

// wait returns nil once it is worth to try again, and err where it is not.
func (p *patience) wait(ctx context.Context, err error) error {
	var local *failure
	if errors.As(err, &local) { // the file's
		return err
	}
	code := job.CodeOf(err)
	full := code == job.CodeQuotaExceeded || code == job.CodeRateLimited
	if !full && (!producer.Temporary(err) || time.Now().After(p.until)) {
		return err
	}
	select {
	case <-time.After(p.delay):
		p.delay = min(2*p.delay, patienceMost)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
