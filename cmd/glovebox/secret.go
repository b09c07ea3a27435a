package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Store secrets for jobs",
		Long: `Store secrets for jobs. A job that names one ("glovebox submit --secret NAME") has it as
an environment variable, and prints *** in its place. They are sealed to the workers'
key: nobody can read one back, so keep a copy elsewhere.

Masking is against accidents: a program can still send a secret out in another form, so
name one only for code that you trust with it. Files that the job leaves are not masked.`,
		Example: `  glovebox secret set API_TOKEN < token.txt
  glovebox submit --secret API_TOKEN --wait upload.py`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.secretSetCommand(), a.secretListCommand(), a.secretRemoveCommand())
	return cmd
}

func (a *app) secretSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Store a secret, from standard input",
		Long: fmt.Sprintf(`Store a secret, from standard input, in the place of one of that name. Jobs that start
from then on have it. It is text of %d bytes to 32 KiB; one line's end after it is not a
part of it. The name is that of the environment variable that it becomes.`, job.MinSecretBytes),
		Example: `  glovebox secret set API_TOKEN < token.txt
  openssl rand -hex 32 | glovebox secret set SESSION_KEY`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f, ok := a.stdin.(*os.File); ok && isTerminal(f) {
				return usagef("the secret comes from standard input, which is a terminal here: glovebox secret set %s < FILE", args[0])
			}
			value, err := io.ReadAll(io.LimitReader(a.stdin, job.MaxSecretBytes+3))
			if err != nil {
				return fmt.Errorf("read the secret: %w", err)
			}
			value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
			return a.withJobs(func(secrets *producer.Client) error {
				_, err := secrets.SetSecret(cmd.Context(), args[0], string(value))
				return err
			})
		},
	}
}

func (a *app) secretListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the names of the secrets",
		Long:    `List the names of the secrets, and when each was set last. What they are is never shown.`,
		Example: `  glovebox secret list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(secrets *producer.Client) error {
				list, err := secrets.ListSecrets(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.SecretList{Secrets: list})
				}
				w := a.table()
				fmt.Fprintln(w, "NAME\tSET")
				for _, s := range list {
					fmt.Fprintf(w, "%s\t%s\n", plain(s.Name), s.UpdatedAt.Local().Format(time.DateTime))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) secretRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME…",
		Short:   "Delete secrets",
		Long:    `Delete secrets. Jobs that are queued and name one will fail; those that run keep it.`,
		Example: `  glovebox secret rm API_TOKEN`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(secrets *producer.Client) error {
				var errs []error
				for _, name := range args {
					if err := secrets.DeleteSecret(cmd.Context(), name); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(name), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}
