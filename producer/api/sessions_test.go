package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestSessions: a session is started, given code, interrupted and ended, and what it can't be is refused. A worker's part
// is made by hand.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ctx := t.Context()
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
	refused := func(path, body string, status int, field string) {
		t.Helper()
		var p producer.Problem
		expect("POST", path, body, status, &p)
		if field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != field) {
			t.Errorf("POST %s %s: got %+v, want an error of %s", path, body, p, field)
		}
	}
	for body, field := range map[string]string{
		`{"runtime":"cobol"}`:                                                                                       "runtime",
		`{"runtime":"bash"}`:                                                                                        "runtime", // it has no sessions
		`{"runtime":"python","ttl_seconds":5401}`:                                                                   "ttl_seconds",
		`{"runtime":"python","ttl_seconds":9,"idle_seconds":10}`:                                                    "idle_seconds",
		`{"runtime":"python","limits":{"memory_mb":1000000}}`:                                                       "limits.memory_mb",
		`{"runtime":"python","metadata":{"":"x"}}`:                                                                  "metadata",
		`{"runtime":"python","budget":{"cpu_ms":-1}}`:                                                               "budget.cpu_ms",
		`{"runtime":"python","budget":{"executions":-1}}`:                                                           "budget.executions",
		`{"runtime":"python","idempotency_key":"ü"}`:                                                                "idempotency_key",
		`{"runtime":"python","callback":{"url":"ftp://x"}}`:                                                         "callback.url",
		`{"runtime":"python","callback":{"url":"http://0x7f.1/x","events":["session.ended"]}}`:                      "callback.url",
		`{"runtime":"python","callback":{"url":"https://example.com/","events":["batch.completed"]}}`:               "callback.events[0]",
		`{"runtime":"python","callback":{"url":"https://example.com/","events":["job.completed","job.completed"]}}`: "callback.events[1]",
	} {
		refused("/v1/sessions", body, http.StatusUnprocessableEntity, field)
	}
	var x job.Session
	expect("POST", "/v1/sessions", `{"runtime":"python3","budget":{"executions":9},"limits":{"wall_ms":2000},"ttl_seconds":60,"metadata":{"k":"v"}}`, http.StatusAccepted, &x)
	if x.Status != job.SessionQueued || x.Runtime != "python" || x.Limits.WallMS != 2000 || x.Limits.MemoryMB == 0 || x.TTLSeconds != 60 || x.IdleSeconds != 60 || x.Metadata["k"] != "v" || x.Budget == nil || x.Budget.Executions != 9 {
		t.Errorf("got %+v", x)
	}
	path := "/v1/sessions/" + x.ID
	for body, field := range map[string]string{
		`{}`:                                  "code",
		`{"code":"a\u0000b"}`:                 "code",
		`{"code":"1","wall_ms":2001}`:         "wall_ms",
		`{"code":"1","callback":{"url":"x"}}`: "callback.url",
		`{"code":"1","idempotency_key":"ü"}`:  "idempotency_key",
		`{"files":[{"name":"../x"}]}`:         "files[0].name",
		`{"code":"1","files":[{"name":"x","content_base64":"?"}]}`:              "files[0].content_base64",
		`{"code":"1","files":[{"name":"x","artifact":"default-nobody/a.csv"}]}`: "files[0].artifact",
	} {
		refused(path+"/execute", body, http.StatusUnprocessableEntity, field)
	}
	var first, second job.Summary
	expect("POST", path+"/execute", `{"code":"x = 1","wall_ms":1000}`, http.StatusAccepted, &first)
	expect("POST", path+"/execute", `{"code":"print(x)"}`, http.StatusAccepted, &second)
	if _, err := w.Worker.ClaimSession(ctx, x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	j, err := w.Worker.TakeTurn(ctx, x.ID, "w1", "", nil, record.Rest{Slot: true})
	if err != nil || j.ID != first.ID || j.Spec.Source != "x = 1" || j.Spec.Limits.WallMS != 1000 || j.Spec.Env != nil {
		t.Fatalf("got %+v, %v", j, err)
	}
	expect("POST", path+"/interrupt", "", http.StatusOK, &x)
	if x.Status != job.SessionBusy || x.Execution != first.ID {
		t.Errorf("got %+v", x)
	}
	if j, err := w.Records.Get(ctx, first.ID); err != nil || !j.CancelRequested {
		t.Errorf("got %+v, %v, want that it is to be interrupted", j, err)
	}
	var page producer.SessionPage
	expect("GET", "/v1/sessions?limit=1", "", http.StatusOK, &page)
	if len(page.Sessions) != 1 || page.Sessions[0].ID != x.ID {
		t.Errorf("got %+v", page)
	}
	expect("GET", "/v1/sessions?cursor=x", "", http.StatusUnprocessableEntity, nil)
	for range 2 { // one that has ended stays as it is
		x = job.Session{ID: x.ID}
		expect("DELETE", path, "", http.StatusOK, &x)
		if x.Status != job.SessionEnded || x.End == nil || x.End.Reason != job.EndDeleted || x.EndedAt == nil || x.Execution != "" {
			t.Errorf("got %+v", x)
		}
	}
	w.submit(t, `{"runtime":"python","source":"1"}`) // none of the session's
	var executions producer.JobPage
	expect("GET", path+"/executions?limit=1", "", http.StatusOK, &executions)
	if len(executions.Jobs) != 1 || executions.Next == "" {
		t.Errorf("got %+v", executions)
	}
	var older producer.JobPage
	expect("GET", path+"/executions?cursor="+executions.Next, "", http.StatusOK, &older)
	if len(older.Jobs) != 1 || executions.Jobs[0].ID+older.Jobs[0].ID != second.ID+first.ID && executions.Jobs[0].ID+older.Jobs[0].ID != first.ID+second.ID {
		t.Errorf("got %+v, then %+v, want one on each page", executions, older) // both may be of one millisecond
	}
	expect("GET", path+"/executions?limit=x", "", http.StatusUnprocessableEntity, nil)
	var result job.Result
	expect("GET", "/v1/jobs/"+second.ID, "", http.StatusOK, &result)
	if result.Status != job.Canceled || result.Error == nil || result.Error.Code != job.CodeSessionEnded {
		t.Errorf("got %+v", result)
	}
	refused(path+"/execute", `{"code":"1"}`, http.StatusGone, "")
	expect("POST", path+"/interrupt", "", http.StatusOK, nil)
}

