package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type listOptions struct {
	status         []string
	runtime, since string
	problem        string
	limit          int
	cursor         string
	json           bool
}

func (a *app) listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long: `List jobs, newest first, as long as their records are kept. Where there are more than
--limit, the last line says how to go on.`,
		Example: `  glovebox list
  glovebox list --status queued --status running
  glovebox list --runtime python --since 1h --json | jq -r '.jobs[].id'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), o) },
	}
	cmd.Flags().StringArrayVar(&o.status, "status", nil, "jobs in this `STATUS`: queued, running, succeeded, failed, …; can be given several times")
	cmd.Flags().StringVarP(&o.runtime, "runtime", "r", "", "jobs on this runtime `NAME`")
	cmd.Flags().StringVar(&o.problem, "problem", "", "jobs that the stored problem of this `DIGEST` grades: the last 10,000")
	cmd.Flags().StringVar(&o.since, "since", "", "jobs created since `TIME`: 2026-11-20T09:00:00Z, or 90m for so long ago")
	cmd.Flags().IntVar(&o.limit, "limit", 20, "list at most `N` jobs")
	cmd.Flags().StringVar(&o.cursor, "cursor", "", "go on where another list ended, at its `CURSOR`")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (a *app) list(ctx context.Context, o listOptions) error {
	if o.limit < 1 {
		return usagef("--limit %d: want at least 1", o.limit)
	}
	options := producer.ListOptions{Runtime: o.runtime, Problem: o.problem, Cursor: o.cursor}
	for _, s := range o.status {
		options.Status = append(options.Status, job.Status(s))
	}
	var err error
	if options.Since, err = sinceTime(o.since, time.Now()); err != nil {
		return err
	}
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	page, err := collect(ctx, jobs, options, o.limit)
	if err != nil {
		return err
	}
	if o.json {
		return a.printJSON(page)
	}
	return a.showList(page)
}

// collect reads pages until there are so many jobs.
func collect(ctx context.Context, jobs producer.Lister, o producer.ListOptions, limit int) (producer.JobPage, error) {
	all := producer.JobPage{Jobs: []job.Summary{}}
	for {
		o.Limit = min(limit-len(all.Jobs), producer.MaxPage)
		page, err := jobs.List(ctx, o)
		if err != nil {
			return all, err
		}
		all.Jobs = append(all.Jobs, page.Jobs...)
		o.Cursor, all.Next = page.Next, page.Next
		if page.Next == "" || len(all.Jobs) >= limit {
			return all, nil
		}
	}
}

func (a *app) showList(page producer.JobPage) error {
	w := a.table()
	fmt.Fprintln(w, "JOB\tSTATUS\tRUNTIME\tCREATED\tTOOK")
	for _, j := range page.Jobs {
		took := ""
		if j.Timing.FinishedAt != nil {
			took = milliseconds(max(j.Timing.FinishedAt.Sub(j.Timing.CreatedAt), 0).Milliseconds())
		}
		runtime := j.Runtime.Name
		if runtime == "" { // an image of its own
			runtime, _, _ = strings.Cut(j.Runtime.Image, "@")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(j.ID), stateNow(j, time.Now()), plain(runtime), j.Timing.CreatedAt.Local().Format(time.DateTime), took)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return a.sayMore(page.Next)
}

// sayMore says how a list goes on that has another page.
func (a *app) sayMore(next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.stderr, "there may be more: add --cursor %s\n", plain(next))
	return err
}

// stateNow is the job's status, and for one that is to run later when.
func stateNow(j job.Summary, now time.Time) string {
	if at := j.Timing.RunAt; j.Status == job.Queued && at != nil && at.After(now) {
		return "queued until " + at.Local().Format(time.DateTime)
	}
	return plain(string(j.Status))
}

// sinceTime reads a time, or how long ago it was; "" is the beginning.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, usagef("--since %s: want a time such as 2026-11-20T09:00:00Z, or how long ago: 90m", s)
	}
	return at, nil
}
