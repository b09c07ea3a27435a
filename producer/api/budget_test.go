package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestBudgetRefuses: a budget that is spent refuses all that would cost, whoever starts it, and says how much is spent: what the
// caller asks for, a hook's delivery, a schedule's fire, the next step of a pipeline.
func TestBudgetRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.tenant(t, "default", job.Terms{Budget: job.Budget{Nano: 5_000}})
	hook := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`)
	var sc job.Schedule
	w.expecting(t, "PUT", "/v1/schedules/minutely", `{"template":"report","cron":"* * * * *","params":{"ref":"x","event":"y"}}`, http.StatusOK, &sc)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	var described struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	w.expecting(t, "GET", "/openapi.json", "", http.StatusOK, &described)
	var run job.Run
	w.expecting(t, "POST", "/v1/runs", `{"pipeline":`+twoSteps+`,"params":{"ref":"main"}}`, http.StatusAccepted, &run)
	w.advance(t, run.ID)
	w.expecting(t, "GET", "/v1/runs/"+run.ID, "", http.StatusOK, &run)
	j := w.Start(t, run.Steps["first"].Jobs[0].ID)
	e := record.Ending{Status: job.Succeeded, Result: fmt.Appendf(nil, `{"id":%q,"status":"succeeded","artifacts":[{"name":"out.txt","size":1,"kind":"text","media_type":"text/plain","sha256":"x","url":"x"}]}`, j.ID), Metered: &record.Metered{CPUMS: 3, Nano: 7_000}}
	if err := w.Worker.End(t.Context(), j, e); err != nil {
		t.Fatal(err)
	}
	const spent = "the tenant's budget of 0.000005000 for "

	for _, c := range []struct{ path, name, body string }{
		{"/v1/jobs", "", `{"runtime":"python","source":"1"}`},
		{"/v1/batches", "", `{"jobs":[{"runtime":"python","source":"1"}]}`},
		{"/v1/code-sandbox/execute", "", `{"language":"python","code":"1"}`},
		{"/v1/templates/{name}/run", "report", `{"params":{"ref":"x","event":"y"}}`},
		{"/v1/schedules/{name}/run", "minutely", ``},
		{"/v1/sessions", "", `{"runtime":"python"}`},
		{"/v1/sessions/{id}/execute", x.ID, `{"code":"1"}`},
		{"/v1/runs", "", `{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}}}}`},
	} {
		var p producer.Problem
		w.expecting(t, "POST", strings.NewReplacer("{name}", c.name, "{id}", c.name).Replace(c.path), c.body, http.StatusPaymentRequired, &p, "Content-Type: application/json")
		if p.Code() != job.CodeBudgetExceeded || !strings.Contains(p.Detail, spent) || !strings.Contains(p.Detail, "is spent (0.000007000 so far)") {
			t.Errorf("%s: got %s %q", c.path, p.Code(), p.Detail)
		}
		if described.Paths[c.path]["post"].Responses["402"] == nil {
			t.Errorf("%s: its description has no 402", c.path)
		}
	}
	if a := w.github(t, hook.Path, hookSecret, "d1", `{"ref":"main"}`); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || strings.Contains(string(a.body), "0.0000") {
		t.Errorf("hook: got %d %s", a.status, a.body)
	}
	if err := w.Client.Fire(t.Context(), "minutely", *sc.NextAt); err != nil {
		t.Fatal(err)
	}
	if fires, err := w.Client.ScheduleFires(t.Context(), "minutely"); err != nil || len(fires) != 1 || fires[0].Outcome != job.FireRefused || !strings.HasPrefix(fires[0].Reason, spent) {
		t.Errorf("fire: got %+v, %v", fires, err)
	}
	for range 2 {
		w.advance(t, run.ID)
	}
	w.expecting(t, "GET", "/v1/runs/"+run.ID, "", http.StatusOK, &run)
	if last := run.Steps["last"].Jobs; run.Status != job.Failed || len(last) != 1 || last[0].Status != "refused" || !strings.HasPrefix(last[0].Why, spent) {
		t.Errorf("step: got %+v", run)
	}

	// What it was spent for is told, and once the operator raises it the sender's next try is taken.
	var u job.UsageReport
	w.expecting(t, "GET", "/v1/usage", "", http.StatusOK, &u)
	if u.Total.Jobs != 1 || u.Budget == nil || u.Budget.Spent.Nano != 7_000 {
		t.Errorf("got %+v", u)
	}
	if a := w.admin(t, "PUT", "/tenants/default", `{"revision":1,"terms":{"budget":{"nano":8000}}}`); a.status != http.StatusOK {
		t.Fatalf("raise: got %d %s", a.status, a.body)
	}
	started(t, w.github(t, hook.Path, hookSecret, "d1", `{"ref":"main"}`))
}

// TestUsageEventsOfDays: days that are over are sent as a batch of CloudEvents, and no others.
func TestUsageEventsOfDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for days, nano := range map[int]int{-1: 1, 2: 20, 3: 300} { // as the script that ends a job counts them
		key := fmt.Sprintf("gb:{default}:usage:%d", today.AddDate(0, 0, -days).Unix()/86400)
		if err := w.Raw.HSet(t.Context(), key, "jobs", days+2, "cpu_ms", 2, "mib_ms", 3, "nano", nano).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var events []job.UsageEvent
	w.expecting(t, "GET", "/v1/usage/events?from="+today.AddDate(0, 0, -5).Format(time.DateOnly)+"&to="+today.AddDate(0, 0, 1).Format(time.DateOnly), "", http.StatusOK, &events)
	if len(events) != 2 {
		t.Fatalf("got %+v, want the two days that are over", events)
	}
	for i, days := range []int{3, 2} {
		e, day := events[i], today.AddDate(0, 0, -days)
		want := job.UsageEvent{
			SpecVersion: "1.0", ID: "default/" + day.Format(time.DateOnly), Source: e.Source, Type: "glovebox.usage.day", Subject: "default",
			Time: day.AddDate(0, 0, 1), DataContentType: "application/json",
			Data: job.DayUsage{Day: day.Format(time.DateOnly), UsageCounts: job.UsageCounts{Jobs: int64(days + 2), CPUMS: 2, MemoryMiBMS: 3, Cost: job.NewCost(map[int]int64{3: 300, 2: 20}[days])}},
		}
		if e != want || !strings.HasSuffix(e.Source, "/v1/usage") {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
}