// TestSessionWaits: who would rather wait is answered as soon as the session is ready, or can't be any more.
func TestSessionWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for name, c := range map[string]struct {
		then   func(id string) error
		status int
		is     job.SessionStatus
	}{
		"ready": {func(id string) error {
			if _, err := w.Worker.ClaimSession(t.Context(), id, "w1"); err != nil {
				return err
			}
			if _, err := w.Worker.TakeTurn(t.Context(), id, "w1", "", nil, record.Rest{Slot: true}); !errors.Is(err, record.ErrNoTurn) {
				return err
			}
			return nil
		}, http.StatusCreated, job.SessionReady},
		"ended": {func(id string) error {
			_, err := w.Client.EndSession(t.Context(), id)
			return err
		}, http.StatusAccepted, job.SessionEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var x job.Session
			const started = `{"runtime":"python","idempotency_key":"%s"}`
			body := strings.Replace(started, "%s", name, 1)
			w.expecting(t, "POST", "/v1/sessions", body, http.StatusAccepted, &x, "Prefer: wait=0")
			waited := make(chan answer, 1)
			go func() {
				a, err := w.try(t.Context(), "POST", "/v1/sessions", strings.NewReader(body), "Prefer: wait=30")
				if err != nil {
					t.Error(err)
				}
				waited <- a
			}()
			if err := c.then(x.ID); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			a := <-waited
			if took := time.Since(began); took > 12*time.Second { // by itself it looks after 15 s
				t.Errorf("it took %s, as if nobody had woken it", took)
			}
			var now job.Session
			if err := json.Unmarshal(a.body, &now); err != nil || a.status != c.status || now.ID != x.ID || now.Status != c.is || a.header.Get("Preference-Applied") != "wait=30" || a.header.Get("Location") != "/v1/sessions/"+x.ID {
				t.Errorf("got %d %v %s, %v", a.status, a.header, a.body, err)
			}
		})
	}
	if a := w.do(t, "POST", "/v1/sessions", strings.NewReader(`{"runtime":"python"}`), "Prefer: wait=1"); a.status != http.StatusAccepted {
		t.Errorf("nobody takes it: got %d %s, want 202", a.status, a.body)
	}
}

