package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Start templates by the clock",
		Long: `Start templates by the clock: at the times of a cron expression in a zone, once for each,
however many api processes there are.`,
		Example: `  glovebox schedule set nightly --template report --cron '30 2 * * 1-5' --zone Europe/Berlin
  glovebox schedule show nightly`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.scheduleSetCommand(), a.scheduleListCommand(), a.scheduleShowCommand(), a.scheduleRunCommand(),
		a.scheduleEachCommand("pause NAME…", "Let schedules rest", "Let schedules rest. A fire that waits for the last job to end is dropped.",
			"glovebox schedule pause nightly", func(ctx context.Context, s producer.Schedules, name string) error {
				_, err := s.PauseSchedule(ctx, name)
				return err
			}),
		a.scheduleEachCommand("resume NAME…", "Have schedules fire again", "Have schedules fire again, from now on: nothing is made up for.",
			"glovebox schedule resume nightly", func(ctx context.Context, s producer.Schedules, name string) error {
				_, err := s.ResumeSchedule(ctx, name)
				return err
			}),
		a.scheduleEachCommand("delete NAME…", "Delete schedules", "Delete schedules. Jobs that they started go on.",
			"glovebox schedule delete nightly", func(ctx context.Context, s producer.Schedules, name string) error {
				return s.DeleteSchedule(ctx, name)
			}),
	)
	return cmd
}

// scheduleOptions are a schedule's settings as flags.
type scheduleOptions struct {
	template, params, cron, zone, overlap, missed string
	given, from, metadata                         []string
	callback, starts, ends                        string
	catchUp, jitter                               time.Duration
}

func (a *app) scheduleSetCommand() *cobra.Command {
	var o scheduleOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Store or change a schedule",
		Long: `Store a schedule, or change one: what flags give, the rest stays. Where its times change it
begins anew from now.

--cron is minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly,
@monthly, @yearly. Where the zone's clock changes, a fixed time that is skipped fires as the
clock jumps, and one that comes twice the first time; with * as minute or hour a schedule
follows time as it passes.`,
		Example: `  glovebox schedule set nightly --template report --cron '30 2 * * 1-5' --zone Europe/Berlin
  glovebox schedule set nightly --overlap queue --missed once --catch-up 6h
  glovebox schedule set poll --template poll --cron '*/5 * * * *' --from since=/fire/previous`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(schedules *producer.Client) error {
				now, err := schedules.Schedule(cmd.Context(), args[0])
				if err != nil && !errors.Is(err, job.ErrNoSchedule) {
					return err
				}
				settings, err := a.scheduleSettings(cmd, o, now.ScheduleSettings)
				if err != nil {
					return err
				}
				set, err := schedules.SetSchedule(cmd.Context(), args[0], settings)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(set)
				}
				fmt.Fprintln(a.stdout, "next: "+nextFire(set))
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.template, "template", "", "the `TEMPLATE` to start: NAME, or NAME@3 for its third revision")
	f.StringVar(&o.cron, "cron", "", "when: `EXPRESSION` such as '30 2 * * 1-5'")
	f.StringVar(&o.zone, "zone", "", "whose clock: `ZONE` such as Europe/Berlin (default UTC)")
	f.StringArrayVar(&o.given, "param", nil, "a parameter: `NAME=TEXT`, or NAME:=JSON, beside those that are set; may be repeated")
	f.StringVar(&o.params, "params", "", "parameters as a JSON object in `FILE`, in place of those that are set; - for standard input")
	f.StringArrayVar(&o.from, "from", nil, "a parameter that each fire gives: `NAME=/fire/time`, /fire/previous or /schedule; may be repeated")
	f.StringVar(&o.callback, "callback", "", "post results to `URL`, in place of the template's")
	f.StringArrayVar(&o.metadata, "metadata", nil, "metadata of its jobs: `KEY=VALUE`; may be repeated")
	f.StringVar(&o.overlap, "overlap", "", "while its last job has not ended: `skip` (the default), allow, cancel or queue")
	f.StringVar(&o.missed, "missed", "", "fires more than a minute late, as no api ran or Redis was away: `skip` (the default) or once, for the latest")
	f.DurationVar(&o.catchUp, "catch-up", 0, "with --missed once: how late that may be, `TIME` such as 6h (default 24h)")
	f.DurationVar(&o.jitter, "jitter", 0, "fire up to so much later: `TIME` such as 5m, 1h at most")
	f.StringVar(&o.starts, "starts-at", "", "not before `TIME` such as 2027-01-31T12:00:00Z")
	f.StringVar(&o.ends, "ends-at", "", "not at `TIME` or later")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// scheduleSettings are those of flags that were given, over those before.
