package e2e

import (
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// sessions measures executions in a session beside jobs that do the same, in turns.
func (b *bench) sessions() {
	b.t.Helper()
	most, rounds := b.scaled(120*time.Second), b.times(20)
	b.says("sessions", most)
	s := b.table.section("Sessions: one execution at a time", "what", "run by", "n", "p50 ÷", "p95 ÷", "p99 ÷", "p50 ms", "p95 ms", "p99 ms")
	s.notef("÷: divided by the p50 of the warm job above it. An execution is one request, as a job is. A new session is asked for, executes `1 + 1`, and is ended, which isn't measured; it has a sandbox of its own, which is started for it.")
	ready, drawing := b.session(), b.session()
	in := func(session, code string) func() error {
		return func() error {
			_, err := b.warm.http.await(b.t.Context(), "/v1/sessions/"+session+"/execute", job.SessionExecution{Code: code})
			return err
		}
	}
	asJob := func(p program) func() error {
		w := p.on(warmWay, b.warm, nobody)
		return func() error { return w.run(0) }
	}
	const one, fresh, newChart = "1 + 1 in a session", "1 + 1 in a new session", "the chart in a session"
	ways := []struct {
		name string
		run  func() error
	}{
		{hello.name, asJob(hello)}, {one, in(ready, "1 + 1")}, {fresh, nil}, {chart.name, asJob(chart)}, {newChart, in(drawing, chart.source+"plt.close('all')")},
	}
	took := map[string]times{}
	b.must(in(drawing, chart.source)()) // its imports are made once
	b.must(in(ready, "1 + 1")())
	deadline := time.Now().Add(most)
	for round := range rounds {
		if round > 0 && time.Now().After(deadline) {
			break
		}
		for _, w := range ways {
			b.refilled("python")
			began, id := time.Now(), ""
			if w.run == nil {
				id = b.session()
				_, err := b.warm.http.await(b.t.Context(), "/v1/sessions/"+id+"/execute", job.SessionExecution{Code: "1 + 1"})
				b.must(err)
			} else {
				b.must(w.run())
			}
			took[w.name] = append(took[w.name], time.Since(began))
			if id != "" {
				b.end(id)
			}
		}
	}
	b.end(ready)
	b.end(drawing)
	reference := took[hello.name].percentile(50)
	for _, w := range ways {
		if w.name == chart.name {
			reference = took[w.name].percentile(50)
		}
		s.row(append([]string{w.name, warmWay, fmt.Sprint(len(took[w.name]))}, took[w.name].cells(reference)...)...)
	}
	for _, c := range []struct {
		name, of string
		most     float64
	}{{one, hello.name, .3}, {fresh, hello.name, 1.2}, {newChart, chart.name, .5}} {
		p50 := ratio(took[c.name].percentile(50), took[c.of].percentile(50))
		b.table.check(c.name+", p50 ÷ a warm job of "+c.of, fmt.Sprintf("≤ %g", c.most), number2(p50), holds(p50 <= c.most))
	}
}

// session begins a session of Python.
func (b *bench) session() string {
	b.t.Helper()
	x, err := b.warm.client.StartSession(b.t.Context(), job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000, CPUMS: 600_000}})
	b.must(err)
	return x.ID
}

func (b *bench) end(session string) {
	b.t.Helper()
	_, err := b.warm.client.EndSession(b.t.Context(), session)
	b.must(err)
}
