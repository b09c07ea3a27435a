package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) tenantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tenant",
		Short: "Manage who submits jobs: tenants, their quotas and tokens",
		Long: `Manage who submits jobs. A tenant has a name, tokens, and terms: quotas, the most that
its jobs may ask for, and which runtimes and callback hosts they may name. What is
another tenant's does not exist for it.

These commands talk to the API as its operator, with GLOVEBOX_ADMIN_TOKEN, which the api
was started with. What they change holds everywhere within a second.

The tenant "default", whose token is GLOVEBOX_TOKEN, needs no record. Create it to give
it terms, or tokens of its own.`,
		Example: `  glovebox tenant create acme --requests-per-minute 600 --jobs-queued 1000
  glovebox tenant list
  glovebox tenant disable acme`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.tenantCreateCommand(), a.tenantListCommand(), a.tenantShowCommand(), a.tenantUpdateCommand(),
		a.tenantDisableCommand(), a.tenantEnableCommand(), a.tokenCommand(),
	)
	return cmd
}

func (a *app) tenantCreateCommand() *cobra.Command {
	var o termsOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a tenant, and print its first token",
		Long: `Create a tenant, and print its first token on standard output: it is shown this once,
and nobody can read it again. A quota or maximum that is not given, or 0, is the
operator's own (GLOVEBOX_TENANT_QUOTAS): "glovebox tenant update" lifts that.`,
		Example: `  glovebox tenant create acme
  glovebox tenant create school --jobs-queued 5000 --running-at-once 20 --maximum wall_ms=10000 --allow-runtimes python,node`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			terms, err := o.apply(cmd, a.read, job.Terms{})
			if err != nil {
				return err
			}
			return a.createTenant(cmd.Context(), args[0], terms, asJSON)
		},
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print tenant and token as JSON")
	return cmd
}

func (a *app) createTenant(ctx context.Context, name string, terms job.Terms, asJSON bool) error {
	return a.withTenants(func(tenants *producer.Client) error {
		if _, err := tenants.CreateTenant(ctx, name, terms); err != nil {
			return err
		}
		token, err := tenants.AddToken(ctx, name, producer.TokenRequest{Label: "first"})
		if err != nil {
			return &failure{exitFailed, fmt.Errorf("the tenant is created, but has no token: %w", err), "make one: glovebox tenant token add " + name}
		}
		if asJSON {
			made, err := tenants.GetTenant(ctx, name)
			if err != nil {
				return err
			}
			return a.printJSON(struct {
				Tenant job.Tenant        `json:"tenant"`
				Token  producer.NewToken `json:"token"`
			}{made, token})
		}
		fmt.Fprintf(a.stderr, "created; this is the token of tenant %s, shown this once:\n", name)
		fmt.Fprintln(a.stdout, token.Secret)
		return nil
	})
}

func (a *app) tenantListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tenants, their quotas and what they use of them",
		Example: `  glovebox tenant list`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listTenants(cmd.Context(), asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) listTenants(ctx context.Context, asJSON bool) error {
	return a.withTenants(func(tenants *producer.Client) error {
		list, err := tenants.ListTenants(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return a.printJSON(list)
		}
		if len(list) == 0 {
			fmt.Fprintln(a.stderr, `no tenant has been created yet; "default" needs no record`)
			return nil
		}
		w := a.table()
		fmt.Fprintln(w, "TENANT\tSTATE\tREQUESTS/MIN\tRUNNING\tJOBS QUEUED\tBYTES QUEUED\tTOKENS\tCREATED")
		for _, t := range list {
			q := t.Terms.Quotas
			fmt.Fprintf(w, "%s\t%s\t%s\t%d of %s\t%d of %s\t%s of %s\t%d\t%s\n", plain(t.Name), tenantState(t), quota(q.RequestsPerMinute, fmt.Sprint(q.RequestsPerMinute)),
				t.Usage.Running, quota(q.RunningAtOnce, fmt.Sprint(q.RunningAtOnce)), t.Usage.JobsQueued, quota(q.JobsQueued, fmt.Sprint(q.JobsQueued)), bytesOf(t.Usage.BytesQueued), quota(q.BytesQueued, bytesOf(q.BytesQueued)),
				len(t.Tokens), t.CreatedAt.Format("2006-01-02"))
		}
		return w.Flush()
	})
}

