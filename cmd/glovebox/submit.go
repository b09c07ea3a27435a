package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type submitOptions struct {
	specOptions
	wait   string
	follow bool
	out    string
	json   bool
}

func (a *app) submitCommand() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use: `submit FILE|- [-- ARG…]
  glovebox submit --image NAME@sha256:DIGEST [FILE…] -- COMMAND [ARG…]`,
		Short: "Run a program in a sandbox",
		Long: `Submit a program, from a file or from standard input (-), and print the job's id.

With --wait, wait for the job to end and print what it printed: its standard output on
standard output, its standard error and an account of the job on standard error. The
exit code then tells how it went: 0 the job succeeded, 1 it did not, 3 Glovebox failed,
4 the time of --wait was up and the job goes on. Ctrl-C ends the waiting, not the job.

With --follow, do the same and print what the job prints while it does.

With --out, download the files and charts that the job made, into a directory.

With --file, place files beside the program; those above 128 KiB go to the bucket by
themselves, once for each content, and may be as large as the job's disk_mb and memory_mb.
With --artifact, give the program a file that a job before it left: it goes from the
bucket into the sandbox, not through here.

With --image, run a command in an image of your own, which the operator has to allow:
FILEs are placed in its working directory, and nothing of the image's own entry point,
environment or user is used.

The runtime is guessed from the file's name, unless --runtime gives it. "glovebox
runtimes list" shows what there is, and the images that are allowed. The limits are ` + strings.Join(limitNames(), ", ") + `.`,
		Example: `  glovebox submit --wait hello.py
  glovebox submit --follow train.py
  glovebox submit --wait --out charts --limit memory_mb=512 chart.py
  echo 'console.log(6 * 7)' | glovebox submit --runtime node --wait -
  glovebox submit --wait --file data.csv --arg --verbose report.py
  glovebox submit --wait --artifact in.csv=default-abc…/out.csv report.py
  glovebox submit --wait --image localhost/tool@sha256:… data.csv -- /bin/tool data.csv
  glovebox submit --callback http://127.0.0.1:9000/ --metadata student=42 solution.py
  glovebox submit --run-at 2026-11-20T22:00:00Z --deadline 2026-11-21T06:00:00Z nightly.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.take(args, cmd.ArgsLenAtDash()); err != nil {
				return err
			}
			return a.submit(cmd.Context(), o)
		},
	}
	o.specOptions.add(cmd)
	cmd.Flags().StringVar(&o.wait, "wait", "", "wait for the end of the job, for at most `DURATION` (--wait=30s) if given")
	cmd.Flags().Lookup("wait").NoOptDefVal = untilEnd
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "print what the job prints while it does; waits")
	cmd.Flags().StringVar(&o.out, "out", "", "download what the job made to `DIR`; waits")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the job, or with --wait its result, as JSON")
	return cmd
}

// take sorts the arguments, dash of which, or -1, stand before a --.
func (o *submitOptions) take(args []string, dash int) error {
	switch {
	case o.image != "" && (dash < 0 || dash == len(args)):
		return usagef("the command to run in the image is missing: glovebox submit --image %s [FILE…] -- COMMAND [ARG…]", o.image)
	case o.image != "":
		o.files, o.command = append(o.files, args[:dash]...), args[dash:]
	case len(args) == 0 || dash == 0:
		return usagef("FILE is missing: a path, or - for standard input")
	case len(args) > 1 && dash != 1:
		return usagef("one FILE is wanted; the program's own arguments go behind --: glovebox submit %s -- %s", args[0], args[1])
	default:
		o.source, o.args = args[0], append(o.args, args[1:]...)
	}
	return nil
}

// untilEnd is --wait without a duration, and forever how long that is.
const (
	untilEnd = "until it ends"
	forever  = 365 * 24 * time.Hour
)

func (a *app) submit(ctx context.Context, o submitOptions) error {
	waitFor, err := waitTime(o.wait, o.out != "" || o.follow)
	if err != nil {
		return err
	}
	if o.follow && o.json {
		return usagef("--follow prints what the job prints, --json its result: one of the two")
	}
	large := o.takeLarge(uploadAbove)
	spec, err := a.spec(o.specOptions)
	if err != nil {
		return err
	}
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	if spec.Runtime == "" && spec.Image == "" {
		if spec.Runtime, err = guessRuntime(ctx, jobs, o.source); err != nil {
			return err
		}
	}
	uploads, err := a.upload(ctx, jobs, large)
	if err != nil {
		return err
	}
	if spec.Files = append(spec.Files, uploads...); len(uploads) > 0 {
		spec.SpecVersion = spec.Needs()
	}
	j, err := jobs.Submit(ctx, spec)
	if err != nil {
		return err
	}
	if waitFor == 0 {
		if o.json {
			return a.printJSON(j)
		}
		fmt.Fprintln(a.stdout, j.ID)
		if isTerminal(a.stdout) {
			fmt.Fprintf(a.stderr, "queued; \"glovebox get %s\" shows how it goes\n", j.ID)
		}
		return nil
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "job %s\n", j.ID)
	}
	if o.follow {
		result, err := a.follow(ctx, jobs, j.ID, waitFor)
		if err != nil {
			return err
		}
		return a.finish(ctx, jobs, result, finishing{out: o.out, printed: true})
	}
	if !o.json {
		defer a.explainWait(ctx, jobs, j.ID, spec.Runtime)()
	}
	if j, err = a.await(ctx, jobs, j.ID, waitFor); err != nil {
		return err
	}
	return a.finish(ctx, jobs, *j.Result, finishing{out: o.out, json: o.json})
}

// explainLater is how long a job may wait before it is looked why.
const explainLater = 3 * time.Second

// explainWait says, once it takes long, what a job waits for, if that is not its turn: a worker, or its runtime to be built. It ends when the
// function that it returns is called.
func (a *app) explainWait(ctx context.Context, jobs *producer.Client, id, runtime string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(explainLater):
		}
		if j, err := jobs.Get(ctx, id); err == nil && j.Waits != "" {
			fmt.Fprintf(a.stderr, "it waits: %s\n", plain(j.Waits))
		}
		list, err := jobs.Runtimes(ctx)
		if err != nil {
			return // it is for the waiting to say what is wrong
		}
		for _, r := range list {
			if (r.Name == runtime || slices.Contains(r.Aliases, runtime)) && r.ImageDigest == "" && r.Isolation.Or() == job.GVisor {
				fmt.Fprintf(a.stderr, "%s is not built yet: \"glovebox dev\" builds it first, and says there how it goes\n", r.Name)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// waitTime is how long to wait, 0 for not at all. needed says that there is no way around it.
func waitTime(wait string, needed bool) (time.Duration, error) {
	if wait == "" && needed || wait == untilEnd || wait == "true" {
		return forever, nil
	}
	if wait == "" || wait == "false" {
		return 0, nil
	}
	d, err := time.ParseDuration(wait)
	if err != nil || d <= 0 {
		return 0, usagef("--wait=%s: want a duration such as 30s or 5m, or nothing at all", wait)
	}
	return d, nil
}

// await waits for the job's end. When it gives up it says so: the job goes on.
func (a *app) await(ctx context.Context, jobs producer.Jobs, id string, most time.Duration) (producer.Job, error) {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	j, err := jobs.Wait(waiting, id)
	if err != nil {
		err = a.gaveUp(ctx, waiting, id, most, err)
	}
	return j, err
}

// gaveUp says that the job goes on, where it is the waiting for it that has ended.
func (a *app) gaveUp(ctx, waiting context.Context, id string, most time.Duration, err error) error {
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(a.stderr, "\nThe job goes on. \"glovebox get %s\" shows how it goes, \"glovebox cancel %s\" ends it.\n", id, id)
		return silent(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil:
		fmt.Fprintf(a.stderr, "not ended after %s; the job goes on: glovebox get --wait %s\n", most, id)
		return silent(exitGoesOn)
	}
	return err
}

// finishing is what to do with a result.
type finishing struct {
	out     string // download what the job made to this directory
	json    bool
	printed bool // what the job printed, already
}

// finish prints a result, downloads what the job made, and answers how it went.
func (a *app) finish(ctx context.Context, files producer.Files, r job.Result, f finishing) error {
	var err error
	switch {
	case f.json:
		err = a.printJSON(r)
	case !f.printed:
		err = a.printOutput(ctx, files, r)
	}
	if err != nil {
		return err
	}
	remark := func(job.Artifact) string { return "" }
	if f.out != "" {
		if err := a.download(ctx, files, r, f.out); err != nil {
			return err
		}
		remark = func(made job.Artifact) string { return "saved as " + plain(saved(f.out, made)) }
	}
	if !f.json {
		account(a.stderr, r, remark)
		if f.out == "" && len(r.Artifacts) > 0 {
			fmt.Fprintf(a.stderr, "  download: glovebox get --out DIR %s\n", r.ID)
		}
	}
	return outcome(r)
}

// outcome is the exit code of a result.
func outcome(r job.Result) error {
	switch r.Status {
	case job.Succeeded:
		return nil
	case job.InternalError:
		return silent(exitGlovebox)
	default:
		return silent(exitFailed)
	}
}

// guessRuntime finds the runtime whose name or alias is the extension of the file.
func guessRuntime(ctx context.Context, catalog producer.Catalog, source string) (string, error) {
	list, err := catalog.Runtimes(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", job.ErrNoRuntimes
	}
	var names []string
	extension := strings.TrimPrefix(filepath.Ext(source), ".")
	for _, r := range list {
		if extension != "" && (r.Name == extension || slices.Contains(r.Aliases, extension)) {
			return r.Name, nil
		}
		names = append(names, r.Name)
	}
	what := "standard input has no name to guess it from"
	if source != "-" {
		what = fmt.Sprintf("no runtime goes by the extension of %s", filepath.Base(source))
	}
	return "", usagef("--runtime is needed, for %s: choose among %s", what, strings.Join(names, ", "))
}
