package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

func (a *app) fleetCommand() *cobra.Command {
	var settings string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the workers, and drain one by name",
		Long: `Show the workers that live: what they run of what they can, which sandboxes wait, whether
they take jobs, and if not why, and how long ago each said so; it does every 5 seconds. Of a
label with ! (GLOVEBOX_LABELS_ONLY) a worker takes only jobs that name it.

It asks Redis, as GLOVEBOX_REDIS_URL of the environment or of the file that --settings
names says, of the user "default": no other may see all of it.`,
		Example: `  sudo glovebox fleet
  sudo glovebox fleet --json | jq '.[] | select(.paused != "") | .id'
  sudo glovebox fleet drain host-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFleet(cmd.Context(), settings, func(_ operatorRedis, list []fleet.Listed) error { return a.showFleet(list, asJSON) })
		},
	}
	cmd.PersistentFlags().StringVar(&settings, "settings", "", "`FILE` with the variables (default "+operatorSettings+", if it is there and GLOVEBOX_REDIS_URL is not set)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "drain NAME",
			Short: "Have a worker take no more jobs",
			Long: `Have a worker take no more jobs, from its next beat on: 5 seconds at most. What it runs goes
on, sessions too. NAME is its id, or the name of a host that has no other worker. It holds
until "glovebox fleet resume", or until the worker is started again, which is another one.

To take a host away, drain its worker, wait until "glovebox fleet" says that it runs
nothing, and stop it.`,
			Example: `  sudo glovebox fleet drain host-1`,
			Args:    one("NAME"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.withFleet(cmd.Context(), settings, func(rdb operatorRedis, list []fleet.Listed) error {
					w, err := named(list, args[0])
					if err == nil {
						err = fleet.Drain(cmd.Context(), rdb.Client, w.ID, list)
					}
					if err == nil {
						err = rdb.confirm(cmd.Context())
					}
					if err == nil {
						fmt.Fprintf(a.stderr, "%s takes no more jobs, within %s; it runs %d\n", w.ID, fleet.BeatInterval, len(w.Jobs))
					}
					return err
				})
			},
		},
		&cobra.Command{
			Use:     "resume NAME",
			Short:   "Have a drained worker take jobs again",
			Long:    `Have a drained worker take jobs again, once a sandbox of its own has shown that it can.`,
			Example: `  sudo glovebox fleet resume host-1`,
			Args:    one("NAME"),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.withFleet(cmd.Context(), settings, func(rdb operatorRedis, list []fleet.Listed) error {
					w, err := named(list, args[0])
					if err != nil {
						return err
					}
					if err := fleet.Resume(cmd.Context(), rdb.Client, w.ID); err != nil {
						return err
					}
					return rdb.confirm(cmd.Context())
				})
			},
		},
	)
	return cmd
}

// operatorRedis is Redis, as its operator.
type operatorRedis struct {
	*redis.Client
	replicas int
}

// confirm fails unless replicas have what was written.
func (r operatorRedis) confirm(ctx context.Context) error {
	if err := redisconn.Confirm(ctx, r.Client, r.replicas); err != nil {
		return fmt.Errorf("it is written, and a failover may lose it: %w", err)
	}
	return nil
}

// withFleet connects as the operator, and lists the workers.
func (a *app) withFleet(ctx context.Context, settings string, do func(rdb operatorRedis, list []fleet.Listed) error) error {
	r, err := a.operatorReader(settings)
	if err != nil {
		return err
	}
	records := r.Redis()
	if err := r.Err(); err != nil {
		return &failure{exitUsage, err, "--settings names a file that has it; infra/install.sh makes " + operatorSettings}
	}
	rdb, err := redisconn.Open(ctx, records.URL)
	if err != nil {
		return &failure{exitGlovebox, err, "GLOVEBOX_REDIS_URL says which Redis, and as whom"}
	}
	defer rdb.Close()
	list, unreadable, err := fleet.List(ctx, rdb)
	if redis.HasErrorPrefix(err, "NOPERM") {
		return &failure{exitFailed, err, "GLOVEBOX_REDIS_URL has to be of Redis' user \"default\": no other may list workers"}
	}
	if err != nil {
		return err
	}
	for _, err := range unreadable {
		fmt.Fprintf(a.stderr, "%s\n", plain(err.Error()))
	}
	return do(operatorRedis{rdb, records.Replicas}, list)
}

// named is the worker of that id, or the only one of a host of that name: as it says itself, or as its id does, before
// the characters that are others with each start.
func named(list []fleet.Listed, name string) (found fleet.Listed, err error) {
	var ids []string
	for _, w := range list {
		if w.ID == name {
			return w, nil
		}
		random, ofName := strings.CutPrefix(w.ID, name+"-")
		if w.Host == name || ofName && len(random) == redisacl.IDRandom {
			found = w
			ids = append(ids, w.ID)
		}
	}
	switch len(ids) {
	case 0:
		return found, &failure{exitFailed, fmt.Errorf("no worker that lives has the name %q", name), `"glovebox fleet" lists them`}
	case 1:
		return found, nil
	}
	return found, usagef("%q is the name of several: %s", name, strings.Join(ids, ", "))
}

// listedWorker is a worker in JSON.
type listedWorker struct {
	ID      string         `json:"id"`
	Host    string         `json:"host"`
	Version string         `json:"version"`
	Started time.Time      `json:"started"`
	Labels  job.Labels     `json:"labels"`
	Only    []string       `json:"only"`
	Slots   int            `json:"slots"`
	Running int            `json:"running"`
	Warm    map[string]int `json:"warm"`
	Drained bool           `json:"drained"`
	Paused  string         `json:"paused"`
	BeatMS  int64          `json:"beat_ms"`
}

func (a *app) showFleet(list []fleet.Listed, asJSON bool) error {
	if asJSON {
		all := make([]listedWorker, len(list))
		for i, w := range list {
			all[i] = listedWorker{w.ID, w.Host, w.Version, w.Started, w.Labels, w.Only, w.Concurrency, len(w.Jobs), w.Warm, w.Drained, w.Paused, w.Beat.Milliseconds()}
		}
		return a.printJSON(all)
	}
	if len(list) == 0 {
		fmt.Fprintln(a.stderr, "no worker lives")
		return nil
	}
	t := a.table()
	fmt.Fprintln(t, "WORKER\tVERSION\tLABELS\tRUNS\tWARM\tBEAT\tSTATE")
	for _, w := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d/%d\t%s\t%s ago\t%s\n", plain(w.ID), plain(w.Version), plain(labelsOf(w)), len(w.Jobs), w.Concurrency, plain(warmOf(w.Warm)), w.Beat.Round(100*time.Millisecond), plain(stateOf(w)))
	}
	return t.Flush()
}

func warmOf(warm map[string]int) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(warm)) {
		list = append(list, fmt.Sprintf("%s:%d", name, warm[name]))
	}
	return orDash(strings.Join(list, " "))
}

// labelsOf are the labels of a worker; behind those that a job has to name is a !.
func labelsOf(w fleet.Listed) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		word := key + "=" + w.Labels[key]
		if slices.Contains(w.Only, key) {
			word += "!"
		}
		list = append(list, word)
	}
	return orDash(strings.Join(list, ","))
}

func stateOf(w fleet.Listed) string {
	switch {
	case w.Drained && w.Paused == "":
		return "is about to drain"
	case w.Drained && len(w.Jobs) > 0:
		return "drains"
	case w.Drained:
		return "drained"
	case w.Paused != "":
		return "paused: " + w.Paused
	}
	return "takes jobs"
}
