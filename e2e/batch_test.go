package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// batchJobs is how many jobs TestBatch runs; GLOVEBOX_BATCH_JOBS asks for more.
func batchJobs(t *testing.T) int {
	t.Helper()
	if v := os.Getenv("GLOVEBOX_BATCH_JOBS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 40
}

// One tenant has a batch while another has single jobs, and the api dies when it has all
// of the batch but nobody knows yet: the batch is sent again, each of its jobs comes to one
// right result, one message tells of its end, and no single job waits for more than two of
// its jobs a slot.
func TestBatch(t *testing.T) {
	t.Parallel()
	n := batchJobs(t)
	const admin, slots = "0123456789abcdef0123456789abcdef", 2 // as many as the harness' worker has
	g := start(t, options{noWorker: true, apiEnv: []string{"GLOVEBOX_ADMIN_TOKEN=" + admin}})
	other := g.tenant(admin, "other")
	g.startWorker()
	g.api.Kill()
	doomed := g.startAPI("GLOVEBOX_ADMIN_TOKEN="+admin, g.failpoint("kill", failpoint.BatchReceived))

	options := producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: "import", Callback: &job.Callback{URL: g.hook.url}}}
	specs := func(yield func(job.Spec, error) bool) {
		for i := range n {
			if !yield(job.Spec{Runtime: "bash", Source: fmt.Sprintf("sleep 0.1; echo %d; echo %d > n.txt", i, i)}, nil) {
				return
			}
		}
	}
	if b, err := g.client.SubmitBatch(t.Context(), options, specs); err == nil {
		t.Fatalf("the api answered though it died: %+v", b)
	}
	diesByItself(t, doomed)
	g.startAPI("GLOVEBOX_ADMIN_TOKEN=" + admin)
	b, err := g.client.SubmitBatch(t.Context(), options, specs)
	if err != nil || b.Jobs != n || b.Rejected != 0 {
		t.Fatalf("sent again: got %+v, %v", b, err)
	}

	var singles []job.Result
	for range 5 {
		j, err := other.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "echo single"})
		if err == nil {
			j, err = other.Wait(t.Context(), j.ID)
		}
		if err != nil || j.Result.Stdout != "single\n" {
			t.Fatalf("single job: got %+v, %v", j, err)
		}
		singles = append(singles, *j.Result)
	}
	during, err := g.client.GetBatch(t.Context(), b.ID)
	if err != nil {
		t.Error(err)
	}
	began := time.Now()
	if b, err = g.client.WaitBatch(t.Context(), b.ID); err != nil || b.Status != job.BatchCompleted || b.Counts[job.Succeeded] != n {
		t.Fatalf("got %+v, %v, want all jobs succeeded", b, err)
	}
	t.Logf("%d jobs, %d of them while the single ones ran, in %.1f s more", n, during.Ended, time.Since(began).Seconds())

	var started []time.Time
	for r, err := range g.client.BatchResults(t.Context(), b.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintln(r.Index)
		if r.Index != len(started) || r.ID != job.ItemID(b.ID, r.Index) || r.Result == nil || r.Result.Stdout != want || len(r.Result.Artifacts) != 1 || r.Result.Attempt != 1 {
			t.Errorf("jobs[%d]: got %+v, want it to have run once and printed %s", len(started), r, want)
		}
		started = append(started, *r.Result.Timing.StartedAt)
	}
	if len(started) != n {
		t.Errorf("got %d results, want %d", len(started), n)
	}
	if last := slices.MaxFunc(started, time.Time.Compare); !singles[0].Timing.CreatedAt.Before(last) {
		t.Error("the batch had no job left to start when the first single one came")
	}
	for i, s := range singles {
		before := 0
		for _, at := range started {
			if at.After(s.Timing.CreatedAt) && at.Before(*s.Timing.StartedAt) {
				before++
			}
		}
		t.Logf("single job %d waited %d ms, for %d jobs of the batch", i, s.Timing.QueueMS, before)
		if before > 2*slots {
			t.Errorf("single job %d waited for %d jobs of the batch, want at most two a slot: %d", i, before, 2*slots)
		}
	}
	if m := g.hook.messages(t, 1, patience); len(m) != 1 || m[0].Batch.ID != b.ID || m[0].Batch.Counts[job.Succeeded] != n || m[0].Batch.ResultsURL != b.ResultsURL {
		t.Errorf("got messages %+v, want one of the batch's end", m)
	}
	again, err := g.client.SubmitBatch(t.Context(), options, specs)
	if err != nil || again.ID != b.ID || again.Status != job.BatchCompleted {
		t.Errorf("sent once more after its end: got %+v, %v", again, err)
	}
	if _, err := other.GetBatch(t.Context(), b.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("as the other tenant: got %v, want ErrNotFound", err)
	}
	time.Sleep(2 * time.Second)
	if m := g.hook.messages(t, 1, 0); len(m) != 1 {
		t.Errorf("%d messages came, want no more after the one that was accepted", len(m))
	}
}

// tenant makes a tenant, and returns the API as that tenant sees it.
func (g *glovebox) tenant(adminToken, name string) *producer.Client {
	g.tb.Helper()
	client, err := producer.New(g.url, g.tenantToken(adminToken, name, job.Terms{}))
	if err != nil {
		g.tb.Fatal(err)
	}
	g.tb.Cleanup(func() { client.Close() })
	return client
}

// tenantToken makes a tenant with these terms, and returns a token of its.
func (g *glovebox) tenantToken(adminToken, name string, terms job.Terms) string {
	g.tb.Helper()
	operator, err := producer.New(g.url, adminToken)
	if err != nil {
		g.tb.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.CreateTenant(g.tb.Context(), name, terms); err != nil {
		g.tb.Fatal(err)
	}
	made, err := operator.AddToken(g.tb.Context(), name, producer.TokenRequest{Label: "e2e"})
	if err != nil {
		g.tb.Fatal(err)
	}
	return made.Secret
}
