package direct_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// A tenant whose terms say nothing has the operator's quotas, until somebody lifts them.
func TestNewTenantsHaveQuotas(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	quotas := job.Quotas{RequestsPerMinute: 600, JobsQueued: 1000, BytesStored: 1 << 30}
	client, err := direct.New(direct.Config{NewTenants: quotas}, w.Records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	got, err := client.CreateTenant(t.Context(), "acme", job.Terms{Quotas: job.Quotas{JobsQueued: 5, RunningAtOnce: 2}})
	want := job.Quotas{RequestsPerMinute: 600, JobsQueued: 5, RunningAtOnce: 2, BytesStored: 1 << 30}
	if err != nil || got.Terms.Quotas != want {
		t.Errorf("created with %+v, %v, want %+v", got.Terms.Quotas, err, want)
	}
	want.BytesStored = 0
	if got, err = client.SetTerms(t.Context(), "acme", got.Revision, job.Terms{Quotas: want}); err != nil || got.Terms.Quotas != want {
		t.Errorf("changed to %+v, %v, want %+v", got.Terms.Quotas, err, want)
	}
}

// TestProblemsOfOneTenant: a tenant whose jobs wait for memory for their problems keeps no others from being made, nor its own that name none.
func TestProblemsOfOneTenant(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	digest := storeProblem(t, w, "1", nil)
	named := job.Spec{Problem: digest, Runtime: "python", Source: "1"}
	step := job.Step{TemplateSpec: job.TemplateSpec{Spec: named}}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"grade": step}}})
	if err != nil {
		t.Fatal(err)
	}
	done, err := w.Client.TakeOfProblems(t.Context(), direct.MostOfProblems)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := w.Client.SubmitBatch(t.Context(), producer.BatchOptions{}, oneByOne(named))
		waiting <- err
	}()
	ctx := inTime(t)
	if _, err := w.Client.Submit(ctx, job.Spec{Runtime: "python", Source: "1"}); err != nil {
		t.Errorf("a job without a problem: %v", err)
	}
	if _, err := w.Client.SubmitBatch(ctx, producer.BatchOptions{}, oneByOne(job.Spec{Runtime: "python", Source: "1"})); err != nil {
		t.Errorf("a batch without a problem: %v", err)
	}
	if other, err := w.Client.For("other").TakeOfProblems(ctx, direct.MostOfProblems); err != nil {
		t.Errorf("another tenant: %v", err)
	} else {
		other()
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Client.Submit(short, named); err == nil || short.Err() == nil { // Redis' client says it otherwise where it was asked just then
		t.Errorf("got %v, want the tenant's own to wait", err)
	}
	short, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := w.Client.Advance(short, run.ID, time.Now()); err == nil || short.Err() == nil {
		t.Errorf("got %v, want the step of a pipeline to wait", err)
	}
	done()
	if err := <-waiting; err != nil {
		t.Errorf("the batch that waited: %v", err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Errorf("the step that waited: %v", err)
	}
	w.Start(t, job.StepJobID(run.ID, "grade", 0, 1))
}

// TestProblemsBeyondQuotas: a job for which there is no room is refused before its problem is read.
func TestProblemsBeyondQuotas(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{BytesQueued: 100 << 10}}); err != nil {
		t.Fatal(err)
	}
	digest := storeProblem(t, w, strings.Repeat("x", 200<<10), nil)
	done, err := w.Client.TakeOfProblems(t.Context(), direct.MostOfProblems)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	named := job.Spec{Problem: digest, Runtime: "python", Source: "1"}
	if _, err := w.Client.Submit(inTime(t), named); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a job: got %v, want quota_exceeded", err)
	}
	if _, err := w.Client.SubmitBatch(inTime(t), producer.BatchOptions{}, oneByOne(named)); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("a batch: got %v, want quota_exceeded", err)
	}
}

// TestSubmissionSizes: submission_kb counts files that are kept elsewhere, too, but not what the problem puts over a submission.
func TestSubmissionSizes(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	upload := func(bytes int) string {
		t.Helper()
		f, err := producer.UploadFile(t.Context(), w.Client, "data", strings.NewReader(strings.Repeat("x", bytes)))
		if err != nil {
			t.Fatal(err)
		}
		return f.Upload
	}
	most, more := upload(1023), upload(1024)
	digest := storeProblem(t, w, "1", func(p *job.Problem) {
		p.SubmissionKB = 1
		p.Include = map[string]job.Include{job.DefaultInclude: {Files: []job.File{{Name: "given", Upload: more}}}}
	})
	spec := func(upload string) job.Spec {
		return job.Spec{Problem: digest, Runtime: "python", Source: "1", Files: []job.File{{Name: "data", Upload: upload}}}
	}
	if _, err := w.Client.Submit(t.Context(), spec(most)); err != nil {
		t.Errorf("as much as may be: %v", err)
	}
	var invalid job.Invalid
	if _, err := w.Client.Submit(t.Context(), spec(more)); !errors.As(err, &invalid) || invalid[0].Field != "files" || !strings.Contains(invalid[0].Allowed, "submission_kb") {
		t.Errorf("a byte more: got %v, want what is wrong with files", err)
	}
	b, err := w.Client.SubmitBatch(t.Context(), producer.BatchOptions{}, oneByOne(spec(most), spec(more)))
	if err != nil || b.Jobs != 1 || b.Rejected != 1 || b.Errors[0].Errors[0].Field != "files" {
		t.Errorf("a batch: got %+v, %v", b, err)
	}
}
