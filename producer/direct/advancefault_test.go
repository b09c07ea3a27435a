package direct_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// endAs ends a step's job as a worker would that leaves this.
func endAs(t *testing.T, w *producertest.Env, run, step string, e record.Ending) {
	t.Helper()
	if err := w.Records.End(t.Context(), w.Start(t, job.StepJobID(run, step, 0, 1)), e); err != nil {
		t.Fatal(err)
	}
}

// readers are two steps of which each reads what a step before has left, and one that reads nothing.
func readers() job.Pipeline {
	outputs, artifacts := source("fetch"), source("fetch")
	outputs.Args = []job.Value{{From: "/needs/fetch/outputs/x"}}
	artifacts.Each = &job.Each{Artifacts: "fetch"}
	return job.Pipeline{
		Steps:   map[string]job.Step{"fetch": source(), "other": source(), "artifacts": artifacts, "outputs": outputs, "plain": source("other")},
		Outputs: map[string]job.Value{"x": {From: "/needs/fetch/outputs/x"}, "n": {From: "/needs/other/succeeded"}},
	}
}

// TestAdvanceUnreadable: a result that can't be read, whatever a worker has left in its place, fails the steps that read it and no other,
// and the run ends.
func TestAdvanceUnreadable(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for name, spoil := range map[string]func(run, id string){
		"no JSON": func(run, _ string) {
			endAs(t, w, run, "fetch", record.Ending{Status: job.Succeeded, Result: []byte(`{`)})
		},
		"another's object": func(run, _ string) {
			endAs(t, w, run, "fetch", record.Ending{Status: job.Succeeded, ResultRef: "tenants/other/jobs/x/1/result.json"})
		},
		"no object": func(run, id string) {
			endAs(t, w, run, "fetch", record.Ending{Status: job.Succeeded, ResultRef: "tenants/default/jobs/" + id + "/1/result.json"})
		},
		"a spoiled record": func(run, id string) {
			endAs(t, w, run, "fetch", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
			w.Raw.HSet(t.Context(), "gb:{default}:job:"+id, "metadata", "{")
		},
		"a record of another type": func(run, id string) {
			endAs(t, w, run, "fetch", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
			w.Raw.Set(t.Context(), "gb:{default}:job:"+id, "x", 0)
		},
	} {
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: readers()})
		if err != nil {
			t.Fatal(err)
		}
		advance := func() {
			t.Helper()
			if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		advance()
		spoil(run.ID, job.StepJobID(run.ID, "fetch", 0, 1))
		endAs(t, w, run.ID, "other", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
		advance()
		endAs(t, w, run.ID, "plain", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
		advance()
		if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for step, s := range run.Steps {
			got[step] = s.Status
			if s.Status == "failed" && s.Why == "" {
				t.Errorf("%s: step %s doesn't say why it failed", name, step)
			}
		}
		want := map[string]string{"fetch": "succeeded", "other": "succeeded", "plain": "succeeded", "artifacts": "failed", "outputs": "failed"}
		if diff := cmp.Diff(want, got); diff != "" || run.Status != job.Failed || string(run.Outputs) != `{"n":1}` {
			t.Errorf("%s: the run is %s with outputs %s: %s", name, run.Status, run.Outputs, diff)
		}
	}
}

// withoutBucket is a client whose bucket is away.
func withoutBucket(t *testing.T, w *producertest.Env) *direct.Client {
	t.Helper()
	return w.ClientAt(t, "http://"+gbtest.Addr(t))
}

// TestAdvanceBucketAway: while the bucket is away what reads from it waits, and holds up no other step. A run that is canceled meanwhile ends.
func TestAdvanceBucketAway(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: readers()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	id := job.StepJobID(run.ID, "fetch", 0, 1)
	result, err := json.Marshal(job.Result{ID: id, Status: job.Succeeded, Artifacts: []job.Artifact{{Name: job.OutputsFile, Size: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	endAs(t, w, run.ID, "fetch", record.Ending{Status: job.Succeeded, Result: result})
	endAs(t, w, run.ID, "other", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
	away := withoutBucket(t, w)
	gbtest.Eventually(t, "the step that reads nothing has a job", func() bool {
		looking, over := context.WithTimeout(t.Context(), record.RunRetry/3) // which a bucket that hangs takes the whole of
		defer over()
		if err := away.Advance(looking, run.ID, time.Now()); err == nil {
			t.Error("got no error without a bucket")
		}
		_, err := w.Client.Get(t.Context(), job.StepJobID(run.ID, "plain", 0, 1))
		return err == nil
	})
	if run, err = w.Client.CancelRun(t.Context(), run.ID); err != nil || run.Steps["outputs"].Status == "failed" {
		t.Errorf("got %+v, %v, want the step that reads outputs to wait", run, err)
	}
	for range 2 {
		if err := away.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Errorf("once it is canceled: %v", err)
		}
	}
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil || run.Status != job.Canceled || string(run.Outputs) != `{"n":1}` {
		t.Errorf("got %s with outputs %s, %v, want it canceled", run.Status, run.Outputs, err)
	}
}

// TestAdvanceRefusedPipeline: a run whose stored pipeline this version no longer takes stops its jobs and fails, and says why; one that was canceled
// is canceled.
func TestAdvanceRefusedPipeline(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for _, reason := range []string{record.RunRefused, record.RunCanceled} {
		run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source(), "last": source("fetch")}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		last := source("fetch")
		last.When = "word_of_an_older_version()"
		old, err := job.Marshal(job.Pipeline{Steps: map[string]job.Step{"fetch": source(), "last": last}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Raw.HSet(t.Context(), "gb:{default}:run:"+run.ID, "pipeline", old).Err(); err != nil {
			t.Fatal(err)
		}
		want := job.Failed
		if reason == record.RunCanceled {
			want = job.Canceled
			if _, err := w.Client.CancelRun(t.Context(), run.ID); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		}
		if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil || run.Status != want || run.Reason != reason || !strings.Contains(run.Note, "word_of_an_older_version") {
			t.Errorf("%s: got %s for %q with %q, %v, want %s", reason, run.Status, run.Reason, run.Note, err, want)
		}
		if j, err := w.Client.Get(t.Context(), job.StepJobID(run.ID, "fetch", 0, 1)); err != nil || j.Status != job.Canceled {
			t.Errorf("%s: its job is %s, %v", reason, j.Status, err)
		}
	}
}

// TestAdvanceDisabled: a tenant that is disabled has its runs wait, and they go on once it is enabled.
func TestAdvanceDisabled(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "acme", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	c := w.Client.For("acme")
	run, err := c.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}})
	if err != nil {
		t.Fatal(err)
	}
	disable := func(disabled bool) {
		t.Helper()
		tenant, err := w.Client.GetTenant(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		tenant.Terms.Disabled = disabled
		if _, err := w.Client.SetTerms(t.Context(), "acme", tenant.Revision, tenant.Terms); err != nil {
			t.Fatal(err)
		}
		gbtest.Eventually(t, "the tenant's terms are known", func() bool { return (c.Enabled(t.Context()) != nil) == disabled })
	}
	disable(true)
	if err := c.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if run, err = c.GetRun(t.Context(), run.ID); err != nil || run.Status != job.Running || len(run.Steps["fetch"].Jobs) != 0 {
		t.Fatalf("got %+v, %v, want it to wait", run, err)
	}
	disable(false)
	if err := c.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if run, err = c.GetRun(t.Context(), run.ID); err != nil || len(run.Steps["fetch"].Jobs) != 1 || run.Steps["fetch"].Jobs[0].Status != "queued" {
		t.Errorf("got %+v, %v, want its job", run, err)
	}
}

// TestRunOver: a worker that says that a run is over has it wait, until its deadline, and not be looked at without end.
func TestRunOver(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Raw.HSet(t.Context(), "gb:{default}:runitems:"+run.ID, "over", 1).Err(); err != nil {
		t.Fatal(err)
	}
	m := &counted{}
	if err := w.Client.ForAnswer("default", m).Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if m.takes > 3 {
		t.Errorf("it was read %d times", m.takes)
	}
}

// TestRerunForged: an item of no job is none of the run's, and in the way of no rerun.
func TestRerunForged(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source(), "last": source("fetch")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"fetch", "last"} {
		if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		status := map[string]job.Status{"fetch": job.Succeeded, "last": job.Failed}[step]
		endAs(t, w, run.ID, step, record.Ending{Status: status, Result: []byte(`{}`)})
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.Raw.HSet(t.Context(), "gb:{default}:runitems:"+run.ID, "fetch:7", "1 succeeded").Err(); err != nil {
		t.Fatal(err)
	}
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil || len(run.Steps["fetch"].Jobs) != 1 {
		t.Errorf("got %+v, %v, want one job", run.Steps["fetch"], err)
	}
	again, err := w.Client.RerunRun(t.Context(), run.ID, job.RerunRequest{})
	if err != nil || again.Steps["fetch"].KeptFrom != run.ID || len(again.Steps["fetch"].Jobs) != 1 {
		t.Errorf("got %+v, %v, want the step taken over", again.Steps["fetch"], err)
	}
}

// TestRunWorkSpoiled: a worker that makes another type of the index of a tenant's runs stops none of them.
func TestRunWorkSpoiled(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	request := job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}}
	run, err := w.Client.StartRun(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	j := w.Start(t, job.StepJobID(run.ID, "fetch", 0, 1))
	spoil := func() {
		t.Helper()
		if err := w.Worker.Redis().Set(t.Context(), "gb:{default}:runwork", "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	looked := func(id string) {
		t.Helper()
		if score, err := w.Raw.ZScore(t.Context(), "gb:{default}:runwork", id).Result(); err != nil || score != 0 {
			t.Errorf("got %v, %v, want the run to be looked at", score, err)
		}
	}
	spoil()
	w.End(t, j, nil, nil)
	looked(run.ID)
	spoil()
	if _, err := w.Client.CancelRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	looked(run.ID)
	spoil()
	other, err := w.Client.StartRun(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	looked(other.ID)
}

// TestRunOutputs: what has no room among a run's outputs is left out, by name, and is told of.
func TestRunOutputs(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Params: []byte(`{"big":"` + strings.Repeat("x", 60000) + `"}`), Pipeline: job.Pipeline{
		Params: []byte(`{"type":"object","properties":{"big":{"type":"string"}}}`), Steps: map[string]job.Step{"fetch": source()},
		Outputs: map[string]job.Value{"one": {From: "/params/big"}, "two": {From: "/params/big"}, "z": {From: "/needs/fetch/succeeded"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	endAs(t, w, run.ID, "fetch", record.Ending{Status: job.Succeeded, Result: []byte(`{}`)})
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	run, err = w.Client.GetRun(t.Context(), run.ID)
	if err != nil || !strings.HasSuffix(string(run.Outputs), `","z":1}`) || len(run.Outputs) < 60000 || run.Note != "outputs that had no room in the 65536 bytes of all: two" {
		t.Errorf("got outputs of %d bytes, %q, %v, want two of three", len(run.Outputs), run.Note, err)
	}
}

// TestAdvanceMemory: what is read of results, and of the run, is given back.
func TestAdvanceMemory(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: readers()})
	if err != nil {
		t.Fatal(err)
	}
	m := &counted{}
	c := w.Client.ForAnswer("default", m)
	if err := c.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.End(t, w.Start(t, job.StepJobID(run.ID, "fetch", 0, 1)), map[string]string{job.OutputsFile: `{"x":"1"}`}, func(r *job.Result) { r.Stdout = strings.Repeat("x", 40<<10) })
	w.End(t, w.Start(t, job.StepJobID(run.ID, "other", 0, 1)), nil, nil)
	m.most = 0
	if err := c.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	if held, most := m.now(); held != 0 || most < 80<<10 || most > 400<<10 {
		t.Errorf("got %d bytes held, and up to %d", held, most)
	}
	if err := w.Client.Advancer().Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Error(err)
	}
}
