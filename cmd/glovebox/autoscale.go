package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/job"
)

type autoscaleOptions struct {
	policy        autoscale.Policy
	watch, asJSON bool
	interval      time.Duration
	metricsAddr   string
	pools         []string
}

// The interval between two looks: the shortest, and the longest. Figures that are two minutes old are too old.
const (
	leastLook = time.Second
	mostLook  = time.Minute
)

func (a *app) autoscaleCommand() *cobra.Command {
	var o autoscaleOptions
	cmd := &cobra.Command{
		Use:   "autoscale",
		Short: "Print how many workers there should be",
		Long: `Print how many workers there should be: enough slots for the jobs that come, and to be
through with those that wait within --clear. A tenant counts with no more jobs than its
quota lets run at once. With nothing to do it is --min, which may be 0.

Sessions keep memory while they are open, and no slot: with --sessions, as many workers as
can hold them. Without it a worker that goes ends those that it holds, however many.

These are the workers that are kept for no jobs: they are counted from jobs without a
placement, and those whose labels such a worker has, or had within a week. --pool counts
the workers of a pool instead, from the jobs whose placement names its labels: give those
that GLOVEBOX_LABELS_ONLY keeps it for. Of several pools, one number is for each, all with
the same --slots, --min and --max. A job counts once, with the pool of which it names most
labels. --pool common adds the workers that are kept for no jobs, with what is left.

It looks twice, --interval apart, and prints one number: what is needed now, which may be
fewer than there are. With --watch it goes on, and knows the past: the number grows at
once, and falls when fewer have been enough for --hold, by a quarter a minute at most.
While workers are paused it doesn't fall, and while half of all or more are, nor does it
grow; drained ones don't count. It prints a line for each look, and where --metrics-addr is
given, Prometheus finds glovebox_workers_wanted there. It starts and ends no worker: whoever
does, sets that number.

GLOVEBOX_REDIS_URL says which Redis, as a user of the role api ("glovebox redis-acl").`,
		Example: `  glovebox autoscale --slots 4 --max 20
  glovebox autoscale --watch --json --slots 4 --max 20 --metrics-addr 127.0.0.1:9095
  glovebox autoscale --watch --pool pool=exams --pool zone=a,gpu=yes --pool common`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.autoscale(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.policy.Slots, "slots", 2, "`N` jobs that one worker runs at once")
	f.IntVar(&o.policy.Sessions, "sessions", 0, "`N` sessions that one worker holds, idle ones included; 0: they ask for one worker, however many")
	f.IntVar(&o.policy.Least, "min", 0, "`N` workers at least")
	f.IntVar(&o.policy.Most, "max", 100, "`N` workers at most")
	f.DurationVar(&o.policy.Clear, "clear", 3*time.Minute, "`TIME` within which what waits is to be done, the start of workers included")
	f.DurationVar(&o.policy.Boot, "boot", time.Minute, "`TIME` that a worker takes to start")
	f.DurationVar(&o.policy.Service, "service", 5*time.Second, "`TIME` that a job is taken to run, until some have ended")
	f.DurationVar(&o.policy.Hold, "hold", 5*time.Minute, "`TIME` for which fewer have to be enough before workers go")
	f.StringArrayVar(&o.pools, "pool", nil, "`LABELS` of a pool whose workers are counted, with commas: pool=exams; or common; can be given again")
	f.DurationVar(&o.interval, "interval", 15*time.Second, "`TIME` between two looks")
	f.StringVar(&o.metricsAddr, "metrics-addr", "", "`HOST:PORT` at which Prometheus finds /metrics, with --watch")
	f.BoolVar(&o.watch, "watch", false, "go on, and print a line for each look")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	for _, name := range []string{"slots", "sessions", "min", "max", "clear", "boot", "service", "hold", "interval", "pool", "metrics-addr"} { // GLOVEBOX_METRICS_ADDR is the api's, whose file may be read here, too
		setTwin(cmd, name, "GLOVEBOX_AUTOSCALE_"+strings.ReplaceAll(strings.ToUpper(name), "-", "_"))
	}
	return cmd
}

// zero names a flag that is 0, which the policy would take for one that is left out; "" for none.
func (o autoscaleOptions) zero() string {
	p := o.policy
	switch {
	case p.Slots == 0:
		return "slots"
	case p.Most == 0:
		return "max"
	case p.Clear == 0:
		return "clear"
	case p.Boot == 0:
		return "boot"
	case p.Service == 0:
		return "service"
	case p.Hold == 0:
		return "hold"
	}
	return ""
}

// scalers are the pools, each with what decides about it. It fails where the options' policy or pools are none.
func (o autoscaleOptions) scalers() (pools autoscale.Pools, scalers []*autoscale.Scaler, err error) {
	if pools, err = autoscale.ParsePools(o.pools); err != nil {
		return nil, nil, usagef("--pool: %v", err)
	}
	for range pools {
		scaler, err := autoscale.New(o.policy)
		if err != nil {
			return nil, nil, usagef("--%v", err)
		}
		scalers = append(scalers, scaler)
	}
	return pools, scalers, nil
}

func (a *app) autoscale(ctx context.Context, o autoscaleOptions) error {
	if name := o.zero(); name != "" {
		return usagef("--%s is 0: want more, or none for its default", name)
	}
	pools, scalers, err := o.scalers()
	if err != nil {
		return err
	}
	switch {
	case o.interval < leastLook || o.interval > mostLook:
		return usagef("--interval is %s: want %s to %s", o.interval, leastLook, mostLook)
	case o.metricsAddr != "" && !o.watch:
		return usagef("--metrics-addr: want --watch, too: nobody could read it in time")
	}
	r := config.NewReader(a.getenv)
	settings := r.Redis()
	if err := r.Err(); err != nil {
		return &failure{code: exitUsage, err: err}
	}
	log := config.Logger(a.stderr, "")
	settings.Log = log
	records, err := record.Open(ctx, settings)
	if err != nil {
		return &failure{exitGlovebox, err, "GLOVEBOX_REDIS_URL says which Redis, and as whom"}
	}
	defer records.Close()
	registry := metrics.NewRegistry(version.Read().Version)
	exported := metrics.NewAutoscale(registry)
	if o.metricsAddr != "" {
		var listener net.Listener
		if listener, err = config.Listen(ctx, o.metricsAddr); err != nil {
			return usagef("--metrics-addr: %v", err)
		}
		defer metrics.Start(ctx, listener, registry, nil, log)()
	}
	for looks := 1; ; looks++ {
		loads, err := records.Demand(ctx, o.policy.Boot, pools)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !o.watch:
			return &failure{code: exitGlovebox, err: err}
		case err != nil: // what was decided last stays, for two minutes
			log.Warn("nothing is decided: there are no figures", "error", err)
		default:
			for i, load := range loads {
				next := scalers[i].Now
				if o.watch {
					next = scalers[i].Next
				}
				d := next(load)
				exported.Decided(d)
				if o.watch || looks == 2 {
					if err := a.printDecision(d, o.asJSON); err != nil {
						return err
					}
				}
			}
		}
		if !o.watch && looks == 2 {
			return nil
		}
		select {
		case <-time.After(o.interval):
		case <-ctx.Done():
			return nil
		}
	}
}

// printDecision prints one line.
func (a *app) printDecision(d autoscale.Decision, asJSON bool) error {
	if asJSON {
		b, err := job.Marshal(d)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s\n", b)
		return err
	}
	of := ""
	if d.Pool != autoscale.Common {
		of = " of " + d.Pool
	}
	_, err := fmt.Fprintf(a.stdout, "%d workers wanted%s, %d there: %s (%d jobs wait, %d run, %.3g a second come, each runs for %s)\n",
		d.Wanted, of, d.Workers, d.Why, d.Waiting, d.Running, d.ArrivalsPerSecond, (time.Duration(d.ServiceMS) * time.Millisecond))
	return err
}
