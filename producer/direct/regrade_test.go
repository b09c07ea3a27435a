package direct_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestOwnMetadata: nobody but Glovebox says what a job was made by, or grades again.
func TestOwnMetadata(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for _, key := range []string{job.RegradeKey, job.TemplateKey, job.HookKey, job.DeliveryKey, job.ScheduleKey, job.FireKey, job.RunKey, job.StepKey} {
		forged := job.Spec{Runtime: "python", Source: "1", Metadata: map[string]string{key: "default-another"}}
		var invalid job.Invalid
		if _, err := w.Client.Submit(t.Context(), forged); !errors.As(err, &invalid) || invalid[0].Field != "metadata."+key {
			t.Errorf("a job with %s: got %v", key, err)
		}
		b, err := w.Client.SubmitBatch(t.Context(), producer.BatchOptions{}, oneByOne(forged))
		if err != nil || b.Jobs != 0 || b.Rejected != 1 {
			t.Errorf("a batch with %s: got %+v, %v", key, b, err)
		}
		of := job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: "1"}, Metadata: map[string]job.Value{key: {Text: "default-another"}}}
		if _, err := w.Client.SetTemplate(t.Context(), "forged", producer.TemplateRequest{Spec: of}); !errors.As(err, &invalid) {
			t.Errorf("a template with %s: got %v", key, err)
		}
		step := job.Step{TemplateSpec: of}
		if _, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"a": step}}}); !errors.As(err, &invalid) {
			t.Errorf("a step with %s: got %v", key, err)
		}
	}
}

// TestSpoiledSubmissions: a submission that can't be read is left out, and no other with it; one with all the metadata that it may have is
// graded again; and nothing is once it may not.
func TestSpoiledSubmissions(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	from, to := storeProblem(t, w, "1", nil), storeProblem(t, w, "2", nil)
	graded := func() (id, submission string) {
		t.Helper()
		spec := job.Spec{Problem: from, Runtime: "python", Source: "1", Metadata: map[string]string{}}
		for i := range job.MaxMetadata {
			spec.Metadata[fmt.Sprint(i)] = "x"
		}
		j, err := w.Client.Submit(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		w.End(t, w.Start(t, j.ID), nil, nil)
		for key := range w.Kept(t, "tenants/default/jobs/"+j.ID) {
			if strings.HasSuffix(key, "/submission.json") {
				submission = key
			}
		}
		return j.ID, submission
	}
	good, _ := graded()
	cut, cutKey := graded()
	large, largeKey := graded()
	for key, text := range map[string]string{cutKey: `{"source":`, largeKey: strings.Repeat(" ", job.MaxSubmissionBytes+1)} {
		if _, err := w.Objects.PutBytes(t.Context(), key, "application/json", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	revoked := errors.New("revoked")
	var left *producer.BatchError
	_, err := w.Client.RegradeWhile(t.Context(), to, producer.RegradeRequest{From: from}, func(context.Context) error { return revoked })
	if !errors.Is(err, revoked) || !errors.As(err, &left) || left.Batch.Jobs != 0 {
		t.Errorf("got %v, want it to end as it may not go on", err)
	}
	answer, err := w.Client.Regrade(t.Context(), to, producer.RegradeRequest{From: from})
	if err != nil || answer.Batch.Jobs != 1 || answer.Batch.Rejected != 0 || answer.LeftOutTotal != 2 {
		t.Fatalf("got %+v, %v, want one job", answer, err)
	}
	for _, l := range answer.LeftOut {
		if l.Reason != "its source is not kept" || l.ID != cut && l.ID != large {
			t.Errorf("got %+v", l)
		}
	}
	again := w.Start(t, job.ItemID(answer.Batch.ID, 0))
	if len(again.Metadata) != job.MaxMetadata+1 || again.Metadata[job.RegradeKey] != good {
		t.Errorf("got %v", again.Metadata)
	}
	beyond, err := w.Client.RegradeBeyond(t.Context(), from, to)
	if err != nil || len(beyond) != 3 {
		t.Fatalf("got %+v, %v", beyond, err)
	}
	for _, l := range beyond {
		if !strings.HasPrefix(l.Reason, "there are more than a batch may have") {
			t.Errorf("got %+v, want that nothing of it is read", l)
		}
	}
}

// TestRegradeLimits: a limit that nobody has sent, but the tenant's own maximum put there, is not kept: the newer problem's holds.
func TestRegradeLimits(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{Maximums: job.Limits{MemoryMB: 128}}); err != nil {
		t.Fatal(err)
	}
	from := storeProblem(t, w, "1", nil)
	to := storeProblem(t, w, "1", func(p *job.Problem) { p.Limits.MemoryMB = 64 })
	j, err := w.Client.Submit(t.Context(), job.Spec{Problem: from, Runtime: "python", Source: "1", Limits: job.Limits{CPUMS: 700}})
	if err != nil {
		t.Fatal(err)
	}
	first := w.Start(t, j.ID)
	w.End(t, first, nil, nil)
	answer, err := w.Client.Regrade(t.Context(), to, producer.RegradeRequest{From: from})
	if err != nil {
		t.Fatal(err)
	}
	again := w.Start(t, job.ItemID(answer.Batch.ID, 0))
	if got := again.Spec.Limits; first.Spec.Limits.MemoryMB != 128 || got.MemoryMB != 64 || got.CPUMS != 700 {
		t.Errorf("got %+v after %+v, want 64 MiB and 700 ms", got, first.Spec.Limits)
	}
}
