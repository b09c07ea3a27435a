package direct_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// worked ends each job of a run that is queued, as a worker would.
func worked(t *testing.T, records *record.Store, id string, becomes func(step string, index, try int) job.Status) {
	t.Helper()
	r, err := records.GetRun(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range slices.Sorted(maps.Keys(r.Items)) {
		for _, i := range slices.Sorted(maps.Keys(r.Items[step])) {
			item := r.Items[step][i]
			if item.Status != job.Queued {
				continue
			}
			j, err := records.Start(t.Context(), job.StepJobID(id, step, i, item.Try), 1, "w")
			if errors.Is(err, job.ErrEnded) {
				continue
			}
			if err == nil {
				err = records.End(t.Context(), j, record.Ending{Status: becomes(step, i, item.Try), Result: []byte(`{"status":"succeeded","artifacts":[{"name":"a.csv","size":1,"sha256":"x"}]}`)})
			}
			if err != nil {
				t.Fatalf("end job of %s[%d]: %v", step, i, err)
			}
		}
	}
}

func source(needs ...string) (s job.Step) {
	s.Runtime, s.Source, s.Needs = "python", "print(1)", needs
	return s
}

// five is a pipeline of five steps with a fan-out of 20.
func five() job.Pipeline {
	parse, chart, alarm := source("fetch"), source("parse"), source("parse")
	parse.Each, parse.Parallel = &job.Each{From: "/params/list"}, 7
	parse.Args = []job.Value{{From: "/item"}}
	parse.Retry = &job.Retry{Max: 2}
	chart.When = "needs.parse.count == 20"
	alarm.When = "needs.parse.failed > 0"
	return job.Pipeline{
		Params:  []byte(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer"}}}}`),
		Steps:   map[string]job.Step{"fetch": source(), "parse": parse, "chart": chart, "alarm": alarm, "mail": source("chart")},
		Outputs: map[string]job.Value{"count": {From: "/needs/parse/succeeded"}}, Callback: &job.Callback{URL: "https://example.com/hook"},
	}
}

func list(n int) []byte {
	text := []byte(`{"list":[`)
	for i := range n {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Append(text, i)
	}
	return append(text, "]}"...)
}

// TestAdvanceKilled: two processes advance runs of five steps with a fan-out of 20, some of whose jobs are run
// again, and each is killed again and again at some command. Each run ends as it would have without that: no
// step is lost, no job made twice, one message sent.
func TestAdvanceKilled(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	becomes := func(step string, index, try int) job.Status {
		if step == "parse" && index%5 == 0 && (try < 2 || index == 15) {
			return job.Failed
		}
		return job.Succeeded
	}
	firers := []*firer{newFirer(t, w), newFirer(t, w)}
	deaths := 0
	for n := range 12 {
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: five(), Params: list(20)})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(n), 1))
		for round := 0; ; round++ {
			if round == 500 {
				t.Fatalf("run %d doesn't end: %+v", n, run)
			}
			var both sync.WaitGroup
			for _, f := range firers {
				f.arm(r.IntN(12), r.IntN(2) == 0)
				both.Go(func() { _ = f.Advance(t.Context(), run.ID, time.Now()) }) // it may have died
			}
			both.Wait()
			for _, f := range firers {
				if f.dead {
					deaths++
				}
			}
			if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
			if run.Status != job.Running {
				break
			}
			if r.IntN(2) == 0 {
				worked(t, w.Records, run.ID, becomes)
			}
		}
		got := map[string]string{}
		for name, step := range run.Steps {
			got[name] = fmt.Sprintf("%s %d %d %d", step.Status, step.Count, step.Succeeded, step.Failed)
		}
		want := map[string]string{"fetch": "succeeded 1 1 0", "parse": "failed 20 19 1", "chart": "succeeded 1 1 0", "alarm": "succeeded 1 1 0", "mail": "succeeded 1 1 0"}
		if diff := cmp.Diff(want, got); diff != "" || run.Status != job.Failed || string(run.Outputs) != `{"count":19}` {
			t.Errorf("run %d is %s with outputs %s: %s", n, run.Status, run.Outputs, diff)
		}
		for i, j := range run.Steps["parse"].Jobs {
			try := 1
			if i == 15 {
				try = 3
			} else if i%5 == 0 {
				try = 2
			}
			if j.Try != try {
				t.Errorf("run %d: job %d of parse had %d tries, want %d", n, i, j.Try, try)
			}
		}
		if sent := w.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val(); sent != int64(n+1) {
			t.Errorf("got %d messages of %d runs", sent, n+1)
		}
	}
	jobs := w.Raw.ZCard(t.Context(), "gb:{default}:jobs").Val()
	if want := int64(12 * (4 + 20 + 5)); jobs != want { // index 0, 5, 10 twice, 15 thrice
		t.Errorf("got %d jobs, want %d", jobs, want)
	}
	t.Logf("%d deaths", deaths)
}

// TestAdvanceCanceled: a run that is canceled, or whose time is up, ends its jobs and then itself.
func TestAdvanceCanceled(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for _, reason := range []string{record.RunCanceled, record.RunOverdue} {
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: five(), Params: list(3)})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if err := w.Client.Advance(t.Context(), run.ID, now); err != nil {
			t.Fatal(err)
		}
		if reason == record.RunOverdue {
			now = now.Add(job.DefaultRunSeconds * time.Second)
		} else if _, err := w.Client.CancelRun(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Client.Advance(t.Context(), run.ID, now); err != nil {
				t.Fatal(err)
			}
		}
		run, err = w.Client.GetRun(t.Context(), run.ID)
		if err != nil || run.Status != job.Canceled || run.Reason != reason || run.Steps["fetch"].Status != "canceled" || run.FinishedAt == nil {
			t.Errorf("%s: got %+v, %v", reason, run, err)
		}
		if j, err := w.Client.Get(t.Context(), job.StepJobID(run.ID, "fetch", 0, 1)); err != nil || j.Status != job.Canceled {
			t.Errorf("%s: got %s, %v, want the job canceled", reason, j.Status, err)
		}
	}
}

