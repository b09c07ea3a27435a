package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Add, list and revoke the tokens of a tenant",
		Long: `Add, list and revoke the tokens of a tenant. To rotate one, add another, hand it out,
and revoke the first: both are good meanwhile.`,
		Example: `  glovebox tenant token add acme --label ci
  glovebox tenant token revoke acme k7w3mq2a`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenAddCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return cmd
}

func (a *app) tokenAddCommand() *cobra.Command {
	var asked producer.TokenRequest
	var scopes []string
	var expires string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add TENANT",
		Short: "Make another token, and print it",
		Long: `Make another token of a tenant, and print it on standard output: it is shown this once,
and nobody can read it again.

A token without --scope may do everything that its tenant may. The scopes:
  submit   make jobs, batches and uploads, with the answer to one's own request, and cancel
  read     see jobs, what they print and their files
  approve  see and decide what a rule holds, unless the same token submitted it
  manage   set secrets, have messages sent again, purge jobs`,
		Example: `  glovebox tenant token add acme --label ci --scope submit,read --expires 2160h
  glovebox tenant token add acme --label dashboard --scope read --expires 2027-01-01`,
		Args: one("TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, scope := range scopes {
				asked.Scopes = append(asked.Scopes, job.Scope(scope))
			}
			var err error
			if asked.ExpiresAt, err = parseExpiry(expires, time.Now()); err != nil {
				return err
			}
			return a.withTenants(func(tenants *producer.Client) error {
				token, err := tenants.AddToken(cmd.Context(), args[0], asked)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(token)
				}
				fmt.Fprintf(a.stderr, "token %s of tenant %s, shown this once:\n", plain(token.ID), args[0])
				fmt.Fprintln(a.stdout, token.Secret)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&asked.Label, "label", "", "what you call it: `TEXT` of up to 64 bytes")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "the only `SCOPES` that it has, with commas: submit, read, approve, manage")
	cmd.Flags().StringVar(&expires, "expires", "", "`WHEN` it becomes worthless: in 720h, on 2027-01-01, or at 2027-01-01T12:00:00Z (default: never)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// parseExpiry reads when a token expires, the zero time for never.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if life, err := time.ParseDuration(text); err == nil {
		return now.Add(life), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--expires %q is no time: want a duration such as 720h, a day such as 2027-01-01, or RFC 3339", text)
}

func (a *app) tokenListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list TENANT",
		Short:   "List the tokens of a tenant, by their ids",
		Example: `  glovebox tenant token list acme`,
		Args:    one("TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.Client) error {
				t, err := tenants.GetTenant(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(t.Tokens)
				}
				w := a.table()
				printTokens(w, t.Tokens)
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke TENANT ID",
		Short:   "Make a token worthless, within a second everywhere",
		Example: `  glovebox tenant token revoke acme k7w3mq2a`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("a TENANT and the ID of a token are wanted: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.Client) error {
				if err := tenants.RevokeToken(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
				fmt.Fprintln(a.stderr, "revoked")
				return nil
			})
		},
	}
}
