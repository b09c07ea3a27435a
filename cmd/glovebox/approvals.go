package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Decide about jobs that a rule holds",
		Long: `Decide about jobs that a rule holds ("glovebox policy --help"). The token needs the scope
approve, and nobody decides about a job that was submitted with the same token.

"approvals show" prints what would run, and its hash; a decision names that hash, so nothing
but what was shown is approved. A job without a decision in time ends as canceled.`,
		Example: `  glovebox tenant token add acme --label reviewer --scope approve
  glovebox approvals list
  glovebox approvals show ID
  glovebox approvals approve ID --input-hash HASH --note 'looked at it'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.approvalsListCommand(), a.approvalsShowCommand(),
		a.decideCommand("approve ID", "Let a job run", "Let a job run that a rule holds. --input-hash is what \"approvals show\" printed: where the job is another one, nothing is approved.",
			"glovebox approvals approve ID --input-hash HASH", producer.Approvals.Approve),
		a.decideCommand("reject ID", "End a job instead", "End a job that a rule holds, as canceled. The note is told to whoever submitted it.",
			"glovebox approvals reject ID --input-hash HASH --note 'no network in exercises'", producer.Approvals.Reject),
	)
	return cmd
}

func (a *app) approvalsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List jobs that wait for a decision",
		Long:    `List jobs that wait for a decision: first those that end soonest without one.`,
		Example: `  glovebox approvals list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(approvals *producer.Client) error {
				list, err := approvals.Approvals(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.ApprovalList{Approvals: list})
				}
				w := a.table()
				fmt.Fprintln(w, "ID\tRULE\tRUNTIME\tSUBMITTED\tUNTIL\tMESSAGE")
				for _, p := range list {
					if p.Hold == nil {
						continue // decided about meanwhile
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", plain(p.ID), plain(p.Hold.Rule), plain(runtimeOrImage(p.Runtime)),
						p.Timing.CreatedAt.Local().Format(time.DateTime), p.Hold.ExpiresAt.Local().Format(time.DateTime), plain(p.Hold.Message))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runtimeOrImage(r job.Runtime) string {
	if r.Name == "" {
		return r.Image
	}
	return r.Name
}

func (a *app) approvalsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show what would run",
		Long: `Show why a job is held, and what would run: the whole job as JSON, and its source as text.
Nothing in it reaches the terminal as a control character.`,
		Example: `  glovebox approvals show ID
  glovebox approvals show ID --json | jq -r .spec.source`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(approvals *producer.Client) error {
				p, err := approvals.Approval(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(p)
				}
				return a.showPending(p)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showPending(p job.Pending) error {
	if p.Spec == nil || p.Hold == nil {
		return errors.New("the API answered no job to decide about")
	}
	w := a.table()
	fmt.Fprintf(w, "job\t%s\n", plain(p.ID))
	if p.Session != "" {
		fmt.Fprintf(w, "session\t%s (what it executed before can change what this does)\n", plain(p.Session))
	}
	fmt.Fprintf(w, "rule\t%s\n", plain(p.Hold.Rule))
	if p.Hold.Message != "" {
		fmt.Fprintf(w, "message\t%s\n", plain(p.Hold.Message))
	}
	fmt.Fprintf(w, "submitted\t%s\n", p.Timing.CreatedAt.Local().Format(time.DateTime))
	fmt.Fprintf(w, "until\t%s\n", p.Hold.ExpiresAt.Local().Format(time.DateTime))
	if err := w.Flush(); err != nil {
		return err
	}
	shown := *p.Spec
	shown.Source = "" // it follows
	fmt.Fprintln(a.stdout, "\nWhat would run:")
	var spec strings.Builder
	if err := writeJSON(&spec, shown); err != nil {
		return err
	}
	out := untrusted(a.stdout)
	if _, err := io.WriteString(out, inOrder(spec.String())); err != nil {
		return err
	}
	if p.Spec.Source != "" {
		fmt.Fprintln(a.stdout, "\nIts source:")
		if _, err := io.WriteString(out, inOrder(indent(p.Spec.Source))+"\n"); err != nil {
			return err
		}
	}
	if strings.ContainsFunc(spec.String()+p.Spec.Source, reorders) {
		fmt.Fprintln(a.stdout, "\nIt has characters that change the order in which a terminal shows what follows (\\u202e and the like, CVE-2021-42574): they are written out here.")
	}
	_, err := fmt.Fprintf(a.stdout, "\nglovebox approvals approve %s --input-hash %s\n", plain(p.ID), plain(p.Hold.InputHash))
	return err
}

// inOrder escapes what has a text read in another order than it has: who approves it has to see what would run.
func inOrder(text string) string { return escaped(text, reorders) }

func reorders(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// decideCommand is one of the two decisions.
func (a *app) decideCommand(use, short, long, example string, decide func(producer.Approvals, context.Context, string, job.Decision) (job.Summary, error)) *cobra.Command {
	var d job.Decision
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: "  " + example,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.InputHash == "" {
				return usagef("--input-hash is missing: \"glovebox approvals show %s\" prints it with what would run", args[0])
			}
			return a.withJobs(func(approvals *producer.Client) error {
				r, err := decide(approvals, cmd.Context(), args[0], d)
				if err == nil {
					fmt.Fprintln(a.stdout, plain(string(r.Status)))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&d.InputHash, "input-hash", "", "the `HASH` that \"approvals show\" printed")
	cmd.Flags().StringVar(&d.Note, "note", "", "`TEXT` that is kept with the job")
	return cmd
}
