package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) sessionRestartCommand() *cobra.Command {
	var name string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restart ID",
		Short: "Give a session a new interpreter",
		Long: `End a session's interpreter, and have a new one execute what comes next: what it knew is gone,
the session's files stay. What it executes ends as canceled; what waits is executed by the new one.`,
		Example: `  glovebox session restart default-s-abc…
  glovebox session restart --context js default-s-abc…`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				x, err := sessions.RestartSession(cmd.Context(), args[0], job.Restart{Context: name})
				if err != nil || !asJSON {
					return err
				}
				return a.printJSON(x)
			})
		},
	}
	cmd.Flags().StringVar(&name, "context", "", "restart that of the context `NAME` (default main)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

func (a *app) sessionContextsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "contexts ID",
		Short: "List the contexts of a session",
		Long: `List the contexts of a session. Each has an interpreter, and a state, of its own, and all have the
same files. "session exec --context" makes one.`,
		Example: `  glovebox session contexts default-s-abc…`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(sessions *producer.Client) error {
				list, err := sessions.SessionContexts(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.ContextList{Contexts: list})
				}
				return a.showContexts(list)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showContexts(list []job.SessionContext) error {
	w := a.table()
	fmt.Fprintln(w, "CONTEXT\tLANGUAGE\tGENERATION\tEXECUTIONS\tDIRECTORY\tCREATED")
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", plain(c.Name), plain(c.Language), c.Generation, c.Executions, plain(cmp.Or(c.Directory, ".")), c.CreatedAt.Local().Format(time.DateTime))
	}
	return w.Flush()
}