func (a *app) tenantShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a tenant: its terms, tokens and what it uses",
		Example: `  glovebox tenant show acme`,
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.Client) error {
				t, err := tenants.GetTenant(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.showTenant(t, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showTenant(t job.Tenant, asJSON bool) error {
	if asJSON {
		return a.printJSON(t)
	}
	q := t.Terms.Quotas
	w := a.table()
	fmt.Fprintf(w, "tenant\t%s, %s, created %s\n", plain(t.Name), tenantState(t), t.CreatedAt.Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(w, "requests\t%s a minute\n", quota(q.RequestsPerMinute, fmt.Sprint(q.RequestsPerMinute)))
	fmt.Fprintf(w, "running\t%d of %s jobs\n", t.Usage.Running, quota(q.RunningAtOnce, fmt.Sprint(q.RunningAtOnce)))
	fmt.Fprintf(w, "queued\t%d of %s jobs, %s of %s\n", t.Usage.JobsQueued, quota(q.JobsQueued, fmt.Sprint(q.JobsQueued)),
		bytesOf(t.Usage.BytesQueued), quota(q.BytesQueued, bytesOf(q.BytesQueued)))
	fmt.Fprintf(w, "stored\t%s of %s, kept for %s\n", bytesOf(t.Usage.BytesStored), quota(q.BytesStored, bytesOf(q.BytesStored)), retention(t.Terms))
	if b := t.Terms.Budget; b.Nano > 0 {
		fmt.Fprintf(w, "budget\t%s a month, warned of at %s\n", job.NewCost(b.Nano).Amount, job.NewCost(b.WarnAt()).Amount)
	}
	fmt.Fprintf(w, "recorded\t%s of %s\n", bytesOf(t.Usage.BytesRecorded), ownQuota(q.BytesRecorded))
	fmt.Fprintf(w, "maximums\t%s\n", maximums(t.Terms.Maximums))
	restricted := len(t.Terms.Runtimes)+len(t.Terms.Images) > 0
	fmt.Fprintf(w, "runtimes\t%s\n", listed(t.Terms.Runtimes, restricted))
	fmt.Fprintf(w, "images\t%s\n", listed(t.Terms.Images, restricted))
	fmt.Fprintf(w, "callback hosts\t%s\n", listed(t.Terms.CallbackHosts, len(t.Terms.CallbackHosts) > 0))
	fmt.Fprintf(w, "placement\t%s\n", plain(cmp.Or(t.Terms.Placement.String(), "any worker that is not kept for others")))
	for _, r := range t.Terms.Policy {
		fmt.Fprintf(w, "rule\t%s: %s\t%s\n", plain(r.Name), plain(r.Then), plain(r.When))
	}
	printTokens(w, t.Tokens)
	return w.Flush()
}

func printTokens(w *tabwriter.Writer, tokens []job.Token) {
	for _, token := range tokens {
		fmt.Fprintf(w, "token\t%s\tcreated %s\t%s\t%s\t%s\t%s\n", plain(token.ID), minute(&token.CreatedAt), expiry(token, time.Now()),
			"used "+minute(token.LastUsedAt), plain(job.JoinScopes(token.Scopes)), plain(token.Label))
	}
	if len(tokens) == 0 {
		fmt.Fprintln(w, "token\tnone")
	}
}

// minute is a time for people; none is never.
func minute(at *time.Time) string {
	if at == nil {
		return "never"
	}
	return at.Format("2006-01-02 15:04 MST")
}

func expiry(t job.Token, now time.Time) string {
	if t.Expired(now) {
		return "expired " + minute(t.ExpiresAt)
	}
	return "expires " + minute(t.ExpiresAt)
}

func (a *app) tenantUpdateCommand() *cobra.Command {
	var o termsOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "update NAME",
		Short: "Change the terms of a tenant",
		Long: `Change the terms of a tenant: what is not given stays as it is, a quota or maximum of 0
and an empty list lift a bound. What was accepted before is run and delivered all the same.`,
		Example: `  glovebox tenant update acme --jobs-queued 2000 --maximum memory_mb=1024
  glovebox tenant update acme --requests-per-minute 0 --allow-runtimes ""`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTenants(func(tenants *producer.Client) error {
				t, err := changeTerms(cmd.Context(), tenants, args[0], func(t job.Terms) (job.Terms, error) { return o.apply(cmd, a.read, t) })
				if err != nil {
					return err
				}
				return a.showTenant(t, asJSON)
			})
		},
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tenant as JSON")
	return cmd
}

func (a *app) tenantDisableCommand() *cobra.Command {
	var now, asJSON bool
	cmd := &cobra.Command{
		Use:   "disable NAME",
		Short: "Refuse every request of a tenant; --now stops its jobs, too",
		Long: `Refuse every request of a tenant, within a second everywhere. What it had queued still
runs, and is delivered.

With --now that is stopped, too: queued jobs and open batches are canceled, and running
jobs asked to stop, until nothing is left. Each ends as canceled, with the error code
tenant_stopped. Interrupted, it can be run again.`,
		Example: `  glovebox tenant disable acme
  glovebox tenant disable acme --now`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setDisabled(cmd.Context(), args[0], true, now, asJSON)
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "stop what it has queued, running and open")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tenant as JSON")
	return cmd
}

func (a *app) tenantEnableCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "enable NAME",
		Short:   "Let a tenant use Glovebox again",
		Example: "  glovebox tenant enable acme",
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.setDisabled(cmd.Context(), args[0], false, false, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the tenant as JSON")
	return cmd
}

// setDisabled disables a tenant or enables it, and with stop ends what it has.
func (a *app) setDisabled(ctx context.Context, name string, disabled, stop, asJSON bool) error {
	return a.withTenants(func(tenants *producer.Client) error {
		t, err := changeTerms(ctx, tenants, name, func(t job.Terms) (job.Terms, error) {
			t.Disabled = disabled
			return t, nil
		})
		if err == nil && stop {
			if err = a.stopTenant(ctx, tenants, name); err == nil {
				t, err = tenants.GetTenant(ctx, name)
			}
		}
		if err != nil {
			return err
		}
		return a.showTenant(t, asJSON)
	})
}

const (
	// stopInterval is how often a tenant's jobs that are being stopped are looked at.
	stopInterval = 500 * time.Millisecond
	// stopSettled is how long an api may go by the tenant as it was before.
	stopSettled = 2 * time.Second
)

// stopTenant stops what a disabled tenant has, and says how far it is.
func (a *app) stopTenant(ctx context.Context, tenants *producer.Client, name string) error {
	began := time.Now()
	var all producer.Stopped
	for {
		some, err := tenants.StopTenant(ctx, name)
		if err != nil {
			return err
		}
		said := all
		all = producer.Stopped{
			Batches: all.Batches + some.Batches, Jobs: all.Jobs + some.Jobs, Asked: all.Asked + some.Asked, Queued: some.Queued, Running: some.Running,
		}
		if all != said {
			fmt.Fprintf(a.stderr, "canceled %d batches and %d other jobs, asked %d running ones to stop; %d are queued, %d run\n", all.Batches, all.Jobs, all.Asked, all.Queued, all.Running)
		}
		if all.Queued == 0 && all.Running == 0 && time.Since(began) > stopSettled {
			return nil
		}
		select {
		case <-time.After(stopInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changeTerms changes a tenant's terms, once more where somebody else did meanwhile.
func changeTerms(ctx context.Context, tenants producer.Tenants, name string, change func(job.Terms) (job.Terms, error)) (job.Tenant, error) {
	for {
		t, err := tenants.GetTenant(ctx, name)
		if err != nil {
			return t, err
		}
		terms, err := change(t.Terms)
		if err != nil {
			return t, err
		}
		t, err = tenants.SetTerms(ctx, name, t.Revision, terms)
		if !errors.Is(err, job.ErrRevision) {
			return t, err
		}
	}
}

// withTenants calls do with the API as its operator sees it.
func (a *app) withTenants(do func(tenants *producer.Client) error) error {
	return with(func() (*producer.Client, error) {
		return a.connect(func(c config.Client) string { return c.AdminToken }, "GLOVEBOX_ADMIN_TOKEN")
	}, do)
}

// retention is how long jobs of the tenant are kept.
func retention(t job.Terms) string {
	if t.RetentionSeconds == 0 {
		return "the operator's retention"
	}
	return (time.Duration(t.RetentionSeconds) * time.Second).String()
}

func tenantState(t job.Tenant) string {
	if t.Terms.Disabled {
		return "disabled"
	}
	return "enabled"
}

// quota is n as text says it, or that there is no such quota.
func quota(n int64, text string) string {
	if n == 0 {
		return "any"
	}
	return text
}

// ownQuota is a quota of bytes that the operator has for tenants without one of their own.
func ownQuota(n int64) string {
	if n == 0 {
		return "what the operator lets any tenant have"
	}
	return bytesOf(n)
}

func listed(list []string, restricted bool) string {
	switch {
	case !restricted:
		return "all"
	case len(list) == 0:
		return "none"
	}
	return plain(strings.Join(list, ", "))
}
