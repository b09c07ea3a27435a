package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is how things stood at a time since the simulation began.
type sample struct {
	at                              time.Duration
	queued, running, released, busy float64 // jobs; released ones have a task that waits; busy are in sandboxes
	redis                           counters
}

// counters are what Redis counts since it started.
type counters struct {
	cpu      float64 // seconds
	commands float64 // those of scripts, too
	clients  float64 // connections
	memory   float64 // bytes
}

// watch takes a sample each interval, until ctx ends.
func (f *fleet) watch(ctx context.Context, interval time.Duration) (list []sample) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return list
		case <-tick.C:
		}
		d, err := f.apis[0].Depth(ctx)
		if ctx.Err() != nil {
			return list
		}
		if err != nil {
			f.t.Errorf("count what there is to do: %v", err)
			return list
		}
		s := sample{at: time.Since(f.sandboxes.began), queued: float64(d.Queued), running: float64(d.Running), redis: f.counters(context.WithoutCancel(ctx))}
		for _, q := range d.Queues {
			if !strings.HasPrefix(q.Name, "deliveries") {
				s.released += float64(q.Waiting)
			}
		}
		f.sandboxes.mu.Lock()
		s.busy = float64(f.sandboxes.busy)
		f.sandboxes.mu.Unlock()
		list = append(list, s)
	}
}

func (f *fleet) counters(ctx context.Context) (c counters) {
	info, err := f.admin.InfoMap(ctx, "cpu", "stats", "clients", "memory").Result()
	if err != nil {
		f.t.Errorf("read what Redis counts: %v", err)
		return c
	}
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(info[section][name], 64)
		if err != nil {
			f.t.Errorf("Redis says %s of %s: %v", info[section][name], name, err)
		}
		return n
	}
	return counters{
		cpu: number("CPU", "used_cpu_user") + number("CPU", "used_cpu_sys"), commands: number("Stats", "total_commands_processed"),
		clients: number("Clients", "connected_clients"), memory: number("Memory", "used_memory"),
	}
}

// command is what one command cost Redis. A script's time has that of its commands in it.
type command struct {
	name  string
	calls float64
	usec  float64
}

// commands lists them, the dearest first.
func (f *fleet) commands() map[string]command {
	info, err := f.admin.InfoMap(f.t.Context(), "commandstats").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]command{}
	for name, text := range info["Commandstats"] {
		c := command{name: strings.TrimPrefix(name, "cmdstat_")}
		for field := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				f.t.Fatalf("Redis says %s of %s", text, name)
			}
			switch key {
			case "calls":
				c.calls = n
			case "usec":
				c.usec = n
			}
		}
		all[c.name] = c
	}
	return all
}

// dearest are the commands that took most of Redis' time between two looks, for each of so many jobs.
func dearest(before, after map[string]command, jobs int) string {
	var list []command
	for name, c := range after {
		list = append(list, command{name, (c.calls - before[name].calls) / float64(jobs), (c.usec - before[name].usec) / float64(jobs)})
	}
	slices.SortFunc(list, func(a, b command) int { return cmp.Compare(b.usec, a.usec) })
	var text strings.Builder
	text.WriteString("| command | calls | µs |\n|---|---|---|\n")
	for _, c := range list[:min(len(list), 12)] {
		fmt.Fprintf(&text, "| %s | %.2f | %.1f |\n", c.name, c.calls, c.usec)
	}
	return text.String()
}

// waits are how long jobs of each tenant waited for a sandbox.
func waits(runs []run) map[int][]time.Duration {
	all := map[int][]time.Duration{}
	for _, r := range runs {
		all[r.tenant] = append(all[r.tenant], r.began-r.asked)
	}
	return all
}

func tenantsOf[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
