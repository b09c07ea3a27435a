package direct_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// worksOff advances a run to its end, and ends its jobs on the way.
func worksOff(t *testing.T, w *producertest.Env, id string, becomes func(step string, index, try int) job.Status) job.Run {
	t.Helper()
	for range 100 {
		if err := w.Client.Advance(t.Context(), id, time.Now()); err != nil {
			t.Fatal(err)
		}
		run, err := w.Client.GetRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if run.Status.Final() {
			return run
		}
		worked(t, w.Records, id, becomes)
	}
	t.Fatal("the run doesn't end")
	return job.Run{}
}

// TestRerun: what has succeeded is taken over, through repetitions of repetitions, and the rest runs again.
func TestRerun(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	fails := func(failing string) func(string, int, int) job.Status {
		return func(step string, _, _ int) job.Status {
			if step == failing {
				return job.Failed
			}
			return job.Succeeded
		}
	}
	again := func(id string, r job.RerunRequest) job.Run {
		t.Helper()
		run, err := w.Client.RerunRun(t.Context(), id, r)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	invalid := func(id, from, message string) {
		t.Helper()
		var faults job.Invalid
		if _, err := w.Client.RerunRun(t.Context(), id, job.RerunRequest{From: from}); !errors.As(err, &faults) || faults[0].Field != "from" || faults[0].Message != message {
			t.Errorf("rerun from %q: got %v, want %q", from, err, message)
		}
	}
	first, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: five(), Params: list(20)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.RerunRun(t.Context(), first.ID, job.RerunRequest{}); !errors.Is(err, job.ErrRunNotEnded) {
		t.Errorf("rerun of one that runs: got %v", err)
	}
	first = worksOff(t, w, first.ID, fails("chart"))
	second := again(first.ID, job.RerunRequest{IdempotencyKey: "k"})
	if same := again(first.ID, job.RerunRequest{IdempotencyKey: "k"}); same.ID != second.ID {
		t.Errorf("got run %s and %s under one key", second.ID, same.ID)
	}
	if _, err := w.Client.RerunRun(t.Context(), first.ID, job.RerunRequest{From: "parse", IdempotencyKey: "k"}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another rerun under the key: got %v", err)
	}
	second = worksOff(t, w, second.ID, fails(""))
	third := worksOff(t, w, again(second.ID, job.RerunRequest{From: "mail"}).ID, fails(""))
	for _, c := range []struct {
		run  job.Run
		want map[string]string
	}{
		{second, map[string]string{"fetch": first.ID, "parse": first.ID, "alarm": first.ID, "chart": "", "mail": ""}},
		{third, map[string]string{"fetch": first.ID, "parse": first.ID, "alarm": first.ID, "chart": second.ID, "mail": ""}},
	} {
		got := map[string]string{}
		for name, step := range c.run.Steps {
			got[name] = step.KeptFrom
			for _, j := range step.Jobs {
				if of := step.KeptFrom; of == "" && j.ID != job.StepJobID(c.run.ID, name, j.Index, 1) || of != "" && j.ID != job.StepJobID(of, name, j.Index, 1) {
					t.Errorf("%s[%d] has job %s", name, j.Index, j.ID)
				}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || c.run.Status != job.Succeeded || string(c.run.Outputs) != `{"count":20}` {
			t.Errorf("run %s of %s is %s with outputs %s: %s", c.run.ID, c.run.RerunOf, c.run.Status, c.run.Outputs, diff)
		}
	}
	invalid(third.ID, "", "is missing, and every step has succeeded or was not to run")
	invalid(third.ID, "chrat", "is no step of the run's pipeline")
	if err := w.Client.Purge(t.Context(), second.Steps["chart"].Jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	invalid(third.ID, "mail", "needs step chart, whose jobs are no longer kept")
	anew := worksOff(t, w, again(third.ID, job.RerunRequest{From: "chart"}).ID, fails(""))
	if anew.Status != job.Succeeded {
		t.Errorf("got %+v", anew)
	}
	if _, err := w.Client.RerunRun(t.Context(), "other"+first.ID[len("default"):], job.RerunRequest{}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("another tenant's run: got %v", err)
	}

	// A worker that was taken over writes what it likes about jobs, and changes nothing of a step that is kept.
	forged := again(anew.ID, job.RerunRequest{From: "mail"})
	items, err := w.Raw.Keys(t.Context(), "gb:{default}:runitems:"+forged.ID).Result()
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	for _, step := range slices.Sorted(maps.Keys(forged.Steps)) {
		if err := w.Raw.HSet(t.Context(), items[0], step+":0", "7 failed").Err(); err != nil {
			t.Fatal(err)
		}
	}
	run, err := w.Client.GetRun(t.Context(), forged.ID)
	if err != nil || run.Steps["fetch"].Status != "succeeded" || run.Steps["parse"].Succeeded != 20 {
		t.Errorf("got %+v, %v", run.Steps, err)
	}
}

// TestRerunGone: what a rerun has taken over and is no longer kept fails the steps that read it, and says so. The rerun's key names it still.
func TestRerunGone(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	parse, chart, mail := source(), source("parse"), source("parse", "chart")
	parse.Each, mail.Each = &job.Each{From: "/params/list"}, &job.Each{Artifacts: "parse", Match: "*.csv"}
	first, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Params: list(4), Pipeline: job.Pipeline{
		Params: []byte(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer"}}}}`),
		Steps:  map[string]job.Step{"parse": parse, "chart": chart, "mail": mail},
	}})
	if err != nil {
		t.Fatal(err)
	}
	failing := "chart"
	becomes := func(step string, _, _ int) job.Status {
		if step == failing {
			return job.Failed
		}
		return job.Succeeded
	}
	worksOff(t, w, first.ID, becomes)
	failing = ""
	for _, purged := range []bool{false, true} {
		asked := job.RerunRequest{IdempotencyKey: fmt.Sprint(purged)}
		second, err := w.Client.RerunRun(t.Context(), first.ID, asked)
		if err != nil {
			t.Fatal(err)
		}
		if purged {
			if err := w.Client.Purge(t.Context(), second.Steps["parse"].Jobs[2].ID); err != nil {
				t.Fatal(err)
			}
		}
		second = worksOff(t, w, second.ID, becomes)
		if mail := second.Steps["mail"]; purged && (mail.Status != "failed" || !strings.Contains(mail.Why, "job 3 of 4 left is no longer kept: rerun from parse")) || !purged && mail.Count != 4 {
			t.Errorf("purged %v: got %s, %+v", purged, second.Status, mail)
		}
		if again, err := w.Client.RerunRun(t.Context(), first.ID, asked); err != nil || again.ID != second.ID {
			t.Errorf("purged %v: the same key again: got %s, %v, want %s", purged, again.ID, err, second.ID)
		}
		asked.From = "parse"
		if _, err := w.Client.RerunRun(t.Context(), first.ID, asked); !errors.Is(err, job.ErrConflict) {
			t.Errorf("purged %v: the same key for something else: got %v, want ErrConflict", purged, err)
		}
	}
}

// TestRerunLargeParams: a run whose parameters have more bytes with their defaults than somebody may send is repeated as any other.
func TestRerunLargeParams(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	p := job.Pipeline{
		Params: fmt.Appendf(nil, `{"type":"object","properties":{"a":{"type":"string"},"b":{"default":%q}}}`, strings.Repeat("x", 8<<10)),
		Steps:  map[string]job.Step{"a": source()},
	}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: p, Params: fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", 60<<10))})
	if err != nil {
		t.Fatal(err)
	}
	run = worksOff(t, w, run.ID, func(string, int, int) job.Status { return job.Failed })
	again, err := w.Client.RerunRun(t.Context(), run.ID, job.RerunRequest{})
	if err != nil || !bytes.Equal(again.Params, run.Params) {
		t.Errorf("got %d bytes of parameters, %v, want the %d of before", len(again.Params), err, len(run.Params))
	}
}

// TestRunBounded: what a run's steps have one job for each of is bounded over all steps, and a step beyond that fails and says so.
func TestRunBounded(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	one := source()
	one.Each = &job.Each{From: "/params/list"}
	p := job.Pipeline{Params: []byte(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}}}}`), Steps: map[string]job.Step{}}
	for i := range job.MaxSteps {
		p.Steps[fmt.Sprintf("s%02d", i)] = one
	}
	large := bytes.Repeat([]byte("x"), 60<<10)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: p, Params: fmt.Appendf(nil, `{"list":[%q]}`, large)})
	if err != nil {
		t.Fatal(err)
	}
	run = worksOff(t, w, run.ID, func(string, int, int) job.Status { return job.Succeeded })
	failed := 0
	for name, step := range run.Steps {
		if step.Status == "failed" {
			failed++
			if step.Why != "what the run's steps have one job for each of is too large: up to 2 MiB together" {
				t.Errorf("%s: got %q", name, step.Why)
			}
		}
	}
	if failed == 0 || failed > job.MaxSteps*2/3 {
		t.Errorf("got %d steps failed of %d that take 60 KiB each", failed, job.MaxSteps)
	}
	size, err := w.Records.RunSize(t.Context(), run.ID)
	if err != nil || size > 3<<20 {
		t.Errorf("the run takes %d bytes, %v", size, err)
	}
}
