package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/fleet"
)

func (a *app) warmCommand() *cobra.Command {
	var settings string
	var asJSON bool
	long := time.Hour
	cmd := &cobra.Command{
		Use:   "warm [RUNTIME COUNT]",
		Short: "Have sandboxes wait for a class that is about to begin",
		Long: `Have COUNT sandboxes of a runtime wait for jobs to come, on all workers together, for --for.
Each worker keeps its part, by its slots, as far as the memory has room that it sets aside
for sandboxes that wait; the answer says how many that is. COUNT 0 takes it back. Without
arguments, show what is asked for.

Workers begin within 5 seconds, and start one sandbox after the other: a few a second
each. So ask some minutes before the class begins. Jobs find sandboxes without that, too,
once they have come for a while.

It asks Redis, as GLOVEBOX_REDIS_URL of the environment or of the file that --settings
names says, of the user "default".`,
		Example: `  sudo glovebox warm python 40 --for 90m
  sudo glovebox warm
  sudo glovebox warm python 0`,
		Args: runtimeAndCount,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withFleet(cmd.Context(), settings, func(rdb operatorRedis, list []fleet.Listed) error {
				if len(args) == 0 {
					return a.showWarm(cmd.Context(), rdb, list, asJSON)
				}
				count, err := strconv.Atoi(args[1])
				if err != nil || count < 0 || count > fleet.MostAsked {
					return usagef("COUNT is %q: want 0 to %d", args[1], fleet.MostAsked)
				}
				if long < time.Minute || long > fleet.LongestAsked {
					return usagef("--for is %s: want 1m to %s", long, fleet.LongestAsked)
				}
				return a.askWarm(cmd.Context(), rdb, list, args[0], count, long)
			})
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`FILE` with the variables (default "+operatorSettings+", if it is there and GLOVEBOX_REDIS_URL is not set)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON of what is asked for")
	cmd.Flags().DurationVar(&long, "for", long, "how long they are to wait, up to 24h")
	return cmd
}

// runtimeAndCount wants both or neither.
func runtimeAndCount(cmd *cobra.Command, args []string) error {
	if len(args) != 0 && len(args) != 2 {
		return usagef("RUNTIME and COUNT are wanted, or nothing: %s", cmd.UseLine())
	}
	return nil
}

// askWarm asks for sandboxes, and says what the workers can hold of them.
func (a *app) askWarm(ctx context.Context, rdb operatorRedis, list []fleet.Listed, runtime string, count int, long time.Duration) error {
	if has := roomy(list); count > 0 && !slices.Contains(has, runtime) {
		err := fmt.Errorf("no worker that lives can have sandboxes of %q wait; they can of: %s", runtime, orDash(plain(strings.Join(has, " "))))
		return &failure{exitFailed, err, "a worker has none with GLOVEBOX_WARM=0 or another isolation than gvisor, nor of an image that it has just got; it says what it can within 5 s of its start, and of a new image within a minute"}
	}
	err := fleet.Ask(ctx, rdb.Client, runtime, count, long)
	if err == nil {
		err = rdb.confirm(ctx)
	}
	if err != nil {
		return err
	}
	if count == 0 {
		fmt.Fprintf(a.stderr, "nothing is asked for of %s any more\n", plain(runtime))
		return nil
	}
	var parts []string
	holds := 0
	for _, p := range partsOf(list, fleet.Asked{Runtime: runtime, Count: count}) {
		holds += p.holds
		parts = append(parts, fmt.Sprintf("%s %d of %d", plain(p.worker), p.holds, p.share))
	}
	fmt.Fprintf(a.stderr, "%d of %d sandboxes of %s will wait until %s: %s\n", min(holds, count), count, runtime, time.Now().Add(long).Format(time.TimeOnly), strings.Join(parts, ", "))
	if holds < count {
		fmt.Fprintln(a.stderr, "there is room for no more: it takes more workers, or more memory for what waits, which is a quarter of GLOVEBOX_MEMORY_MB, and enough for GLOVEBOX_WARM of each runtime at most")
	}
	return nil
}

// roomy are the runtimes of which sandboxes can wait somewhere.
func roomy(list []fleet.Listed) []string {
	names := map[string]bool{}
	for _, w := range list {
		for name := range w.WarmRoom {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// part is what a worker is to have of what is asked for, and what it has room for.
type part struct {
	worker       string
	share, holds int
}

// partsOf are those of the workers that take jobs.
func partsOf(list []fleet.Listed, asked fleet.Asked) (parts []part) {
	takes := func(w fleet.Listed) bool { return !w.Drained && w.Paused == "" && w.Concurrency > 0 }
	var all int64
	for _, w := range list {
		if takes(w) {
			all += int64(w.Concurrency)
		}
	}
	for _, w := range list {
		if takes(w) {
			share := asked.Share(int64(w.Concurrency), all)
			parts = append(parts, part{w.ID, share, min(share, w.WarmRoom[asked.Runtime])})
		}
	}
	return parts
}

// askedWarm is what is asked for, in JSON.
type askedWarm struct {
	Runtime string    `json:"runtime"`
	Asked   int       `json:"asked"`
	Room    int       `json:"room"`
	Waiting int       `json:"waiting"`
	Until   time.Time `json:"until"`
}

func (a *app) showWarm(ctx context.Context, rdb operatorRedis, list []fleet.Listed, asJSON bool) error {
	asked, unreadable, err := fleet.ListAsked(ctx, rdb.Client)
	if err != nil {
		return err
	}
	for _, err := range unreadable {
		fmt.Fprintf(a.stderr, "%s\n", plain(err.Error()))
	}
	all := []askedWarm{}
	for _, of := range asked {
		w := askedWarm{Runtime: of.Runtime, Asked: of.Count, Until: time.UnixMilli(of.Until).UTC()}
		for _, p := range partsOf(list, of) {
			w.Room += p.holds
		}
		w.Room = min(w.Room, of.Count)
		for _, l := range list {
			w.Waiting += l.Warm[of.Runtime]
		}
		all = append(all, w)
	}
	if asJSON {
		return a.printJSON(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stderr, "nothing is asked for")
		return nil
	}
	t := a.table()
	fmt.Fprintln(t, "RUNTIME\tASKED\tROOM\tWAIT\tUNTIL")
	for _, w := range all {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", plain(w.Runtime), w.Asked, w.Room, w.Waiting, w.Until.Format(time.RFC3339))
	}
	return t.Flush()
}
