package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// seen is what somebody who watches has seen so far.
type seen struct {
	events         chan producer.Event
	stdout, stderr bytes.Buffer // of the try that is told
	all            []string
	result         *job.Result
}

// watch watches a job until it has ended.
func (g *glovebox) watch(id string) *seen {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), 5*time.Minute)
	s := &seen{events: make(chan producer.Event)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.events)
		for e, err := range g.client.Watch(ctx, id, "") {
			if err != nil {
				if g.tb.Context().Err() == nil {
					g.tb.Errorf("watch: %v", err)
				}
				return
			}
			select {
			case s.events <- e:
			case <-ctx.Done():
			}
		}
	}()
	g.tb.Cleanup(func() { cancel(); <-done })
	return s
}

// watchFromTheBegin submits a job and watches it from when it waits.
func (g *glovebox) watchFromTheBegin(spec job.Spec) (id string, s *seen) {
	g.tb.Helper()
	g.worker.Stop()
	id = g.submit(spec)
	s = g.watch(id)
	s.until(g.tb, func() bool { return len(s.all) > 0 })
	g.worker.Restart()
	return id, s
}

// until takes events until enough says so, or the last one.
func (s *seen) until(tb testing.TB, enough func() bool) {
	tb.Helper()
	for !enough() {
		var e producer.Event
		select {
		case e = <-s.events:
		case <-time.After(patience):
			tb.Fatalf("nothing happened for %s; so far %q, stdout %q", patience, s.all, s.stdout.String())
		}
		switch out := (map[producer.EventType]*bytes.Buffer{producer.EventStdout: &s.stdout, producer.EventStderr: &s.stderr})[e.Type]; {
		case out != nil:
			if e.Offset != int64(out.Len()) {
				tb.Fatalf("%s: got %d bytes at %d, want them at %d", e.Type, len(e.Data), e.Offset, out.Len())
			}
			out.Write(e.Data)
			continue
		case e.Type == producer.EventStatus:
			if e.Status == job.Queued {
				s.stdout.Reset()
				s.stderr.Reset()
			}
			s.all = append(s.all, string(e.Status))
		case e.Type == producer.EventResult:
			s.all, s.result = append(s.all, "result"), e.Job.Result
			return
		case e.Type == "":
			tb.Fatalf("the watch is over; so far %q", s.all)
		default:
			s.all = append(s.all, string(e.Type)+" "+e.Artifact.Name)
		}
	}
}

func (s *seen) expect(tb testing.TB, want ...string) {
	tb.Helper()
	if got := strings.Join(s.all, ", "); got != strings.Join(want, ", ") {
		tb.Errorf("got %s, want %s", got, strings.Join(want, ", "))
	}
}

// TestWatch: output is there while the job runs, for a client that watches from the beginning and
// for one that comes later, characters and bytes whole.
func TestWatch(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	const source = `printf 'caf\303'; sleep 0.3; printf '\251\n'; printf 'bytes \377\n' >&2; echo data > made.txt; sleep 300`
	id, first := g.watchFromTheBegin(job.Spec{Runtime: "bash", Source: source, Limits: job.Limits{WallMS: 300_000}})
	whole := func(s *seen) func() bool {
		return func() bool { return s.stdout.String() == "café\n" && s.stderr.String() == "bytes \xff\n" }
	}
	first.until(t, whole(first))
	if j, err := g.client.Get(t.Context(), id); err != nil || j.Status != job.Running {
		t.Errorf("got %+v, %v, want a job that still runs", j, err)
	}
	late := g.watch(id)
	late.until(t, whole(late))
	if _, err := g.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	never := func() bool { return false }
	first.until(t, never)
	late.until(t, never)
	first.expect(t, "queued", "running", "canceled", "result")
	late.expect(t, "running", "canceled", "result")

	// Ended before anybody looked, but its events are kept.
	id = g.submit(job.Spec{Runtime: "bash", Source: "echo out; echo err >&2; echo data > made.txt; exit 3", Stream: true})
	g.wait(id)
	replayed := g.watch(id)
	replayed.until(t, never)
	replayed.expect(t, "running", "artifact made.txt", "failed", "result")
	if replayed.stdout.String() != "out\n" || replayed.stderr.String() != "err\n" || *replayed.result.ExitCode != 3 {
		t.Errorf("got %q, %q, %+v", replayed.stdout.String(), replayed.stderr.String(), replayed.result)
	}
	// And without asking for that they are not.
	id = g.submit(job.Spec{Runtime: "bash", Source: "echo out"})
	g.wait(id)
	ended := g.watch(id)
	ended.until(t, never)
	ended.expect(t, "succeeded", "result")
}

// TestWatchWhileThingsDie: the api is killed and started again, then the worker. Nothing is
// seen twice and nothing lost, and the second try is told as one.
func TestWatchWhileThingsDie(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	id, s := g.watchFromTheBegin(job.Spec{
		Runtime: "bash", Source: "for i in {1..100}; do echo line $i; sleep 0.05; done; read; for i in {101..150}; do echo line $i; done", Limits: job.Limits{WallMS: 300_000},
		Interactive: true,
	})
	var all string
	for i := range 150 {
		all += fmt.Sprintf("line %d\n", i+1)
	}
	lines := func(n int) func() bool { return func() bool { return strings.Count(s.stdout.String(), "\n") >= n } }
	s.until(t, lines(20))
	g.api.Kill()
	g.api.Restart()
	s.until(t, lines(60))
	if !strings.HasPrefix(all, s.stdout.String()) {
		t.Fatalf("got %q", s.stdout.String())
	}
	g.worker.Kill()
	g.worker.Restart()
	again := func() bool { return strings.Count(strings.Join(s.all, " "), "running") == 2 }
	s.until(t, func() bool { return again() && lines(100)() })
	if err := g.client.SendInput(t.Context(), id, job.Input{Data: "\n"}); err != nil {
		t.Fatal(err)
	}
	s.until(t, func() bool { return false })
	s.expect(t, "queued", "running", "queued", "running", "succeeded", "result")
	if got := s.stdout.String(); got != all || got != s.result.Stdout {
		t.Errorf("got %d bytes, want %d, and those of the result", len(got), len(all))
	}
	gbtest.Eventually(t, "the api is ready", func() bool { return status(t, g.url+"/readyz") == http.StatusOK })
}