// TestSessionsByStatus: lists have what is asked for, page by page.
func TestSessionsByStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var ids []string
	for range 5 {
		var x job.Session
		w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
		ids = append(ids, x.ID)
	}
	for _, id := range ids[1:4] {
		w.expecting(t, "DELETE", "/v1/sessions/"+id, "", http.StatusOK, nil)
	}
	for status, want := range map[string][]string{"queued": {ids[0], ids[4]}, "ended,busy": ids[1:4], "ready": nil, "": ids} {
		var got []string
		for cursor := ""; ; {
			var page producer.SessionPage
			w.expecting(t, "GET", "/v1/sessions?limit=2&status="+status+"&cursor="+cursor, "", http.StatusOK, &page)
			for _, x := range page.Sessions {
				got = append(got, x.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
			t.Errorf("status %q: got %v, want %v", status, got, want)
		}
	}
	w.expecting(t, "GET", "/v1/sessions?status=gone", "", http.StatusUnprocessableEntity, nil)
	client, err := producer.New(w.srv.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	page, err := client.ListSessions(t.Context(), producer.SessionListOptions{Status: []job.SessionStatus{job.SessionQueued, job.SessionReady}})
	if err != nil || len(page.Sessions) != 2 {
		t.Errorf("got %+v, %v, want two", page, err)
	}
}

// TestSessionKeys: a session and an execution that are asked for again under their key are answered with the first ones, by header and by body, also
// once the budget is spent.
func TestSessionKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.tenant(t, "default", job.Terms{Budget: job.Budget{Nano: 1_000}})
	var x, again job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x, "Idempotency-Key: s1")
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","idempotency_key":"s1"}`, http.StatusAccepted, &again)
	if again.ID != x.ID {
		t.Errorf("got %s, want %s", again.ID, x.ID)
	}
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","ttl_seconds":9}`, http.StatusConflict, nil, "Idempotency-Key: s1")
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","idempotency_key":"s2"}`, http.StatusUnprocessableEntity, nil, "Idempotency-Key: s1")
	path := "/v1/sessions/" + x.ID + "/execute"
	var first, same job.Summary
	w.expecting(t, "POST", path, `{"code":"x = 1"}`, http.StatusAccepted, &first, "Idempotency-Key: e1")
	w.expecting(t, "POST", path, `{"code":"x = 2"}`, http.StatusConflict, nil, "Idempotency-Key: e1")
	if _, err := w.Worker.ClaimSession(t.Context(), x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	j, err := w.Worker.TakeTurn(t.Context(), x.ID, "w1", "", nil, record.Rest{Slot: true})
	if err != nil || j.ID != first.ID {
		t.Fatalf("got %+v, %v", j, err)
	}
	if err := w.Worker.End(t.Context(), j, record.Ending{Status: job.Succeeded, Result: []byte(`{"id":"` + j.ID + `","status":"succeeded"}`), Metered: &record.Metered{Nano: 2_000}}); err != nil {
		t.Fatal(err)
	}
	w.expecting(t, "POST", path, `{"code":"x = 1","idempotency_key":"e1"}`, http.StatusOK, &same)
	if same.ID != first.ID || same.Status != job.Succeeded {
		t.Errorf("got %+v, want the first one, which has ended", same)
	}
	w.expecting(t, "POST", path, `{"code":"x = 2","idempotency_key":"e1"}`, http.StatusConflict, nil)
	w.expecting(t, "POST", path, `{"code":"x = 1"}`, http.StatusPaymentRequired, nil)
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &again, "Idempotency-Key: s1")
	if again.ID != x.ID {
		t.Errorf("got %s, want %s", again.ID, x.ID)
	}
}

// TestExecutionKeyOutlivesItsInput: an execution that was accepted is found by its key, also once what it was given is gone.
func TestExecutionKeyOutlivesItsInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var made, first, again job.Summary
	w.expecting(t, "POST", "/v1/jobs", `{"runtime":"python","source":"1"}`, http.StatusAccepted, &made)
	w.End(t, w.Start(t, made.ID), map[string]string{"a.csv": "1"}, nil)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	path, body := "/v1/sessions/"+x.ID+"/execute", `{"code":"1","idempotency_key":"k","files":[{"name":"x","artifact":"`+made.ID+`/a.csv"}]}`
	w.expecting(t, "POST", path, body, http.StatusAccepted, &first)
	w.expecting(t, "DELETE", "/v1/jobs/"+made.ID+"?purge=true", ``, http.StatusNoContent, nil)
	w.expecting(t, "POST", path, body, http.StatusAccepted, &again)
	if again.ID != first.ID {
		t.Errorf("got %s, want %s", again.ID, first.ID)
	}
}

