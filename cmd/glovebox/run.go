package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// exitCannotRun is the exit code of "run" for whatever is not the program's doing.
	exitCannotRun = 125
	// silence is how long nothing is said of a job that doesn't start, or of input that doesn't come.
	silence = 3 * time.Second
	// canceling bounds the request that ends a job on Ctrl-C.
	canceling = 10 * time.Second
)

type runOptions struct {
	specOptions
	out string
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run FILE|- [ARG…]",
		Short: "Run a program in a sandbox, as if it ran here",
		Long: `Run a program in a sandbox as if it ran here: what it prints appears while it does, what
is piped into this command is its standard input, and its exit code is this command's.
Ctrl-C ends it.

With -i the program reads what is typed, or comes through a pipe, while it runs.

What follows FILE are the program's own arguments; flags of this command come before.

The exit code is 124 for a program that was stopped for its time, 137 for one that ran
out of memory, and 125 if Glovebox could not run it.

Files that it makes stay in Glovebox, unless --out says where to put them. "glovebox
submit" has what a job can have besides: a callback, a time, an image of your own.`,
		Example: `  glovebox run hello.py
  glovebox run --limit wall_ms=60000 train.py --epochs 3
  glovebox run --file data.csv --out charts report.py data.csv
  cat numbers.txt | glovebox run sum.js
  glovebox run -i guess.py
  echo 'print(6 * 7)' | glovebox run --runtime python -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.cannotRun(usagef("FILE is missing: a path, or - for standard input"))
			}
			o.source, o.args = args[0], args[1:]
			return a.cannotRun(a.runHere(cmd.Context(), o))
		},
	}
	cmd.Flags().SetInterspersed(false)
	o.addProgram(cmd)
	cmd.Flags().StringVar(&o.out, "out", "", "download what the program made to `DIR`")
	return cmd
}

// cannotRun gives an error the exit code that no program's can be taken for.
func (a *app) cannotRun(err error) error {
	var said silent
	if err == nil || errors.As(err, &said) {
		return err
	}
	f := *a.classify(err)
	f.code = exitCannotRun
	return &f
}

func (a *app) runHere(ctx context.Context, o runOptions) error {
	if o.interactive && o.source == "-" {
		return usagef("the program and what is typed for it can't both come from standard input")
	}
	large := o.takeLarge(uploadAbove)
	spec, err := a.spec(o.specOptions)
	if err != nil {
		return err
	}
	if o.stdinFile == "" && o.source != "-" && !o.interactive {
		if err := a.pipeStdin(ctx, &spec); err != nil {
			return err
		}
	}
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	if spec.Runtime == "" {
		if spec.Runtime, err = guessRuntime(ctx, jobs, o.source); err != nil {
			return err
		}
	}
	uploads, err := a.upload(ctx, jobs, large)
	if err != nil {
		return err
	}
	spec.Files = append(spec.Files, uploads...)
	spec.SpecVersion = spec.Needs()
	j, err := jobs.Submit(ctx, spec)
	if err != nil {
		return err
	}
	running := func() {}
	if o.interactive {
		running = sync.OnceFunc(func() { go a.typeInto(ctx, jobs, j.ID) }) // it ends with this command: nothing wakes who reads a terminal
	}
	result, err := a.watchUntilStart(ctx, jobs, j.ID, running)
	switch {
	case ctx.Err() != nil:
		return a.end(ctx, jobs, j.ID)
	case err != nil:
		return fmt.Errorf("%w\nthe job may go on: glovebox get --wait %s", err, j.ID)
	}
	return a.endsAs(ctx, jobs, result, o.out)
}

// pipeStdin gives the program what is piped into this command. A terminal is not asked: only a program that is interactive reads
// what is typed while it runs.
func (a *app) pipeStdin(ctx context.Context, spec *job.Spec) error {
	if f, ok := a.stdin.(*os.File); ok {
		if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
			return nil // a closed one has nothing
		}
	}
	type input struct {
		content []byte
		err     error
	}
	read := make(chan input, 1)
	go func() {
		content, err := a.read("-")
		read <- input{content, err}
	}()
	waits := time.AfterFunc(silence, func() {
		fmt.Fprintln(a.stderr, "glovebox: reading standard input for the program until it ends; < /dev/null gives it none")
	})
	defer waits.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case in := <-read:
		spec.Stdin, spec.StdinBase64 = textOrBase64(in.content)
		return in.err
	}
}

// watchUntilStart is watch, and says so of a job that waits for long.
func (a *app) watchUntilStart(ctx context.Context, jobs *producer.Client, id string, running func()) (job.Result, error) {
	waits := time.AfterFunc(silence, func() {
		fmt.Fprintf(a.stderr, "glovebox: job %s waits for a worker; Ctrl-C cancels it\n", id)
	})
	defer waits.Stop()
	return a.watch(ctx, jobs, id, func() { waits.Stop(); running() })
}

// end cancels a job that is not waited for any more.
func (a *app) end(ctx context.Context, jobs producer.Jobs, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), canceling)
	defer cancel()
	if _, err := jobs.Cancel(ctx, id); err != nil && job.CodeOf(err) != job.CodeEnded {
		fmt.Fprintf(a.stderr, "glovebox: the job could not be canceled and may go on: glovebox cancel %s: %v\n", id, err)
	}
	return silent(exitInterrupted)
}

// endsAs says what the program itself didn't, and has its exit code.
func (a *app) endsAs(ctx context.Context, files producer.Files, r job.Result, out string) error {
	if r.Compile != nil && r.Compile.ExitCode != 0 {
		if _, err := io.WriteString(untrusted(a.stderr), r.Compile.Output); err != nil {
			return err
		}
	}
	if why := endedBy(r); why != "" {
		fmt.Fprintf(a.stderr, "glovebox: %s\n", why)
	}
	if out != "" {
		if err := a.download(ctx, files, r, out); err != nil {
			return err
		}
	} else if len(r.Artifacts) > 0 {
		fmt.Fprintf(a.stderr, "glovebox: it made files; glovebox get --out DIR %s downloads them\n", r.ID)
		listArtifacts(a.stderr, r, func(job.Artifact) string { return "" })
	}
	switch {
	case r.Status == job.Succeeded:
		return nil
	case r.Status == job.InternalError, r.Status == job.Canceled:
		return silent(exitCannotRun)
	case r.ExitCode == nil || *r.ExitCode == 0: // whatever it was, it was no success
		return silent(exitFailed)
	}
	return silent(*r.ExitCode)
}

// endedBy is why a program ended, unless it exited by itself.
func endedBy(r job.Result) string {
	if r.Status == job.Succeeded || r.Status == job.CompileFailed || r.Status == job.Failed && r.Signal == "" {
		return ""
	}
	words := []string{headline(r)}
	if r.Limit != "" {
		words = append(words, "limit "+plain(r.Limit))
	}
	if r.Error != nil {
		words = append(words, plain(r.Error.Message))
	}
	return strings.Join(words, "; ")
}