func (a *app) scheduleSettings(cmd *cobra.Command, o scheduleOptions, s job.ScheduleSettings) (job.ScheduleSettings, error) {
	given := cmd.Flags().Changed
	for flag, to := range map[string]struct {
		field *string
		value string
	}{"template": {&s.Template, o.template}, "cron": {&s.Cron, o.cron}, "zone": {&s.Zone, o.zone}, "overlap": {&s.Overlap, o.overlap}, "missed": {&s.Missed, o.missed}} {
		if given(flag) {
			*to.field = to.value
		}
	}
	if given("missed") && s.Missed != job.MissedOnce && !given("catch-up") {
		s.CatchUpSeconds = 0 // it was for what is no longer so
	}
	var err error
	if given("param") || given("params") {
		if s.Params, err = a.templateParams(templateRunOptions{file: o.params, given: o.given}, s.Params); err != nil {
			return s, err
		}
	}
	if given("from") {
		if s.From, err = pairs("--from", o.from); err != nil {
			return s, err
		}
	}
	if given("metadata") {
		if s.Metadata, err = pairs("--metadata", o.metadata); err != nil {
			return s, err
		}
	}
	if given("callback") {
		if s.Callback = nil; o.callback != "" {
			s.Callback = &job.Callback{URL: o.callback}
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		field *int64
	}{{"catch-up", o.catchUp, &s.CatchUpSeconds}, {"jitter", o.jitter, &s.JitterSeconds}} {
		if d.value%time.Second != 0 || d.value < 0 {
			return s, usagef("--%s %s: want whole seconds", d.flag, d.value)
		}
		if given(d.flag) {
			*d.field = int64(d.value / time.Second)
		}
	}
	for _, t := range []struct {
		flag, value string
		field       *time.Time
	}{{"starts-at", o.starts, &s.StartsAt}, {"ends-at", o.ends, &s.EndsAt}} {
		if !given(t.flag) {
			continue
		}
		if *t.field = (time.Time{}); t.value == "" {
			continue
		}
		if *t.field, err = time.Parse(time.RFC3339, t.value); err != nil {
			return s, usagef("--%s %s: want a time such as 2027-01-31T12:00:00Z", t.flag, t.value)
		}
	}
	return s, nil
}

func nextFire(s job.Schedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.LastError != "" && s.RetryAt == nil && s.NextAt == nil:
		return "failed"
	case s.NextAt == nil:
		return "over"
	}
	return s.NextAt.Local().Format(time.DateTime)
}

func (a *app) scheduleListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the schedules",
		Long:    `List the schedules by name, and when each fires next.`,
		Example: `  glovebox schedule list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(schedules *producer.Client) error {
				list, err := schedules.ListSchedules(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.ScheduleList{Schedules: list})
				}
				w := a.table()
				fmt.Fprintln(w, "NAME\tTEMPLATE\tCRON\tZONE\tNEXT")
				for _, s := range list {
					zone := s.Zone
					if zone == "" {
						zone = "UTC"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", plain(s.Name), plain(s.Template), plain(s.Cron), plain(zone), nextFire(s))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) scheduleShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a schedule and its last fires",
		Long: `Print a schedule as JSON, and a table of its last fires, the newest first: which job or
run each started, or why it did not. With --json both are one object.`,
		Example: `  glovebox schedule show nightly`,
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(schedules *producer.Client) error {
				s, err := schedules.Schedule(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				fires, err := schedules.ScheduleFires(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(struct {
						Schedule job.Schedule `json:"schedule"`
						producer.FireList
					}{s, producer.FireList{Fires: fires}})
				}
				if err := a.printJSON(s); err != nil {
					return err
				}
				w := a.table()
				fmt.Fprintln(w, "TIME\tOUTCOME\tJOB, RUN OR REASON")
				for _, f := range fires {
					fmt.Fprintf(w, "%s\t%s\t%s\n", f.Time.Local().Format(time.DateTime), plain(f.Outcome), plain(fireDetail(f)))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// fireDetail says more of a fire than its outcome.
func fireDetail(f job.Fire) string {
	var words []string
	for _, word := range []string{f.Job, f.Run, f.Reason} {
		if word != "" {
			words = append(words, word)
		}
	}
	if f.Count > 1 {
		words = append(words, fmt.Sprintf("%d fires", f.Count))
	}
	if f.Late {
		words = append(words, "late")
	}
	if f.Manual {
		words = append(words, "by hand")
	}
	return strings.Join(words, ", ")
}

func (a *app) scheduleRunCommand() *cobra.Command {
	var asJSON bool
	var key string
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a schedule now",
		Long: `Make a job of a schedule's template and parameters now, also while it is paused, and print
its id. Its times, and what it does about its last job, stay as they are. Of a template that is
a pipeline no job can be made: "glovebox pipeline run" begins a run of it.`,
		Example: `  glovebox schedule run nightly`,
		Args:    one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(schedules *producer.Client) error {
				j, err := schedules.RunSchedule(cmd.Context(), args[0], key)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(j)
				}
				fmt.Fprintln(a.stdout, plain(j.ID))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "`KEY` of the run: the same again, within 24 hours, is the same job")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the job as JSON")
	return cmd
}

// scheduleEachCommand does one thing with each schedule that is named.
func (a *app) scheduleEachCommand(use, short, long, example string, do func(context.Context, producer.Schedules, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: "  " + example,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(schedules *producer.Client) error {
				var errs []error
				for _, name := range args {
					if err := do(cmd.Context(), schedules, name); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(name), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}