// TestExecutionsOfAnEarlierClock: an execution that an api took whose clock is behind that of the one that opened the session is listed.
func TestExecutionsOfAnEarlierClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"1"}`, http.StatusAccepted, nil)
	if err := w.Raw.HIncrBy(t.Context(), "gb:{default}:session:"+x.ID, "created", 1000).Err(); err != nil {
		t.Fatal(err)
	}
	if page, err := w.Client.ListExecutions(t.Context(), x.ID, producer.SessionListOptions{}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("got %+v, %v, want the execution", page.Jobs, err)
	}
}

// TestSessionBusy: who has sent as many executions as may wait is told when to come back.
func TestSessionBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	for range job.MaxWaitingTurns {
		w.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"1"}`, http.StatusAccepted, nil)
	}
	if a := w.do(t, "POST", "/v1/sessions/"+x.ID+"/execute", strings.NewReader(`{"code":"1"}`)); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %v %s, want 429 with Retry-After", a.status, a.header, a.body)
	}
}

// TestSessionChange: a session is given more time within what it can live, what is wrong is named, and one that has ended is gone.
func TestSessionChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var x, changed job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","ttl_seconds":60,"metadata":{"k":"v"}}`, http.StatusAccepted, &x)
	path := "/v1/sessions/" + x.ID
	w.expecting(t, "PATCH", path, `{"ttl_seconds":4000,"idle_seconds":3000}`, http.StatusOK, &changed)
	if lives := changed.ExpiresAt.Sub(x.CreatedAt).Seconds(); changed.ID != x.ID || lives < 4000 || changed.TTLSeconds < int64(lives) || changed.IdleSeconds != 3000 || changed.Metadata["k"] != "v" {
		t.Errorf("got %+v", changed)
	}
	w.expecting(t, "PATCH", path, `{"metadata":{}}`, http.StatusOK, &changed)
	var read job.Session
	w.expecting(t, "GET", path, "", http.StatusOK, &read)
	if len(read.Metadata) != 0 || read.IdleSeconds != 3000 || !read.ExpiresAt.Equal(changed.ExpiresAt) {
		t.Errorf("got %+v, want no metadata and the rest as it was", read)
	}
	for body, field := range map[string]string{
		`{"ttl_seconds":5401}`:       "ttl_seconds",
		`{"ttl_seconds":0}`:          "ttl_seconds",
		`{"ttl_seconds":-1}`:         "ttl_seconds",
		`{"idle_seconds":0}`:         "idle_seconds",
		`{"idle_seconds":5000}`:      "idle_seconds", // longer than it lives
		`{"metadata":{"":"x"}}`:      "metadata",
		`{"runtime":"node"}`:         "runtime", // that stays
		`{"ttl_seconds":"an hour"}`:  "ttl_seconds",
		`{"ttl_seconds":1e300}`:      "ttl_seconds",
		`{"idle_seconds":60.5}`:      "idle_seconds",
		`{"limits":{"wall_ms":100}}`: "limits",
	} {
		var p producer.Problem
		w.expecting(t, "PATCH", path, body, http.StatusUnprocessableEntity, &p)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: got %+v, want an error of %s", body, p, field)
		}
	}
	var p producer.Problem
	w.expecting(t, "PATCH", path, `{"ttl_seconds":5400}`, http.StatusUnprocessableEntity, &p) // some of its 90 minutes are over
	if len(p.Errors) != 1 || !strings.Contains(p.Errors[0].Message, "5400 from its begin") {
		t.Errorf("got %+v, want the most that it can live", p)
	}
	w.expecting(t, "DELETE", path, "", http.StatusOK, nil)
	p = producer.Problem{}
	w.expecting(t, "PATCH", path, `{"ttl_seconds":60}`, http.StatusGone, &p)
	if p.Code() != job.CodeSessionEnded {
		t.Errorf("got %+v, want session_ended", p)
	}
}
