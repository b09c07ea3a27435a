package producer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// watching is a Watch under way.
type watching struct {
	t      *testing.T
	events chan producer.Event
	err    error // once events is closed
}

func watch(ctx context.Context, t *testing.T, jobs everything, id, after string) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{t: t, events: make(chan producer.Event)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(w.events)
		for e, err := range jobs.Watch(ctx, id, after) {
			if w.err = err; err != nil {
				continue
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// next is the next event, or false at the end.
func (w *watching) next() (producer.Event, bool) {
	w.t.Helper()
	select {
	case e, ok := <-w.events:
		return e, ok
	case <-time.After(gbtest.Patience):
		w.t.Fatalf("no event within %s", gbtest.Patience)
	}
	panic("not reached")
}

// short says in a few words what an event is.
func short(e producer.Event) string {
	s := string(e.Type)
	switch e.Type {
	case producer.EventStatus:
		return fmt.Sprintf("%s %s %d", s, e.Status, e.Attempt)
	case producer.EventStdout, producer.EventStderr:
		return fmt.Sprintf("%s %d %q", s, e.Offset, e.Data)
	case producer.EventArtifact:
		return s + " " + e.Artifact.Name + e.Artifact.URL
	case producer.EventDisplay:
		return fmt.Sprintf("%s %s %s", s, e.Shown.Kind, e.Shown.Data["text/html"].Text)
	case producer.EventResult:
		return s + " " + string(e.Job.Result.Status)
	case producer.EventGap:
	}
	return s
}

// expect reads as many events as are wanted.
func (w *watching) expect(want ...string) {
	w.t.Helper()
	for _, want := range want {
		e, ok := w.next()
		if got := short(e); !ok || got != want {
			w.t.Fatalf("got %q (%v, %v), want %q", got, ok, w.err, want)
		}
	}
}

func (w *watching) over() {
	w.t.Helper()
	if e, ok := w.next(); ok || w.err != nil {
		w.t.Fatalf("got %q, %v, want the end", short(e), w.err)
	}
}

// publish is what a worker does with the next events of its epoch.
func publish(t *testing.T, w *producertest.Env, j record.Record, first int, events ...record.Event) {
	t.Helper()
	if err := w.Worker.Publish(t.Context(), j, first, events); err != nil {
		t.Fatal(err)
	}
}

func runningEvent(t *testing.T, attempt int) record.Event {
	t.Helper()
	b, err := json.Marshal(record.StatusChange{Status: job.Running, Attempt: attempt})
	if err != nil {
		t.Fatal(err)
	}
	return record.Event{Type: record.EventStatus, Data: b}
}

func stdout(offset int64, text string) record.Event {
	return record.Event{Type: record.EventStdout, Offset: offset, Data: []byte(text)}
}

func stderr(offset int64, text string) record.Event {
	return record.Event{Type: record.EventStderr, Offset: offset, Data: []byte(text)}
}

func (s suite) watch(t *testing.T) {
	j := s.submit(t)
	w, second := watch(t.Context(), t, s.jobs, j.ID, ""), watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status queued 0")
	second.expect("status queued 0")
	running := s.w.Start(t, j.ID)
	if !running.Watched(time.Now()) {
		t.Error("the worker does not know that the job is watched")
	}
	publish(t, s.w, running, 1, runningEvent(t, 1))
	w.expect("status running 1")
	publish(t, s.w, running, 2, stdout(0, "<a> & é\u2028\n"), stderr(0, "bytes \xff\x00"))
	w.expect(`stdout 0 "<a> & é\u2028\n"`, `stderr 0 "bytes \xff\x00"`)
	artifact, err := json.Marshal(job.Artifact{Name: "plot.png", Size: 3, MediaType: "image/png", SHA256: "ab", Kind: job.KindChart})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s.w, running, 4, stdout(11, strings.Repeat("x", 32<<10)), record.Event{Type: record.EventArtifact, Data: artifact},
		record.Event{Type: record.EventDisplay, Data: []byte(`{"kind":"display","data":{"text/html":"<b>","image/png":{"artifact":"plot.png"}}}`)}, record.Event{Type: record.EventEnd})
	if e, _ := w.next(); len(e.Data) != 32<<10 || e.Offset != 11 {
		t.Errorf("got %d bytes at %d", len(e.Data), e.Offset)
	}
	w.expect("artifact plot.png", "display display <b>")
	s.w.End(t, running, nil, nil)
	w.expect("status succeeded 1")
	e, _ := w.next()
	got, err := s.jobs.Get(t.Context(), j.ID)
	if diff := cmp.Diff(got, e.Job); err != nil || diff != "" || e.ID != producer.LastEvent {
		t.Errorf("the result is not what Get returns: %v %s", err, diff)
	}
	w.over()
	second.expect("status running 1", `stdout 0 "<a> & é\u2028\n"`, `stderr 0 "bytes \xff\x00"`)
}

// watchLate: whoever comes late sees all, whoever comes back what it has not seen.
func (s suite) watchLate(t *testing.T) {
	j := s.submit(t)
	running := s.w.Start(t, j.ID)
	publish(t, s.w, running, 1, runningEvent(t, 1), stdout(0, "a"), stdout(1, "b"), stderr(0, "c"))
	w := watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status running 1", `stdout 0 "a"`, `stdout 1 "b"`, `stderr 0 "c"`)
	publish(t, s.w, running, 5, stdout(2, "d"), record.Event{Type: record.EventEnd})
	w.expect(`stdout 2 "d"`)
	s.w.End(t, running, nil, nil)
	w.expect("status succeeded 1", "result succeeded")
	w.over()

	replay := func(after string) (all []producer.Event) {
		w := watch(t.Context(), t, s.jobs, j.ID, after)
		for e, ok := w.next(); ok; e, ok = w.next() {
			all = append(all, e)
		}
		if w.err != nil {
			t.Error(w.err)
		}
		return all
	}
	all := replay("")
	if len(all) != 7 || all[0].ID == "" {
		t.Fatalf("got %+v, want all 7 events", all)
	}
	for i, e := range all {
		if e.ID == "" {
			continue
		}
		if diff := cmp.Diff(all[i+1:], replay(e.ID), cmp.Transformer("short", short)); diff != "" && i < len(all)-1 {
			t.Errorf("after event %d: %s", i, diff)
		}
	}
	if rest := replay(producer.LastEvent); len(rest) != 0 {
		t.Errorf("after the last: got %+v", rest)
	}
	// One whose place is gone is told so.
	var words []string
	for _, e := range replay("1-1") {
		words = append(words, short(e))
	}
	if want := []string{"gap", "status running 1", `stdout 0 "a"`}; len(words) < 3 || !slices.Equal(words[:3], want) {
		t.Errorf("from a place that is gone: got %q", words)
	}
}

func (s suite) watchEnded(t *testing.T) {
	j := s.submit(t)
	s.w.End(t, s.w.Start(t, j.ID), nil, nil)
	w := watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status succeeded 1", "result succeeded")
	w.over()
	canceled := s.submit(t)
	w = watch(t.Context(), t, s.jobs, canceled.ID, "")
	w.expect("status queued 0")
	if _, err := s.jobs.Cancel(t.Context(), canceled.ID); err != nil {
		t.Fatal(err)
	}
	w.expect("status canceled 0", "result canceled")
	w.over()
}

// watchTakenBack: the job's worker is lost; the next one begins anew.
func (s suite) watchTakenBack(t *testing.T) {
	j := s.submit(t)
	w := watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status queued 0")
	running := s.w.Start(t, j.ID)
	publish(t, s.w, running, 1, runningEvent(t, 1), stdout(0, "first"))
	w.expect("status running 1", `stdout 0 "first"`)
	if answer, err := s.w.Records.Requeue(t.Context(), j.ID, 1, running.Worker, record.CostAttempt, 0); err != nil || answer != record.RequeueOK {
		t.Fatal(answer, err)
	}
	w.expect("status queued 1")
	running, err := s.w.Worker.Start(t.Context(), j.ID, 2, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s.w, running, 1, runningEvent(t, 2), stdout(0, "second"), record.Event{Type: record.EventEnd})
	w.expect("status running 2", `stdout 0 "second"`)
	s.w.End(t, running, nil, nil)
	w.expect("status succeeded 2", "result succeeded")
	w.over()
}

func (s suite) watchGap(t *testing.T) {
	j := s.submit(t)
	running := s.w.Start(t, j.ID)
	publish(t, s.w, running, 1, runningEvent(t, 1))
	mib := strings.Repeat("x", 1<<20)
	publish(t, s.w, running, 2, stdout(0, "begun"), stdout(5, mib), stdout(5+1<<20, "rest"))
	w := watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status running 1", "gap")
	if e, _ := w.next(); e.Offset != 5 || len(e.Data) != 1<<20 {
		t.Errorf("got %d bytes at %d", len(e.Data), e.Offset)
	}
	w.expect(fmt.Sprintf("stdout %d %q", 5+1<<20, "rest"))
	s.w.End(t, running, nil, nil) // and its worker never came to say that this is all
	w.expect("gap", "status succeeded 1", "result succeeded")
	w.over()
}

func (s suite) watchNoMore(t *testing.T) {
	j := s.submit(t)
	for e, err := range s.jobs.Watch(t.Context(), j.ID, "") {
		if short(e) != "status queued 0" || err != nil {
			t.Errorf("got %q, %v", short(e), err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := watch(ctx, t, s.jobs, j.ID, "")
	w.expect("status queued 0")
	cancel()
	for e, ok := w.next(); ok; e, ok = w.next() {
		t.Errorf("got %q after the end of its context", short(e))
	}
	if w.err != nil && !errors.Is(w.err, context.Canceled) {
		t.Errorf("got %v, want Canceled", w.err)
	}
}

func (s suite) watchNothing(t *testing.T) {
	for _, id := range []string{job.NewID("default"), job.NewID("other"), "", "..", "default-../../x"} {
		for _, after := range []string{"", "1-1", producer.LastEvent} {
			w := watch(t.Context(), t, s.jobs, id, after)
			if e, ok := w.next(); ok || !errors.Is(w.err, job.ErrNotFound) {
				t.Errorf("watch %q after %q: got %q, %v, want ErrNotFound", id, after, short(e), w.err)
			}
		}
	}
	j := s.submit(t)
	var invalid job.Invalid
	for _, after := range []string{"x", "1-", "1-1\r\nX: y", strings.Repeat("1", 10_000)} {
		w := watch(t.Context(), t, s.jobs, j.ID, after)
		if e, ok := w.next(); ok || !errors.As(w.err, &invalid) || invalid[0].Field != "Last-Event-ID" {
			t.Errorf("watch after %q: got %q, %v, want job.Invalid", after, short(e), w.err)
		}
	}
}

func (s suite) watchOverRestart(t *testing.T) {
	j := s.submit(t)
	running := s.w.Start(t, j.ID)
	w := watch(t.Context(), t, s.jobs, j.ID, "")
	w.expect("status running 1")
	publish(t, s.w, running, 1, runningEvent(t, 1), stdout(0, "a"))
	w.expect(`stdout 0 "a"`)
	s.w.Redis.Kill()
	s.w.Redis.Restart()
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		err := s.w.Worker.Publish(t.Context(), running, 3, []record.Event{stdout(1, "b"), {Type: record.EventEnd}})
		if err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	w.expect(`stdout 1 "b"`)
	s.w.End(t, running, nil, nil)
	w.expect("status succeeded 1", "result succeeded")
	w.over()
}
