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
	wait string
	out  string
	json bool
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

With --out, download the files and charts that the job made, into a directory.

With --artifact, give the program a file that a job before it left: it goes from the
bucket into the sandbox, not through here.

With --image, run a command in an image of your own, which the operator has to allow:
FILEs are placed in its working directory, and nothing of the image's own entry point,
environment or user is used.

The runtime is guessed from the file's name, unless --runtime gives it. "glovebox
runtimes list" shows what there is, and the images that are allowed. The limits are ` + strings.Join(limitNames(), ", ") + `.`,
		Example: `  glovebox submit --wait hello.py
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

// untilEnd is --wait without a duration.
const untilEnd = "until it ends"

func (a *app) submit(ctx context.Context, o submitOptions) error {
	waitFor, err := waitTime(o.wait, o.out)
	if err != nil {
		return err
	}
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
	if j, err = a.await(ctx, jobs, j.ID, waitFor); err != nil {
		return err
	}
	return a.finish(ctx, jobs, *j.Result, o.out, o.json)
}

// waitTime is how long to wait, 0 for not at all.
func waitTime(wait, out string) (time.Duration, error) {
	const forever = 365 * 24 * time.Hour
	if wait == "" && out != "" || wait == untilEnd || wait == "true" {
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
	switch {
	case err == nil:
		return j, nil
	case ctx.Err() != nil:
		fmt.Fprintf(a.stderr, "\nThe job goes on. \"glovebox get %s\" shows how it goes, \"glovebox cancel %s\" ends it.\n", id, id)
		return j, silent(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil:
		fmt.Fprintf(a.stderr, "not ended after %s; the job goes on: glovebox get --wait %s\n", most, id)
		return j, silent(exitGoesOn)
	}
	return j, err
}

// finish prints a result, downloads what the job made, and answers how it went.
func (a *app) finish(ctx context.Context, jobs producer.Jobs, r job.Result, out string, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.printOutput(ctx, jobs, r); err != nil {
		return err
	}
	remark := func(job.Artifact) string { return "" }
	if out != "" {
		if err := a.download(ctx, jobs, r, out); err != nil {
			return err
		}
		remark = func(f job.Artifact) string { return "saved as " + plain(saved(out, f)) }
	}
	if !asJSON {
		account(a.stderr, r, remark)
		if out == "" && len(r.Artifacts) > 0 {
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
func guessRuntime(ctx context.Context, jobs producer.Jobs, source string) (string, error) {
	list, err := jobs.Runtimes(ctx)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", producer.ErrNoRuntimes
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
