package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) replCommand() *cobra.Command {
	r := repl{app: a}
	var o sessionOptions
	var forget bool
	cmd := &cobra.Command{
		Use:   "repl [RUNTIME]",
		Short: "Type code that goes on from the code before",
		Long: `Type code for a session in a sandbox: names stay from one line to the next, and files lie in
the session's /work. A line that is not finished, as "def f():" or what was pasted, goes on
until an empty line. Ctrl-C interrupts the code and keeps the state; Ctrl-D or exit ends the
session, but one that --session names. RUNTIME is python unless it is said: node,
typescript or bash, or multi, of which this is Python.

Pictures that the code saves appear in terminals that can show them: kitty, Ghostty, WezTerm
and iTerm2. The session ends by itself after --idle without an execution.

The up arrow brings back what was typed before, also in earlier sessions of the runtime: it is
kept in $XDG_STATE_HOME/glovebox (~/.local/state/glovebox), unless --no-history says so.`,
		Example: `  glovebox repl
  glovebox repl node --limit memory_mb=512
  glovebox repl --out charts
  glovebox repl --session default-s-abc…`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.runtime = "python"
			if len(args) > 0 {
				o.runtime = args[0]
			}
			if r.id != "" && (len(args) > 0 || o.changed(cmd.Flags())) {
				return usagef("--session %s goes on with a session that is there: RUNTIME, --ttl, --idle, --max-executions, --max-cpu, --limit, --env, --secret and --metadata are for a new one", r.id)
			}
			if o.ttl > 0 && !cmd.Flags().Changed("idle") {
				o.idle = min(o.idle, o.ttl)
			}
			settings, err := o.settings()
			if err != nil {
				return err
			}
			terminal, err := a.openConsole()
			if err != nil {
				return err
			}
			return a.withJobs(func(sessions *producer.Client) error {
				r.sessions, r.lines = sessions, terminal
				if !forget {
					r.remember = terminal.remember
				}
				return r.run(cmd.Context(), settings)
			})
		},
	}
	o.add(cmd.Flags(), 30*time.Minute)
	cmd.Flags().StringVar(&r.id, "session", "", "go on with the session `ID`, and leave it at the end")
	cmd.Flags().BoolVar(&forget, "no-history", false, "neither read nor keep what is typed")
	cmd.Flags().StringVar(&r.out, "out", "", "download the files that the code has changed to `DIR`")
	return cmd
}

// lines are what somebody types.
type lines interface {
	// ReadLine fails with io.EOF when there is no more, and with errCleared for a line that was given up by Ctrl-C.
	// pasted means that there may be more at once.
	ReadLine(ctx context.Context, prompt string) (line string, pasted bool, err error)
}

// leaving is what people type to leave an interpreter.
var leaving = []string{"exit", "exit()", "quit", "quit()", ".exit"}

var errCleared = errors.New("the line was given up")

// repl reads code and has a session execute it, until there is no more.
type repl struct {
	app      *app
	sessions *producer.Client
	lines    lines
	id, out  string
	runtime  string
	prompt   string
	remember func(*history) // nil where nothing is kept
}

func (r *repl) run(ctx context.Context, s job.SessionSettings) (err error) {
	interrupts := make(chan os.Signal, 1)
	signal.Reset(os.Interrupt) // it ends the code, not this process
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	leave, err := r.enter(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	defer r.recall()()
	for {
		code, err := r.read(ctx)
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(r.app.stderr) // behind the prompt
			return nil
		case err != nil:
			return err
		case code == "":
			continue
		case slices.Contains(leaving, strings.TrimSpace(code)):
			return nil
		}
		if err := r.execute(ctx, code, interrupts); err != nil {
			return err
		}
	}
}

