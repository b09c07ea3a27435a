package deliverer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// ending is what is looked at of an execution's message.
type ending struct {
	ID     string
	Status job.Status
}

// TestSessionCallback: a session's callback is told of each execution's end, unless that has a callback of its own, and of its own end: signed, each once, and of what it asked for.
func TestSessionCallback(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	all, ends, own := newInbox(t, nil), newInbox(t, nil), newInbox(t, nil)
	for in, events := range map[*inbox][]string{all: nil, ends: {job.EventSessionEnded}} {
		x, err := b.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python", Callback: &job.Callback{URL: in.URL, Events: events}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Worker.ClaimSession(t.Context(), x.ID, "w1"); err != nil {
			t.Fatal(err)
		}
		first, err := b.Client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "1"})
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.Client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "2", Callback: &job.Callback{URL: own.URL}})
		if err != nil {
			t.Fatal(err)
		}
		j, err := b.Worker.TakeTurn(t.Context(), x.ID, "w1", "", nil, record.Rest{Slot: true})
		if err != nil || j.ID != first.ID {
			t.Fatalf("got %+v, %v", j, err)
		}
		b.End(t, j, nil, nil)
		for range 2 { // it ends once
			if _, err := b.Client.EndSession(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
		}
		wantJobs := []string{first.ID}
		if events != nil {
			wantJobs = nil
		}
		gbtest.Eventually(t, "all is told of", func() bool { return len(in.got()) > len(wantJobs) })
		gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
		var jobs []string
		for _, r := range news[ending](t, in, job.EventCompleted) {
			jobs = append(jobs, r.ID)
		}
		ended := news[job.Session](t, in, job.EventSessionEnded)
		if !cmp.Equal(jobs, wantJobs) || len(ended) != 1 || ended[0].ID != x.ID || ended[0].End == nil || ended[0].End.Reason != job.EndDeleted || ended[0].Executions != 1 {
			t.Errorf("got executions %v and the end of %+v, want %v and that of %s", jobs, ended, wantJobs, x.ID)
		}
		for _, m := range in.got() {
			if err := webhook.Verify(m.header, m.body, b.verifiers(t, "default"), webhook.DefaultTolerance, time.Now()); err != nil {
				t.Errorf("%s: %v", m.body, err)
			}
		}
		deliveries, err := b.Client.SessionDeliveries(t.Context(), x.ID)
		if err != nil || len(deliveries) != 1 || deliveries[0].State != string(record.Delivered) || deliveries[0].SessionID != x.ID || deliveries[0].URL != in.URL {
			t.Errorf("got %+v, %v, want the delivery of its end", deliveries, err)
		}
		if got := news[ending](t, own, job.EventCompleted); len(got) == 0 || got[len(got)-1].ID != second.ID || got[len(got)-1].Status != job.Canceled {
			t.Errorf("its own callback got %+v, want that it was canceled", got)
		}
	}
	if n := len(own.got()); n != 2 {
		t.Errorf("the executions' own callback got %d messages, want 2", n)
	}
}
