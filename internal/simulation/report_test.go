package simulation

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// report is what a simulation has shown.
type report struct {
	size    size
	tenants []tenant
	samples []sample
	windows []window
	shares  map[int]float64
	fair    float64
	runs    []run
	idle    counters // a second
	spent   string

	cpu, commands, clients, memory float64 // of Redis: seconds; a job; connections; bytes
	puts, lists                    float64 // requests of the bucket, a job
}

func (r report) text() string {
	var b strings.Builder
	var last time.Duration
	worked := 0.0
	for _, x := range r.runs {
		last = max(last, x.ended)
		worked += (x.ended - x.began).Seconds()
	}
	slots, jobs := float64(r.size.workers*r.size.slots), float64(r.size.jobs)
	fmt.Fprintf(&b, "%d workers of %d slots, %d jobs of %d tenants, %s a job on average, seed %d.\n\n", r.size.workers, r.size.slots, r.size.jobs, r.size.tenants, r.size.mean, r.size.seed)
	b.WriteString("| figure | |\n|---|---|\n")
	row := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "| %s | "+format+" |\n", append([]any{name}, values...)...)
	}
	row("until the last job had ended", "%.0f s, %.0f jobs a second", last.Seconds(), jobs/last.Seconds())
	row("slots in use while tenants wanted more", "%.1f %%", 100*r.use(slots))
	row("Jain's index over tenants", "%.3f", r.fair)
	row("share of its entitlement: least, most", "%.2f, %.2f", least(r.shares), most(r.shares))
	row("Redis' processor", "%.0f %% of one core on average, %.2f ms a job", 100*r.cpu/last.Seconds(), 1000*r.cpu/jobs)
	row("Redis' commands", "%.0f a job, those of scripts and of the fleet's own among them", r.commands)
	row("Redis' memory", "%.1f KiB a job that has ended", r.memory/1024/jobs)
	row("connections", "%.0f, %.1f a process", r.clients, r.clients/float64(r.size.workers+apis))
	row("the fleet without work", "%.1f %% of one core of Redis, %.0f commands a second, %.1f a worker", 100*r.idle.cpu, r.idle.commands, r.idle.commands/float64(r.size.workers))
	row("requests of the bucket", "%.2f PUT and %.2f LIST a job", r.puts, r.lists)
	fmt.Fprintf(&b, "\nWhat commands took of Redis' time, a job (a script's has its commands' in it):\n\n%s", r.spent)
	b.WriteString("\n| tenant | asks for | jobs | at once | got ÷ entitled | wait p50, s | p95 | p99 |\n|---|---|---|---|---|---|---|---|\n")
	all := waits(r.runs)
	for i, x := range r.tenants {
		share, quota := "never had to share", "any"
		if s, ok := r.shares[i]; ok {
			share = fmt.Sprintf("%.2f", s)
		}
		if x.quota > 0 {
			quota = fmt.Sprint(x.quota)
		}
		w := all[i]
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %.2f | %.2f | %.2f |\n", x.name, x.kind, x.jobs, quota, share,
			percentile(w, 50).Seconds(), percentile(w, 95).Seconds(), percentile(w, 99).Seconds())
	}
	return b.String()
}

// use is the share of slots in which a sandbox ran, while tenants asked for more than all got.
func (r report) use(slots float64) float64 {
	sum, n := 0.0, 0.0
	for _, w := range r.windows {
		if !w.contended {
			continue
		}
		for _, got := range w.got {
			sum += got / (slots * 5 * r.size.mean.Seconds())
		}
		n++
	}
	return sum / max(n, 1)
}

func least(shares map[int]float64) float64 {
	n := math.Inf(1)
	for _, x := range shares {
		n = min(n, x)
	}
	return n
}

func most(shares map[int]float64) (n float64) {
	for _, x := range shares {
		n = max(n, x)
	}
	return n
}

// write makes the plots, and the figures as Markdown.
func (r report) write(t *testing.T, dir string) {
	t.Helper()
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // it is for everybody
			t.Fatal(err)
		}
	}
	file("simulation.md", "# A simulated fleet\n\nWritten by `make simulate`, "+time.Now().UTC().Format(time.DateOnly)+". [docs/scale.md](../scale.md) says what it means.\n\n"+r.text())
	depth := []line{{name: "queued"}, {name: "running"}, {name: "tasks that wait"}}
	redis := []line{{name: "Redis' processor, % of a core"}, {name: "commands, thousands a second"}, {name: "slots in use, %"}}
	for i, s := range r.samples {
		x := s.at.Seconds()
		depth[0].add(x, s.queued)
		depth[1].add(x, s.running)
		depth[2].add(x, s.released)
		if i >= 5 { // of one sample alone it would jump
			before := r.samples[i-5]
			over := (s.at - before.at).Seconds()
			redis[0].add(x, 100*(s.redis.cpu-before.redis.cpu)/over)
			redis[1].add(x, (s.redis.commands-before.redis.commands)/over/1000)
			redis[2].add(x, 100*s.busy/float64(r.size.workers*r.size.slots))
		}
	}
	fair := []line{{name: "Jain's index of each window"}}
	for _, w := range r.windows {
		if w.contended {
			fair[0].add(w.from.Seconds(), jain(normalised([]window{w})))
		}
	}
	wait := []line{{name: "p50"}, {name: "p95"}, {name: "p99"}}
	all := waits(r.runs)
	for _, i := range tenantsOf(all) {
		for n, p := range []float64{50, 95, 99} {
			wait[n].add(float64(i+1), max(percentile(all[i], p).Seconds(), 0.001))
		}
	}
	file("depth.svg", chart{title: "Jobs", x: "seconds", y: "jobs"}.svg(depth...))
	file("redis.svg", chart{title: "Redis and the slots", x: "seconds", y: ""}.svg(redis...))
	file("fairness.svg", chart{title: "Fairness while there is too little for all", x: "seconds", y: "Jain's index", top: 1}.svg(fair...))
	file("wait.svg", chart{title: "From submitted to started", x: "tenant, by how much it asks for", y: "seconds", log: true, dots: true}.svg(wait...))
}
