package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) sessionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Execute code that goes on from the code before",
		Long: `Execute code that goes on from the code before: a session is an interpreter, in a sandbox of
its own, that keeps its state. It ends by "session end", at the end of its --ttl, or when it
has executed nothing for its --idle time. Until then it holds its memory, unless its worker
pauses it.`,
		Example: `  id=$(glovebox session start python)
  glovebox session exec $id 'x = 41'
  glovebox session exec $id 'print(x + 1)'
  glovebox session end $id`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.sessionStartCommand(), a.sessionExecCommand(), a.sessionRestartCommand(), a.sessionContextsCommand(), a.sessionFilesCommand(), a.sessionGetCommand(), a.sessionPutCommand(), a.sessionMkdirCommand(), a.sessionRemoveCommand(), a.sessionListCommand(), a.sessionShowCommand(), a.sessionExtendCommand(), a.sessionTranscriptCommand(), a.sessionNotebookCommand(), a.sessionReplayCommand(), a.sessionForkCommand(), a.sessionEndCommand())
	return cmd
}

func (a *app) sessionStartCommand() *cobra.Command {
	var o sessionOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "start RUNTIME",
		Short: "Start a session",
		Long: `Start a session of python, node, typescript, bash or multi (several languages side by side), and
print its id. It can be given code at once, which waits until a worker holds the session.`,
		Example: `  glovebox session start python
  glovebox session start node --ttl 30m --limit memory_mb=512
  glovebox session start bash --secret API_TOKEN`,
		Args: one("RUNTIME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.runtime = args[0]
			s, err := o.settings()
			if err != nil {
				return err
			}
			return a.withJobs(func(sessions *producer.Client) error {
				x, err := sessions.StartSession(cmd.Context(), s)
				if err != nil {
					return err
				}
				return a.printSession(x, asJSON)
			})
		},
	}
	o.add(cmd.Flags(), 0)
	cmd.Flags().StringVar(&o.key, "idempotency-key", "", "`KEY` of the session: the same again, within 24 hours, is the same session")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// printSession prints the id of a session that there is now, or all of it.
func (a *app) printSession(x job.Session, asJSON bool) error {
	if asJSON {
		return a.printJSON(x)
	}
	fmt.Fprintln(a.stdout, plain(x.ID))
	return nil
}

