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

type getOptions struct {
	wait, out string
	json      bool
}

func (a *app) getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a job: its status, and once it has ended its result",
		Long: `Show a job: its status, and once it has ended how it went, what it printed (the
beginning; "glovebox logs" prints all) and what it made, with URLs that work without a
token until the job's record expires.

Exit code 0 says that the job was found, however it went.`,
		Example: `  glovebox get default-abc…
  glovebox get --wait --json default-abc… | jq .status
  glovebox get --out charts default-abc…`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.get(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.wait, "wait", "", "wait for the end of the job, for at most `DURATION` (--wait=30s) if given")
	cmd.Flags().Lookup("wait").NoOptDefVal = untilEnd
	cmd.Flags().StringVar(&o.out, "out", "", "download what the job made to `DIR`")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (a *app) get(ctx context.Context, id string, o getOptions) error {
	waitFor, err := waitTime(o.wait, false)
	if err != nil {
		return err
	}
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	var j producer.Job
	if waitFor > 0 {
		j, err = a.await(ctx, jobs, id, waitFor)
	} else {
		j, err = jobs.Get(ctx, id)
	}
	if err != nil {
		return err
	}
	if o.json {
		err = a.printJSON(j)
	} else {
		err = a.show(j)
	}
	if err != nil || o.out == "" {
		return err
	}
	if !j.Ended() {
		return &failure{exitFailed, fmt.Errorf("there is nothing to download yet: the job is %s", j.Status), "--wait waits for its end"}
	}
	if err := a.download(ctx, jobs, *j.Result, o.out); err != nil {
		return err
	}
	for _, f := range j.Result.Artifacts {
		fmt.Fprintf(a.stderr, "saved as %s\n", plain(saved(o.out, f)))
	}
	return nil
}

// show prints a job as a person reads it.
func (a *app) show(j producer.Job) error {
	w := a.table()
	line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	line("job", "%s", j.ID)
	status := stateNow(j.Summary, time.Now())
	if r := j.Result; r != nil {
		status = strings.TrimSpace(headline(*r) + " " + timing(*r))
	}
	line("status", "%s", status)
	line("runtime", "%s", strings.TrimSpace(plain(j.Runtime.Name)+" "+plain(j.Runtime.Version)))
	if p := j.Placement.String(); p != "" && j.Result == nil {
		line("placement", "%s", plain(p))
	}
	if j.Waits != "" {
		line("waits", "%s", plain(j.Waits))
	}
	line("created", "%s", j.Timing.CreatedAt.Local().Format(time.DateTime))
	if at := j.Timing.Deadline; at != nil {
		line("deadline", "%s", at.Local().Format(time.DateTime))
	}
	for _, k := range sorted(j.Metadata) {
		line("metadata", "%s = %s", plain(k), plain(j.Metadata[k]))
	}
	if j.Result != nil {
		if j.Result.LimitsEnforced != "" {
			line("limits", "%s, on worker %s", plain(j.Result.LimitsEnforced), plain(j.Result.Worker))
		}
		if j.Result.Error != nil {
			line("error", "%s", plain(j.Result.Error.Message))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if j.Result == nil {
		return nil
	}
	a.excerpt("stdout", j.Result.Stdout, j.ID)
	a.excerpt("stderr", j.Result.Stderr, j.ID)
	if len(j.Result.Artifacts)+j.Result.ArtifactsSkippedTotal > 0 {
		fmt.Fprintf(a.stdout, "\nartifacts\n")
		listArtifacts(a.stdout, *j.Result, func(f job.Artifact) string { return f.URL })
	}
	return nil
}

// excerpt shows the first lines of a stream.
func (a *app) excerpt(name, text, id string) {
	const most = 20
	if text == "" {
		return
	}
	lines := strings.SplitAfterN(text, "\n", most+1)
	more := ""
	if len(lines) > most && lines[most] != "" {
		lines, more = lines[:most], fmt.Sprintf("\n    … (all of it: glovebox logs %s)", id)
	}
	fmt.Fprintf(a.stdout, "\n%s\n%s%s\n", name, indent(string(showControls([]byte(strings.Join(lines, ""))))), more)
}
