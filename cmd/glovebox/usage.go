package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type usageOptions struct {
	from, to, tenant string
	asJSON, asCSV    bool
	asEvents         bool
}

func (a *app) usageCommand() *cobra.Command {
	var o usageOptions
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show what jobs used, by day, and what that cost",
		Long: `Show what jobs used, by the day in UTC on which they ended, and what that cost by the
operator's prices (GLOVEBOX_PRICES of the workers): exactly the sum over their results. A
day is kept for 400 days. With --tenant it asks as the operator, with
GLOVEBOX_ADMIN_TOKEN.`,
		Example: `  glovebox usage
  glovebox usage --from 2026-11-01 --to 2026-11-30 --csv > november.csv
  glovebox usage --tenant acme --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.asJSON && o.asCSV || o.asEvents && (o.asJSON || o.asCSV) {
				return usagef("--json, --csv and --cloudevents: want one of them")
			}
			ask := func(c *producer.Client) error { return a.showUsage(cmd.Context(), c, o) }
			if o.tenant != "" {
				return a.withTenants(ask)
			}
			return a.withJobs(ask)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "first `DAY`, YYYY-MM-DD (default the first of --to's month)")
	f.StringVar(&o.to, "to", "", "last `DAY` (default today)")
	f.StringVar(&o.tenant, "tenant", "", "of the tenant `NAME`, as the operator")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	f.BoolVar(&o.asEvents, "cloudevents", false, "print a batch of CloudEvents, one for each day that is over, with ids that stay")
	f.BoolVar(&o.asCSV, "csv", false, "print CSV: day, jobs, cpu_ms, memory_mib_ms, cost_nano, cost")
	return cmd
}

func (a *app) showUsage(ctx context.Context, c *producer.Client, o usageOptions) error {
	var u job.UsageReport
	var err error
	if o.asEvents {
		return a.printUsageEvents(ctx, c, o)
	}
	if o.tenant != "" {
		u, err = c.TenantUsage(ctx, o.tenant, o.from, o.to)
	} else {
		u, err = c.Usage(ctx, o.from, o.to)
	}
	switch {
	case err != nil:
		return err
	case o.asJSON:
		return a.printJSON(u)
	case o.asCSV:
		return a.printUsageCSV(u)
	}
	w := a.table()
	fmt.Fprintln(w, "DAY\tJOBS\tCPU SECONDS\tGIB SECONDS\tCOST")
	line := func(day string, n job.UsageCounts) {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%s\n", plain(day), n.Jobs, float64(n.CPUMS)/1000, float64(n.MemoryMiBMS)/1024/1000, plain(n.Cost.Amount))
	}
	for _, d := range u.Days {
		line(d.Day, d.UsageCounts)
	}
	line("total", u.Total)
	if err := w.Flush(); err != nil || u.Budget == nil {
		return err
	}
	fmt.Fprintf(a.stdout, "\n%s of the budget of %s for %s are spent\n", plain(u.Budget.Spent.Amount), plain(u.Budget.Budget.Amount), plain(u.Budget.Month))
	return nil
}

func (a *app) printUsageEvents(ctx context.Context, c *producer.Client, o usageOptions) (err error) {
	var events []job.UsageEvent
	if o.tenant != "" {
		events, err = c.TenantUsageEvents(ctx, o.tenant, o.from, o.to)
	} else {
		events, err = c.UsageEvents(ctx, o.from, o.to)
	}
	if err != nil {
		return err
	}
	return a.printJSON(events)
}

func (a *app) printUsageCSV(u job.UsageReport) error {
	w := csv.NewWriter(a.stdout)
	rows := [][]string{{"day", "jobs", "cpu_ms", "memory_mib_ms", "cost_nano", "cost"}}
	for _, d := range u.Days {
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		rows = append(rows, []string{plain(d.Day), number(d.Jobs), number(d.CPUMS), number(d.MemoryMiBMS), number(d.Cost.Nano), plain(d.Cost.Amount)})
	}
	return w.WriteAll(rows)
}