// TestAdvanceRefused: a job that can't be made fails its step, and says why.
func TestAdvanceRefused(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	chart := source("fetch")
	chart.Files = []job.StepFile{{From: "/needs/fetch/artifacts/plot.png", TemplateFile: job.TemplateFile{File: job.File{Name: "plot.png"}}}}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source(), "chart": chart}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		worked(t, w.Records, run.ID, func(string, int, int) job.Status { return job.Succeeded })
	}
	run, err = w.Client.GetRun(t.Context(), run.ID)
	if err != nil || run.Status != job.Failed {
		t.Fatalf("got %+v, %v, want it failed", run, err)
	}
	want := []job.RunJob{{Index: 0, Try: 1, Status: "refused", Why: "steps.chart.files[0].from: is no artifact that was made (got /needs/fetch/artifacts/plot.png); allowed: an artifact of a step before"}}
	if diff := cmp.Diff(want, run.Steps["chart"].Jobs); diff != "" {
		t.Error(diff)
	}
}

// TestAdvanceLost: a job that has no record any more is one that Glovebox lost, and its run goes on.
func TestAdvanceLost(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.Raw.Del(t.Context(), "gb:{default}:job:"+job.StepJobID(run.ID, "fetch", 0, 1)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil || run.Status != job.Failed {
		t.Errorf("got %+v, %v, want it failed", run, err)
	}
}

// TestAdvanceForged: a worker that was taken over writes what it likes about a run's jobs. The run ends all the same, and
// no job is believed in that isn't there.
func TestAdvanceForged(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for name, forged := range map[string][]any{
		"no item":            {"fetch:0", "spoiled"},
		"items of no job":    {"fetch:7", "1 succeeded", "fetch:-1", "1 queued", "nowhere:0", "1 queued", ":", ""},
		"a try of its own":   {"fetch:0", "900 queued"},
		"an end of its own":  {"fetch:0", "1 " + string(job.Failed)},
		"a status of no job": {"fetch:0", "1 nothing"},
	} {
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source(), "last": source("fetch")}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		w.End(t, w.Start(t, job.StepJobID(run.ID, "fetch", 0, 1)), nil, nil)
		if err := w.Raw.HSet(t.Context(), "gb:{default}:runitems:"+run.ID, forged...).Err(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if j, err := w.Client.Get(t.Context(), job.StepJobID(run.ID, "last", 0, 1)); err == nil && j.Status == job.Queued {
				w.End(t, w.Start(t, j.ID), nil, nil)
			}
		}
		run, err = w.Client.GetRun(t.Context(), run.ID)
		if err != nil || !run.Status.Final() || run.Steps["fetch"].Count != 1 {
			t.Errorf("%s: got %+v, %v, want it ended", name, run, err)
		}
	}
}

// TestStartRunRefuses: what no submit would accept is refused before anything exists.
func TestStartRunRefuses(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	bad, none := source(), job.Step{Template: "none"}
	bad.Runtime = "cobol"
	_, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"a": bad, "b": none}}})
	var invalid job.Invalid
	if !errors.As(err, &invalid) || len(invalid) != 2 || invalid[0].Field != "steps.a.runtime" || invalid[1].Field != "steps.b.template" {
		t.Errorf("got %v, want both faults", err)
	}
	if page, err := w.Client.ListRuns(t.Context(), ""); err != nil || len(page.Runs) != 0 {
		t.Errorf("got %+v, %v, want no run", page, err)
	}
	// A step's jobs have two words of metadata besides.
	for n, fits := range map[int]bool{job.MaxMetadata - 2: true, job.MaxMetadata - 1: false} {
		many := source()
		many.Metadata = map[string]job.Value{}
		for i := range n {
			many.Metadata[fmt.Sprint(i)] = job.Value{Text: "x"}
		}
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"a": many}}})
		if !fits {
			if !errors.As(err, &invalid) || invalid[0].Field != "steps.a.metadata" {
				t.Errorf("%d words of metadata: got %v, want them refused", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if run = worksOff(t, w, run.ID, func(string, int, int) job.Status { return job.Succeeded }); run.Status != job.Succeeded {
			t.Errorf("%d words of metadata: got %+v", n, run)
		}
	}
	other := w.Client.For("other")
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"a": source()}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.GetRun(t.Context(), run.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("another tenant's run: got %v, want job.ErrNotFound", err)
	}
	if _, err := other.CancelRun(t.Context(), run.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("cancel another tenant's run: got %v, want job.ErrNotFound", err)
	}
}

// TestAdvanceChain: all that follows of a step's failure is decided at once, were it a chain of as many steps as there may be.
func TestAdvanceChain(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	p := job.Pipeline{Steps: map[string]job.Step{"s0": source()}}
	for n := 1; n < job.MaxSteps; n++ {
		p.Steps[fmt.Sprintf("s%d", n)] = source(fmt.Sprintf("s%d", n-1))
	}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	advance := func() {
		t.Helper()
		if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	advance()
	worked(t, w.Records, run.ID, func(string, int, int) job.Status { return job.Failed })
	advance()
	if r, err := w.Records.GetRun(t.Context(), run.ID); err != nil || r.State != job.Failed {
		t.Errorf("got %s, %v, want it to have failed after one look", r.State, err)
	}
}
