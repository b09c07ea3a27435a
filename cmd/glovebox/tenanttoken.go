package main

import (
	"fmt"

	"github.com/spf13/cobra"

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
	var label string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "add TENANT",
		Short: "Make another token, and print it",
		Long: `Make another token of a tenant, and print it on standard output: it is shown this once,
and nobody can read it again.`,
		Example: `  glovebox tenant token add acme --label ci`,
		Args:    one("TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.HTTP) error {
				token, err := tenants.AddToken(cmd.Context(), args[0], label)
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
	cmd.Flags().StringVar(&label, "label", "", "what you call it: `TEXT` of up to 64 bytes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) tokenListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list TENANT",
		Short:   "List the tokens of a tenant, by their ids",
		Example: `  glovebox tenant token list acme`,
		Args:    one("TENANT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.HTTP) error {
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
			return a.withTenants(func(tenants *producer.HTTP) error {
				if err := tenants.RevokeToken(cmd.Context(), args[0], args[1]); err != nil {
					return err
				}
				fmt.Fprintln(a.stderr, "revoked")
				return nil
			})
		},
	}
}
