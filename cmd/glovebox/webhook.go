package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) webhookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Show and rotate what your webhooks are signed with",
		Long: `Show and rotate what your webhooks are signed with. Each tenant has a secret of its own,
whsec_…, which signs and verifies, and a public key, whpk_…, which only verifies. Each
message is signed for both; a receiver needs one of them, as GLOVEBOX_WEBHOOK_SECRET for
"glovebox receive" or as the secret of any library for Standard Webhooks.

An operator sees and rotates any tenant's with --tenant and GLOVEBOX_ADMIN_TOKEN.`,
		Example: `  glovebox webhook secret
  glovebox webhook rotate --expire 48h
  glovebox webhook secret --tenant acme`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.webhookSecretCommand(), a.webhookKeysCommand(), a.webhookRotateCommand())
	return cmd
}

func (a *app) webhookSecretCommand() *cobra.Command {
	var tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Print the secret",
		Long: `Print the secret that verifies your webhooks, and while it is rotated the one before on a
second line. Whoever has it can sign: give it to your receiver and nobody else.`,
		Example: `  GLOVEBOX_WEBHOOK_SECRET=$(glovebox webhook secret) glovebox receive`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withWebhooks(cmd.Context(), tenant, func(hooks producer.Webhooks) error {
				list, err := hooks.WebhookSecrets(cmd.Context())
				if err != nil {
					return err
				}
				return a.showSecrets(list, asJSON)
			})
		},
	}
	webhookFlags(cmd, &tenant, &asJSON)
	return cmd
}

func (a *app) webhookKeysCommand() *cobra.Command {
	var tenant string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Print the public key",
		Long: `Print the public key that verifies your webhooks, and while it is rotated the one before
on a second line. It is no secret: nobody can sign with it.`,
		Example: `  GLOVEBOX_WEBHOOK_SECRET=$(glovebox webhook keys) glovebox receive`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withWebhooks(cmd.Context(), tenant, func(hooks producer.Webhooks) error {
				list, err := hooks.WebhookKeys(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.WebhookKeyList{Keys: list})
				}
				for _, k := range list {
					fmt.Fprintln(a.stdout, k.PublicKey)
					a.sayExpiry(k)
				}
				return nil
			})
		},
	}
	webhookFlags(cmd, &tenant, &asJSON)
	return cmd
}

func (a *app) webhookRotateCommand() *cobra.Command {
	var tenant string
	var asJSON bool
	var expire time.Duration
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Make a new secret and a new key, and print them",
		Long: `Make a new secret and a new key, and print the secret, then the one before. That one signs
each message, too, until it expires: give the new one to your receivers by then. While two
are valid this is refused, unless --expire is 0: then nothing but the new one signs from
now on, which is for a secret that got out.`,
		Example: `  glovebox webhook rotate
  glovebox webhook rotate --expire 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if expire < 0 || expire > producer.MaxWebhookKeep || expire%time.Second != 0 {
				return usagef("--expire %s: want whole seconds from 0 to %.0fh", expire, producer.MaxWebhookKeep.Hours())
			}
			return a.withWebhooks(cmd.Context(), tenant, func(hooks producer.Webhooks) error {
				list, err := hooks.RotateWebhookSecret(cmd.Context(), expire)
				if err != nil {
					return err
				}
				return a.showSecrets(list, asJSON)
			})
		},
	}
	webhookFlags(cmd, &tenant, &asJSON)
	cmd.Flags().DurationVar(&expire, "expire", producer.DefaultWebhookKeep, "how long the ones before sign, too: `TIME` such as 48h; 0 for no longer")
	return cmd
}

func webhookFlags(cmd *cobra.Command, tenant *string, asJSON *bool) {
	cmd.Flags().StringVar(tenant, "tenant", "", "of this `TENANT`, for an operator")
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// withWebhooks calls do with the webhooks of the tenant whose token there is, or of any
// to an operator.
func (a *app) withWebhooks(ctx context.Context, tenant string, do func(producer.Webhooks) error) error {
	if tenant == "" {
		return a.withJobs(func(own *producer.Client) error { return do(own) })
	}
	return a.withTenants(func(tenants *producer.Client) error {
		hooks, err := tenants.TenantWebhooks(ctx, tenant)
		if err != nil {
			return err
		}
		return do(hooks)
	})
}

func (a *app) showSecrets(list []producer.WebhookSecret, asJSON bool) error {
	if asJSON {
		return a.printJSON(producer.WebhookSecretList{Secrets: list})
	}
	for _, s := range list {
		fmt.Fprintln(a.stdout, s.Secret)
		a.sayExpiry(s.WebhookKey)
	}
	return nil
}

// sayExpiry goes to standard error, so that standard output can be used as it is.
func (a *app) sayExpiry(k producer.WebhookKey) {
	if k.ExpiresAt != nil {
		fmt.Fprintf(a.stderr, "the last one expires %s\n", k.ExpiresAt.Local().Format(time.DateTime))
	}
}
