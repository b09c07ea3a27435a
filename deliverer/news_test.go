package deliverer_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// news are the data of the messages of one type, in the order in which they came.
func news[T any](t *testing.T, in *inbox, event string) (list []T) {
	t.Helper()
	for _, m := range in.got() {
		var is struct {
			Type string
			Data json.RawMessage
		}
		err := json.Unmarshal(m.body, &is)
		if err == nil && is.Type == event {
			var data T
			err = json.Unmarshal(is.Data, &data)
			list = append(list, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// TestScheduleSkipped: a fire that starts nothing is told of once, with its reason, and one that starts something isn't.
func TestScheduleSkipped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in, others := newInbox(t, nil), newInbox(t, nil)
	b.endpoint(t, job.EndpointSettings{URL: in.URL})
	b.endpoint(t, job.EndpointSettings{URL: others.URL, Events: []string{job.EventCompleted}})
	now := time.Now().UTC().Truncate(time.Millisecond)
	sc := record.Schedule{Name: "nightly", Seed: "s"}
	skipped := job.Fire{Time: now, At: now, Outcome: job.FireSkipped, Reason: "the last job has not ended"}
	refused := job.Fire{Time: now.Add(time.Minute), At: now, Outcome: job.FireRefused, Reason: "no room"}
	started := job.Fire{Time: now, At: now, Outcome: job.FireStarted, Job: "default-a"}
	queued := job.Fire{Time: now, At: now, Outcome: job.FireQueued}
	if err := b.Records.SetSchedule(t.Context(), "default", sc, now, skipped, started, queued, refused); err != nil {
		t.Fatal(err)
	}
	if err := b.Records.SetSchedule(t.Context(), "default", sc, now, skipped); err == nil {
		t.Fatal("a stale step was stored")
	}
	gbtest.Eventually(t, "both are told of", func() bool { return len(in.got()) >= 2 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	got := map[string]job.ScheduleSkipped{}
	for _, n := range news[job.ScheduleSkipped](t, in, job.EventScheduleSkipped) {
		got[n.Fire.Outcome] = n
	}
	want := map[string]job.ScheduleSkipped{job.FireSkipped: {Schedule: "nightly", Fire: skipped}, job.FireRefused: {Schedule: "nightly", Fire: refused}}
	if diff := cmp.Diff(want, got); diff != "" || len(in.got()) != 2 || len(others.got()) != 0 {
		t.Errorf("%d and %d messages: %s", len(in.got()), len(others.got()), diff)
	}
}

// TestSessionEnded: the end of a session is told of once.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in := newInbox(t, nil)
	b.endpoint(t, job.EndpointSettings{URL: in.URL})
	x, err := b.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.EndSession(t.Context(), x.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Client.EndSession(t.Context(), x.ID); err == nil {
		t.Log("it could be ended twice")
	}
	gbtest.Eventually(t, "it is told of", func() bool { return len(in.got()) >= 1 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	got := news[job.Session](t, in, job.EventSessionEnded)
	if len(got) != 1 || got[0].ID != x.ID || got[0].End == nil || got[0].End.Reason != job.EndDeleted {
		t.Errorf("got %+v, want the end of %s", got, x.ID)
	}
}

// TestEndpointNews: the others are told of an endpoint that is disabled, and of one that is back; it is not told of itself.
func TestEndpointNews(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	well := make(chan bool, 1)
	gone, in := newInbox(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		select {
		case <-well:
		default:
			w.WriteHeader(http.StatusGone)
		}
	}), newInbox(t, nil)
	bad := b.endpoint(t, job.EndpointSettings{URL: gone.URL})
	b.endpoint(t, job.EndpointSettings{URL: in.URL, Events: []string{job.EventEndpointDisabled, job.EventEndpointEnabled}})
	b.deliveredTo(t, b.ended(t), bad.ID, record.Gone)
	gbtest.Eventually(t, "the other is told", func() bool { return len(in.got()) == 1 })
	well <- true
	d, err := b.Client.TestEndpoint(t.Context(), bad.ID)
	if err != nil {
		t.Fatal(err)
	}
	b.settled(t, d.ID, record.Delivered)
	gbtest.Eventually(t, "the other is told that it is back", func() bool { return len(in.got()) == 2 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	want := job.EndpointNews{EndpointID: bad.ID, URL: gone.URL, Reason: "it answered 410"}
	if diff := cmp.Diff([]job.EndpointNews{want}, news[job.EndpointNews](t, in, job.EventEndpointDisabled)); diff != "" {
		t.Error(diff)
	}
	want.Reason = ""
	if diff := cmp.Diff([]job.EndpointNews{want}, news[job.EndpointNews](t, in, job.EventEndpointEnabled)); diff != "" {
		t.Error(diff)
	}
	if n := len(gone.got()); n != 2 {
		t.Errorf("the endpoint got %d messages, want the job's and the test", n)
	}
	if err := b.Client.DeleteEndpoint(t.Context(), bad.ID); err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{"endpoint other-e-abcdefghijklmnopqrstuvwxyz gone 1", "session other-s-abcdefghijklmnopqrstuvwxyz", "schedule ../x 1-1", "x", "endpoint " + bad.ID + " well 1"} {
		if n, ok := record.ParseNews("default", forged); ok {
			t.Errorf("%s: got %+v, want it passed over", forged, n)
		}
	}
}

// TestRunMetadata: a filter by metadata matches runs of pipelines, as they end and later.
func TestRunMetadata(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t)
	in, later := newInbox(t, nil), newInbox(t, nil)
	atlas := &job.EndpointFilter{Metadata: map[string]string{"project": "atlas"}}
	b.endpoint(t, job.EndpointSettings{URL: in.URL, Filter: atlas})
	began := time.Now()
	var ids []string
	for _, project := range []string{"atlas", "other"} {
		var r job.PipelineRequest
		if err := json.Unmarshal([]byte(`{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}}},"metadata":{"project":"`+project+`"}}`), &r); err != nil {
			t.Fatal(err)
		}
		started, err := b.Client.StartRun(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		run, err := b.Records.GetRun(t.Context(), started.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Records.EndRun(t.Context(), run, record.RunEnd{Status: job.Canceled, Outputs: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	gbtest.Eventually(t, "one is told of", func() bool { return len(in.got()) >= 1 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	e := b.endpoint(t, job.EndpointSettings{URL: later.URL, Filter: atlas})
	made, err := b.Client.RecoverEndpoint(t.Context(), e.ID, producer.RecoverRequest{Since: began.Add(-time.Second), Which: producer.RecoverAll})
	if err != nil || made.Deliveries != 1 {
		t.Errorf("got %+v, %v, want the one run", made, err)
	}
	gbtest.Eventually(t, "the new endpoint is told of it", func() bool { return len(later.got()) == 1 })
	for _, inbox := range []*inbox{in, later} {
		got := news[job.Run](t, inbox, job.EventPipelineCompleted)
		if len(got) != 1 || got[0].ID != ids[0] || got[0].Metadata["project"] != "atlas" {
			t.Errorf("got %+v, want the end of %s", got, ids[0])
		}
	}
}

// TestJobHeld: endpoints are told of a job and of an execution that wait for a decision, without what they run, and of none that is decided about by then.
func TestJobHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rules, err := policy.Parse("policy", []job.Rule{{Name: "all", When: "source != ''", Then: job.RuleHold, Message: "look at it"}})
	if err != nil {
		t.Fatal(err)
	}
	client := b.Client.WithPolicy(rules)
	in, matching, others := newInbox(t, nil), newInbox(t, nil), newInbox(t, nil)
	b.endpoint(t, job.EndpointSettings{URL: in.URL, Events: []string{job.EventHeld}})
	b.endpoint(t, job.EndpointSettings{URL: matching.URL, Filter: &job.EndpointFilter{Metadata: map[string]string{"k": "v"}}})
	b.endpoint(t, job.EndpointSettings{URL: others.URL, Filter: &job.EndpointFilter{Statuses: []string{string(job.Failed)}}})
	submit := func(metadata map[string]string) producer.Job {
		t.Helper()
		j, err := client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "print('unseen')", Metadata: metadata})
		if err != nil || j.Status != job.Held {
			t.Fatalf("got %+v, %v, want it held", j, err)
		}
		return j
	}
	x, err := client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	decided := submit(nil)
	if _, err := client.Reject(t.Context(), decided.ID, job.Decision{InputHash: decided.Hold.InputHash}); err != nil {
		t.Fatal(err)
	}
	b.run(t)
	held := submit(map[string]string{"k": "v"})
	execution, err := client.ExecuteInSession(t.Context(), x.ID, job.SessionExecution{Code: "print('unseen')"})
	if err != nil || execution.Status != job.Held {
		t.Fatalf("got %+v, %v, want it held", execution, err)
	}
	gbtest.Eventually(t, "both are told of", func() bool { return len(in.got()) >= 2 && len(matching.got()) >= 1 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	got := map[string]job.Pending{}
	for _, p := range news[job.Pending](t, in, job.EventHeld) {
		got[p.ID] = p
	}
	want := map[string]job.Pending{}
	list, err := client.Approvals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		want[p.ID] = p
	}
	if diff := cmp.Diff(want, got); diff != "" || len(in.got()) != 2 || got[execution.ID].Session != x.ID || got[held.ID].Hold.Message != "look at it" {
		t.Errorf("%d messages, want what the list has of the two: %s", len(in.got()), diff)
	}
	for _, m := range in.got() {
		if strings.Contains(string(m.body), "unseen") {
			t.Errorf("the message has the source: %s", m.body)
		}
	}
	if told := news[job.Pending](t, matching, job.EventHeld); len(told) != 1 || told[0].ID != held.ID || len(others.got()) != 0 {
		t.Errorf("got %+v and %d, want what the filters match", told, len(others.got()))
	}
}

// TestJobHeldNoMore: what was decided about while the endpoint did not answer isn't told any more.
func TestJobHeldNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rules, err := policy.Parse("policy", []job.Rule{{Name: "all", When: "true", Then: job.RuleHold}})
	if err != nil {
		t.Fatal(err)
	}
	client := b.Client.WithPolicy(rules)
	decide := make(chan job.Decision, 1)
	var id string
	in := newInbox(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		select {
		case d := <-decide:
			if _, err := client.Approve(r.Context(), id, d); err != nil {
				t.Error(err)
			}
		default:
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	b.endpoint(t, job.EndpointSettings{URL: in.URL, Events: []string{job.EventHeld}})
	j, err := client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	id = j.ID
	decide <- job.Decision{InputHash: j.Hold.InputHash}
	b.run(t)
	gbtest.Eventually(t, "it is told of", func() bool { return len(in.got()) >= 1 })
	gbtest.Eventually(t, "nothing is due", func() bool { return b.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	if n := len(in.got()); n != 1 {
		t.Errorf("got %d messages, want none once it is decided about", n)
	}
}
