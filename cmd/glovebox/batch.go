package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) batchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "batch",
		Short: "Run many jobs at once, and collect what they made",
		Long: `Run up to 10,000 jobs as one batch: from a file of JSON Lines, a job a line, to a
table of how they went, with --out all results and artifacts in a directory.`,
		Example: `  echo '{"runtime":"python","source":"print(6*7)"}' > jobs.jsonl
  glovebox batch submit jobs.jsonl --out results`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.batchSubmitCommand(), a.batchGetCommand(), a.batchWaitCommand(), a.batchResultsCommand(), a.batchCancelCommand(), a.batchListCommand())
	return cmd
}

func (a *app) batchGetCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "get BATCH",
		Short:   "Show how far a batch is",
		Long:    "Show how far a batch is: its status, how its jobs ended so far, and why some were rejected.",
		Example: `  glovebox batch get default-b-abc…`,
		Args:    one("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(jobs *producer.Client) error {
				b, err := jobs.GetBatch(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.showBatch(b, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) batchCancelCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel BATCH",
		Short: "End a batch before its time",
		Long: `End a batch before its time. Its queued jobs end at once; those that run are stopped
within about a second. What has ended stays as it is, and the batch's own webhook is told
like of any other end.`,
		Example: `  glovebox batch cancel default-b-abc…`,
		Args:    one("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(jobs *producer.Client) error {
				b, err := jobs.CancelBatch(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.showBatch(b, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) batchListCommand() *cobra.Command {
	o := producer.BatchListOptions{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List batches, newest first",
		Long: `List batches, newest first, as long as their records are kept. Where there are more than
--limit, the last line says how to go on.`,
		Example: `  glovebox batch list --limit 5`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(jobs *producer.Client) error {
				page, err := jobs.ListBatches(cmd.Context(), o)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(page)
				}
				return a.showBatches(page)
			})
		},
	}
	cmd.Flags().IntVar(&o.Limit, "limit", 20, "list at most `N` batches")
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "go on where another list ended, at its `CURSOR`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) batchResultsCommand() *cobra.Command {
	var out string
	var from int
	cmd := &cobra.Command{
		Use:   "results BATCH",
		Short: "Print the results of a batch as JSON Lines",
		Long: `Print what has ended of a batch as JSON Lines, by index: {"index":0,"id":"…","result":{…}},
or an error in the place of the result where a job was rejected, or its result is kept no
longer or can't be read. With --out, write them to DIR/results.jsonl, and what job 7 made to
DIR/artifacts/7.`,
		Example: `  glovebox batch results default-b-abc… | jq -r 'select(.result.status != "succeeded") | .index'
  glovebox batch results --out results default-b-abc…`,
		Args: one("BATCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(jobs *producer.Client) error {
				if out != "" {
					return a.collectResults(cmd.Context(), jobs, args[0], from, out, nil)
				}
				lines := json.NewEncoder(untrusted(a.stdout))
				lines.SetEscapeHTML(false)
				return eachResult(cmd.Context(), jobs, args[0], from, func(r job.BatchResult) error { return lines.Encode(r) })
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write results and artifacts to `DIR`")
	cmd.Flags().IntVar(&from, "from", 0, "begin with the job of this `INDEX`")
	return cmd
}

// showBatch prints a batch as a person, or a program, reads it.
func (a *app) showBatch(b job.Batch, asJSON bool) error {
	if asJSON {
		return a.printJSON(b)
	}
	w := a.table()
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("batch", "%s", plain(b.ID))
	status := string(b.Status)
	if b.CancelRequested && !b.Status.Final() {
		status += ", being canceled"
	}
	line("status", "%s", plain(status))
	line("jobs", "%s", counts(b))
	line("created", "%s", b.CreatedAt.Local().Format(time.DateTime))
	if b.FinishedAt != nil {
		line("took", "%s", milliseconds(b.FinishedAt.Sub(b.CreatedAt).Milliseconds()))
	}
	for _, k := range sorted(b.Metadata) {
		line("metadata", "%s = %s", plain(k), plain(b.Metadata[k]))
	}
	if b.ResultsURL != "" {
		line("results", "%s", plain(b.ResultsURL))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, e := range b.Errors {
		fmt.Fprintf(a.stdout, "rejected: jobs[%d]: %s\n", e.Index, plain(e.Message))
	}
	if more := b.Rejected - len(b.Errors); more > 0 {
		fmt.Fprintf(a.stdout, "rejected: %d more\n", more)
	}
	return nil
}

// counts says how many jobs came to what: "980 succeeded, 20 failed, 3 rejected, 40 to go".
func counts(b job.Batch) string {
	var parts []string
	for _, s := range job.Statuses() {
		if n := b.Counts[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(s), "_", " ")))
		}
	}
	if b.Rejected > 0 {
		parts = append(parts, fmt.Sprintf("%d rejected", b.Rejected))
	}
	if left := b.Jobs - b.Ended; left > 0 {
		parts = append(parts, fmt.Sprintf("%d to go", left))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func (a *app) showBatches(page producer.BatchPage) error {
	w := a.table()
	fmt.Fprintln(w, "BATCH\tSTATUS\tCREATED\tJOBS")
	for _, b := range page.Batches {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(b.ID), plain(string(b.Status)), b.CreatedAt.Local().Format(time.DateTime), counts(b))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(a.stderr, "there may be more: add --cursor %s\n", plain(page.Next))
	}
	return nil
}

// eachResult visits the results of a batch from that index on. It bears with an API that
// is away for a while.
func eachResult(ctx context.Context, jobs producer.Batches, id string, from int, visit func(job.BatchResult) error) error {
	patience := newPatience()
	for {
		var failed error
		for r, err := range jobs.BatchResults(ctx, id, from) {
			if err != nil {
				failed = err
				break
			}
			if err := visit(r); err != nil {
				return err
			}
			from, patience = r.Index+1, newPatience()
		}
		if failed == nil {
			return nil
		}
		if err := patience.wait(ctx, failed); err != nil {
			return err
		}
	}
}