func (a *app) sessionExecCommand() *cobra.Command {
	var out, key, name, language string
	var wall time.Duration
	var asJSON bool
	var o specOptions // its files
	cmd := &cobra.Command{
		Use:   "exec ID CODE",
		Short: "Execute code in a session",
		Long: `Execute code in a session, and print what it prints; - reads it from standard input. It waits
for what the session was given before. Ctrl-C interrupts it, and the session's state stays.`,
		Example: `  glovebox session exec default-s-abc… 'print(x)'
  glovebox session exec --out . default-s-abc… - < plot.py
  glovebox session exec --context js --language javascript default-s-abc… '1 + 1'
  glovebox session exec --file data.csv default-s-abc… 'df = pandas.read_csv("data.csv")'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := job.SessionExecution{Code: args[1], WallMS: wall.Milliseconds(), Context: name, Language: language, IdempotencyKey: key}
			if e.Code == "-" {
				b, err := io.ReadAll(io.LimitReader(a.stdin, maxSessionCode+1))
				if err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
				if len(b) > maxSessionCode {
					return usagef("standard input has more than %d bytes, the most that one execution takes", maxSessionCode)
				}
				e.Code = string(b)
			}
			if !utf8.ValidString(e.Code) {
				return usagef("the code is not UTF-8, as a session's code has to be")
			}
			return a.withFiles(cmd.Context(), &o, func(sessions *producer.Client, files []job.File) error {
				e.Files = files
				return a.executeInSession(cmd.Context(), sessions, args[0], e, finishing{out: out, json: asJSON})
			})
		},
	}
	cmd.Flags().StringArrayVar(&o.files, "file", nil, "`[NAME=]PATH` of a file to place in the session's directory before; a large one is uploaded first")
	cmd.Flags().StringVar(&name, "context", "", "have the interpreter of the context `NAME` execute it, which is made if it is not there (default main)")
	cmd.Flags().StringVar(&language, "language", "", "`LANGUAGE` of a context that is made (default: the runtime's own)")
	cmd.Flags().StringVar(&out, "out", "", "download the files that it has changed to `DIR`")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of the execution: the same again in the session is executed once")
	cmd.Flags().DurationVar(&wall, "wall", 0, "how long it may take: `TIME` such as 5s (default and most: the session's wall_ms)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// maxSessionCode is beyond what the API takes, which says so better.
const maxSessionCode = 1 << 20

// executeInSession waits for the execution, and interrupts it when the user doesn't want to.
func (a *app) executeInSession(ctx context.Context, sessions *producer.Client, id string, e job.SessionExecution, f finishing) error {
	e.IdempotencyKey = cmp.Or(e.IdempotencyKey, rand.Text()) // so that the request can be repeated
	j, err := sessions.ExecuteInSession(ctx, id, e)
	if err != nil {
		return err
	}
	ended, err := sessions.Wait(ctx, j.ID)
	if err != nil && ctx.Err() != nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTime)
		defer cancel()
		if _, err := sessions.Cancel(stopping, j.ID); err != nil && !errors.Is(err, job.ErrEnded) {
			return err
		}
		fmt.Fprintln(a.stderr, "interrupted")
		return silent(exitInterrupted)
	}
	if err != nil {
		return err
	}
	if s := ended.Result.Session; s != nil && s.State == job.StateLost && !f.json {
		fmt.Fprintln(a.stderr, "the session's state is lost with this execution")
	}
	if s := ended.Result.Session; s != nil && len(s.LostContexts) > 0 && !f.json {
		fmt.Fprintf(a.stderr, "the state of other contexts is lost with this execution: %s\n", plain(strings.Join(s.LostContexts, ", ")))
	}
	return a.finish(ctx, sessions, *ended.Result, f)
}

// interruptTime is how long the API may take to be told of an interrupt.
const interruptTime = 5 * time.Second

func (a *app) sessionListCommand() *cobra.Command {
	var o producer.SessionListOptions
	var statuses []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the sessions",
		Long:    `List the sessions, newest first, also those that have ended lately.`,
		Example: "  glovebox session list\n  glovebox session list --status ready,busy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				for _, s := range statuses {
					o.Status = append(o.Status, job.SessionStatus(s))
				}
				page, err := sessions.ListSessions(cmd.Context(), o)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(page)
				}
				return a.showSessions(page)
			})
		},
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only sessions in these: `STATUS,…` of queued, ready, busy, paused, ended")
	cmd.Flags().StringVar(&o.Cursor, "cursor", "", "go on where a page ended: `CURSOR`")
	cmd.Flags().IntVar(&o.Limit, "limit", 0, "list `N` sessions at most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showSessions(page producer.SessionPage) error {
	w := a.table()
	fmt.Fprintln(w, "SESSION\tSTATUS\tRUNTIME\tEXECUTIONS\tCREATED")
	for _, x := range page.Sessions {
		status := string(x.Status)
		if x.End != nil {
			status += ": " + x.End.Reason
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", plain(x.ID), plain(status), plain(x.Runtime), x.Executions, x.CreatedAt.Local().Format(time.DateTime))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		fmt.Fprintf(a.stderr, "there may be more: add --cursor %s\n", plain(page.Next))
	}
	return nil
}

func (a *app) sessionShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Print a session",
		Long:    `Print a session as JSON: its status, its limits, and why it ended.`,
		Example: `  glovebox session show default-s-abc…`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				x, err := sessions.Session(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printJSON(x)
			})
		},
	}
}

func (a *app) sessionEndCommand() *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "end ID…",
		Short: "End sessions",
		Long: `End sessions. What they execute, and what waits for that, ends as canceled.

With --purge, everything that is kept of them and their executions is deleted besides: code,
results and files. That needs a token with the scope manage.`,
		Example: `  glovebox session end default-s-abc…`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				var errs []error
				for _, id := range args {
					_, err := sessions.EndSession(cmd.Context(), id)
					if err == nil && purge {
						err = sessions.PurgeSession(cmd.Context(), id)
					}
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "delete all that is kept of them and their executions")
	return cmd
}
