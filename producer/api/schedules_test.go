package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSchedules: a schedule is stored, paused, run and deleted, and what can never fire is refused.
func TestSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const template = `{"params":{"type":"object","properties":{"n":{"type":"integer"},"until":{"type":"string"}}},
		"spec":{"runtime":"python","source":"1","args":[{"from":"/params/until"}],"callback":{"url":"https://example.com/a"},"metadata":{"a":"1","b":"2"}}}`
	if a := w.do(t, "PUT", "/v1/templates/report", strings.NewReader(template)); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	const good = `{"template":"report","cron":"30 2 * * 1-5","zone":"Europe/Berlin","params":{"n":1},"from":{"until":"/fire/time"},
		"callback":{"url":"https://example.com/b"},"metadata":{"b":"3"},"overlap":"queue","missed":"once","catch_up_seconds":3600,"jitter_seconds":60}`
	expect := func(method, path, body string, status int, into any) {
		t.Helper()
		a := w.do(t, method, path, strings.NewReader(body))
		if a.status != status {
			t.Fatalf("%s %s: got %d %s, want %d", method, path, a.status, a.body, status)
		}
		if into != nil {
			if err := json.Unmarshal(a.body, into); err != nil {
				t.Fatal(err)
			}
		}
	}
	var s job.Schedule
	expect("PUT", "/v1/schedules/nightly", good, http.StatusOK, &s)
	if s.NextAt == nil || s.Name != "nightly" || s.Zone != "Europe/Berlin" {
		t.Errorf("got %+v", s)
	}
	var paused job.Schedule
	expect("POST", "/v1/schedules/nightly/pause", "", http.StatusOK, &paused)
	if !paused.Paused || paused.NextAt != nil {
		t.Errorf("paused: got %+v", paused)
	}
	var run job.Summary
	expect("POST", "/v1/schedules/nightly/run", "", http.StatusAccepted, &run)
	spec := w.Start(t, run.ID).Spec
	if spec.Callback.URL != "https://example.com/b" || spec.Metadata["a"] != "1" || spec.Metadata["b"] != "3" ||
		spec.Metadata[job.ScheduleKey] != "nightly" || len(spec.Args) != 1 || spec.Args[0] != spec.Metadata[job.FireKey] {
		t.Errorf("got %+v", spec)
	}
	var resumed job.Schedule
	expect("POST", "/v1/schedules/nightly/resume", "", http.StatusOK, &resumed)
	if resumed.Paused || resumed.NextAt == nil || !resumed.NextAt.Equal(*s.NextAt) {
		t.Errorf("resumed: got %+v", resumed)
	}
	var fires producer.FireList
	expect("GET", "/v1/schedules/nightly/fires", "", http.StatusOK, &fires)
	if len(fires.Fires) != 1 || !fires.Fires[0].Manual || fires.Fires[0].Job != run.ID {
		t.Errorf("got fires %+v", fires)
	}
	keyed := func(name, key string, status int) (r job.Summary) {
		t.Helper()
		a := w.do(t, "POST", "/v1/schedules/"+name+"/run", strings.NewReader(""), "Idempotency-Key: "+key)
		if a.status != status {
			t.Fatalf("run under a key: got %d %s, want %d", a.status, a.body, status)
		}
		_ = json.Unmarshal(a.body, &r) // or it is a problem
		return r
	}
	expect("PUT", "/v1/schedules/weekly", good, http.StatusOK, nil)
	first := keyed("nightly", "k1", http.StatusAccepted)
	if again := keyed("nightly", "k1", http.StatusAccepted); again.ID != first.ID {
		t.Errorf("the same run under its key: got %s, want %s", again.ID, first.ID)
	}
	if other := keyed("nightly", "k2", http.StatusAccepted); other.ID == first.ID {
		t.Error("another key is the same run")
	}
	keyed("weekly", "k1", http.StatusConflict)
	keyed("nightly", "\u00e9", http.StatusUnprocessableEntity)
	expect("GET", "/v1/schedules/nightly/fires", "", http.StatusOK, &fires)
	if len(fires.Fires) != 3 {
		t.Errorf("got fires %+v, want each run once", fires)
	}
	expect("PUT", "/v1/templates/steps", `{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}}}}`, http.StatusOK, nil)
	for _, c := range []struct{ body, field string }{
		{`{"template":"none","cron":"@daily"}`, "template"},
		{`{"template":"Bad name","cron":"@daily"}`, "template"},
		{`{"template":"report"}`, "cron"},
		{`{"template":"report","cron":"0 0 30 2 *"}`, "cron"},
		{`{"template":"report","cron":"@every 1m"}`, "cron"},
		{`{"template":"report","cron":"TZ=UTC 0 0 * * *"}`, "cron"},
		{`{"template":"report","cron":"@daily","zone":"Europe/Nowhere"}`, "zone"},
		{`{"template":"report","cron":"@daily","overlap":"both"}`, "overlap"},
		{`{"template":"report","cron":"@daily","missed":"all"}`, "missed"},
		{`{"template":"report","cron":"@daily","catch_up_seconds":600}`, "catch_up_seconds"},
		{`{"template":"report","cron":"@daily","jitter_seconds":3601}`, "jitter_seconds"},
		{`{"template":"report","cron":"@daily","starts_at":"2027-01-02T00:00:00Z","ends_at":"2027-01-01T00:00:00Z"}`, "ends_at"},
		{`{"template":"report","cron":"@daily","params":{"n":"text"}}`, "params.n"},
		{`{"template":"report","cron":"@daily","from":{"until":"/body"}}`, "from.until"},
		{`{"template":"report","cron":"@daily","metadata":{"glovebox.fire":"x"}}`, "metadata.glovebox.fire"},
		{`{"template":"report","cron":"@daily","from":{"until":"/schedule"},"metadata":{"":"x"}}`, "metadata"},
		{`{"template":"steps","cron":"@daily","metadata":{"":"x"}}`, "metadata"},
		{`{"template":"report","cron":"@daily","from":{"until":"/schedule"},"callback":{"url":"ftp://example.com"}}`, "callback.url"},
	} {
		a := w.do(t, "PUT", "/v1/schedules/bad", strings.NewReader(c.body))
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"`+c.field+`"`) {
			t.Errorf("%s: got %d %s, want %s to be refused", c.body, a.status, a.body, c.field)
		}
	}
	expect("PUT", "/v1/schedules/Bad", good, http.StatusUnprocessableEntity, nil)
	expect("DELETE", "/v1/schedules/nightly", "", http.StatusNoContent, nil)
	for _, path := range []string{"", "/fires"} {
		expect("GET", "/v1/schedules/nightly"+path, "", http.StatusNotFound, nil)
	}
}
