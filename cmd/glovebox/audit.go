package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// auditPause is how often --follow looks for new entries.
const auditPause = time.Second

func (a *app) auditCommand() *cobra.Command {
	var o producer.AuditOptions
	var since string
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show who changed what: jobs, secrets, tenants, tokens",
		Long: `Show the audit log, the oldest entries first: who submitted, canceled or purged jobs, set
secrets, or changed tenants and tokens, by the id of the token and the address that it
came from, and whose token was wrong. It holds ids only: no code, output or secret.

Glovebox keeps some 100,000 entries about jobs, and 20,000 others. The api's own log has
each of them, too, with the message "audit": that one is kept for as long as you keep it.

This talks to the API as its operator, with GLOVEBOX_ADMIN_TOKEN.`,
		Example: `  glovebox audit --since 24h --tenant acme
  glovebox audit --action auth --follow
  glovebox audit --since 2026-11-20T00:00:00Z --json | jq 'select(.outcome != "ok")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Since, err = sinceTime(since, time.Now()); err != nil {
				return err
			}
			return a.withTenants(func(admin *producer.Client) error { return a.showAudit(cmd.Context(), admin, o, follow, asJSON) })
		},
	}
	cmd.Flags().StringVar(&o.Tenant, "tenant", "", "only what concerns the tenant `NAME`")
	cmd.Flags().StringVar(&o.Action, "action", "", "only this `ACTION`, such as job.submit, or kind of actions, such as job")
	cmd.Flags().StringVar(&since, "since", "1h", "`WHEN` to begin: 24h ago, or a time (RFC 3339)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an entry a line")
	return cmd
}

func (a *app) showAudit(ctx context.Context, admin *producer.Client, o producer.AuditOptions, follow, asJSON bool) error {
	lines := json.NewEncoder(a.stdout)
	lines.SetEscapeHTML(false)
	for {
		page, err := admin.Audit(ctx, o)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if asJSON {
				err = lines.Encode(e)
			} else {
				_, err = fmt.Fprintln(a.stdout, auditLine(e))
			}
			if err != nil {
				return err
			}
		}
		o.Cursor = page.Next
		switch {
		case page.More:
			continue
		case !follow:
			return nil
		}
		select {
		case <-time.After(auditPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func auditLine(e job.AuditEntry) string {
	return fmt.Sprintf("%s  %-8s %-15s %-16s %-20s %-15s %s", e.At.Local().Format(time.DateTime), e.Outcome, plain(e.Action), orDash(plain(e.Tenant)),
		orDash(plain(e.TokenID)), orDash(plain(e.Address)), plain(e.Object))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