// enter finds the session, or starts one, which leave ends.
func (r *repl) enter(ctx context.Context, s job.SessionSettings) (leave func() error, err error) {
	var x job.Session
	if r.id != "" {
		x, err = r.sessions.Session(ctx, r.id)
	} else {
		x, err = r.sessions.StartSession(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	if x.End != nil {
		return nil, fmt.Errorf("session %s has ended (%s): %s", plain(x.ID), plain(x.End.Reason), plain(x.End.Message))
	}
	r.prompt = "> "
	if x.Runtime == "python" {
		r.prompt = ">>> "
	}
	kept := r.id != ""
	r.id, r.runtime = x.ID, x.Runtime
	fmt.Fprintf(r.app.stderr, "%s in a sandbox, session %s. Ctrl-C interrupts, Ctrl-D leaves.\n", plain(x.Runtime), plain(x.ID))
	return func() error {
		if kept {
			fmt.Fprintf(r.app.stderr, "the session goes on: glovebox repl --session %s\n", plain(r.id))
			return nil
		}
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
		defer cancel()
		if _, err := r.sessions.EndSession(ending, r.id); err != nil && job.CodeOf(err) != job.CodeSessionEnded {
			return fmt.Errorf("%w\nthe session may go on: glovebox session end %s", err, plain(r.id))
		}
		return nil
	}, nil
}

// recall brings back what was typed before. That it can't is said, and no reason not to go on.
func (r *repl) recall() (done func()) {
	if r.remember == nil {
		return func() {}
	}
	tell := func(err error) {
		if err != nil {
			fmt.Fprintf(r.app.stderr, "glovebox: what is typed is not kept: %v\n", err)
		}
	}
	dir, err := r.app.stateDir()
	if err != nil {
		tell(err)
		return func() {}
	}
	h, err := openHistory(dir, r.runtime)
	if err != nil {
		tell(err)
		return func() {}
	}
	r.remember(h)
	return func() { tell(h.err) }
}

// read returns a whole piece of code; "" is none.
func (r *repl) read(ctx context.Context) (string, error) {
	var code strings.Builder
	prompt := r.prompt
	for goesOn := false; ; {
		line, pasted, err := r.lines.ReadLine(ctx, prompt)
		switch {
		case errors.Is(err, errCleared):
			return "", nil
		case errors.Is(err, io.EOF) && code.Len() > 0:
			return code.String(), nil
		case err != nil:
			return "", err
		case strings.TrimSpace(line) == "" && !pasted:
			return code.String(), nil
		}
		code.WriteString(line + "\n")
		if goesOn = goesOn || pasted || unfinished(line); !goesOn {
			return code.String(), nil
		}
		prompt = strings.Repeat(".", len(r.prompt)-1) + " "
	}
}

// unfinished reports whether more lines follow a first one, as far as its end tells.
func unfinished(line string) bool {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "@") || strings.Count(line, `"""`)%2 == 1 || strings.Count(line, "'''")%2 == 1 || strings.Count(line, "`")%2 == 1 {
		return true
	}
	return line != "" && strings.ContainsRune(`:\{([,`, rune(line[len(line)-1]))
}

// execute shows what the code does. A first Ctrl-C interrupts it; a second one doesn't wait for that.
func (r *repl) execute(ctx context.Context, code string, interrupts <-chan os.Signal) error {
	select {
	case <-interrupts: // it was for the code before
	default:
	}
	j, err := r.sessions.ExecuteInSession(ctx, r.id, job.SessionExecution{Code: code, IdempotencyKey: rand.Text()})
	if invalid := new(job.Invalid); errors.As(err, invalid) {
		fmt.Fprintf(r.app.stderr, "glovebox: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan struct{})
	defer func() { <-ended }()
	defer stop()
	go func() {
		defer close(ended)
		select {
		case <-watching.Done():
			return
		case <-interrupts:
		}
		if _, err := r.sessions.Cancel(watching, j.ID); err != nil && watching.Err() == nil && job.CodeOf(err) != job.CodeEnded {
			fmt.Fprintf(r.app.stderr, "glovebox: the code could not be interrupted, Ctrl-C leaves: %v\n", err)
		}
		select {
		case <-watching.Done():
		case <-interrupts:
			stop()
		}
	}()
	result, err := r.app.watchUntilStart(watching, r.sessions, j.ID, func() {})
	if err != nil && watching.Err() != nil {
		return silent(exitInterrupted)
	}
	if err != nil {
		return fmt.Errorf("%w\nthe code may go on: glovebox get --wait %s", err, j.ID)
	}
	stop()
	<-ended
	return r.show(ctx, result, interrupts)
}

// show says what the code itself didn't. Ctrl-C ends it before it has fetched all files.
func (r *repl) show(ctx context.Context, result job.Result, interrupts <-chan os.Signal) error {
	showing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-interrupts:
			stop()
		case <-showing.Done():
		}
	}()
	err := r.tell(showing, result)
	if err != nil && showing.Err() != nil && ctx.Err() == nil {
		fmt.Fprintln(r.app.stderr, "glovebox: interrupted: not all files are fetched")
		return nil
	}
	return err
}

func (r *repl) tell(ctx context.Context, result job.Result) error {
	a := r.app
	if why := endedBy(result); why != "" && result.Status != job.Canceled { // which was asked for
		fmt.Fprintf(a.stderr, "glovebox: %s\n", why)
	}
	if s := result.Session; s != nil && s.State == job.StateLost {
		fmt.Fprintln(a.stderr, "glovebox: all names are lost, the files are kept: the next line has a new interpreter")
	}
	remark := func(job.Artifact) string { return "" }
	if r.out != "" {
		if err := a.download(ctx, r.sessions, result, r.out); err != nil {
			return err
		}
		remark = func(made job.Artifact) string { return "saved as " + plain(saved(r.out, made)) }
	}
	listArtifacts(a.stderr, result, remark)
	return a.showPictures(ctx, r.sessions, result)
}
