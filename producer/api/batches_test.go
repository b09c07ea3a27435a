package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const line = `{"runtime":"python","source":"1"}` + "\n"

func (w *world) batch(t *testing.T, mediaType, body string, headers ...string) (answer, job.Batch, producer.Problem) {
	t.Helper()
	a := w.do(t, http.MethodPost, "/v1/batches", strings.NewReader(body), append([]string{"Content-Type: " + mediaType}, headers...)...)
	var b job.Batch
	var p producer.Problem
	var err error
	if a.status < 300 {
		err = json.Unmarshal(a.body, &b)
	} else if err = json.Unmarshal(a.body, &p); a.header.Get("Content-Type") != producer.ProblemMediaType {
		t.Errorf("got %d as %s", a.status, a.header.Get("Content-Type"))
	}
	if err != nil {
		t.Fatalf("got %d %s: %v", a.status, a.body, err)
	}
	return a, b, p
}

func TestBatchForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for name, c := range map[string]struct{ mediaType, body string }{
		"lines":             {"application/x-ndjson", `{"batch":{"metadata":{"k":"v"}}}` + "\n" + line + line + `{"runtime":"python","sorce":"1"}`},
		"lines, other name": {"application/jsonl; charset=utf-8", `{"batch":{"metadata":{"k":"v"}}}` + "\n" + line + "\n" + line + "[1]\n"},
		"object":            {"application/json", `{"metadata":{"k":"v"},"jobs":[` + line + "," + line + `,{"runtime":7}]}`},
	} {
		a, b, _ := w.batch(t, c.mediaType, c.body)
		if a.status != http.StatusAccepted || a.header.Get("Location") != "/v1/batches/"+b.ID || b.Status != job.BatchRunning || b.Jobs != 2 || b.Rejected != 1 || b.Metadata["k"] != "v" {
			t.Errorf("%s: got %d, %+v", name, a.status, b)
			continue
		}
		if e := b.Errors[0]; e.Index != 2 || e.Code != job.CodeInvalid || len(e.Errors) == 0 || e.Errors[0].Allowed == "" {
			t.Errorf("%s: got error %+v", name, e)
		}
		got := w.do(t, http.MethodGet, "/v1/batches/"+b.ID, http.NoBody)
		if string(got.body) != string(a.body) || got.status != http.StatusOK {
			t.Errorf("%s: got %d %s, want what was answered first", name, got.status, got.body)
		}
	}
}

func TestBatchProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const lines, object = "application/x-ndjson", "application/json"
	for name, c := range map[string]struct {
		mediaType, body string
		status          int
		field           string // in errors
		taken           int    // jobs, or -1 where no batch was begun
	}{
		"form":              {"text/csv", line, 415, "Content-Type", -1},
		"nothing":           {lines, "", 422, "jobs", -1},
		"no jobs":           {object, `{"jobs":[]}`, 422, "jobs", -1},
		"no list":           {object, `{}`, 400, "body", -1},
		"broken":            {lines, line + line + `{"runtime":`, 400, "jobs[2] (line 3)", 2},
		"broken object":     {object, `{"jobs":[` + line + `,}]}`, 400, "jobs[1]", 1},
		"behind the jobs":   {object, `{"jobs":[` + line + `],"metadata":{}}`, 400, "body", 1},
		"unknown option":    {object, `{"meta":{},"jobs":[` + line + `]}`, 422, "meta", -1},
		"option twice":      {object, `{"metadata":{},"metadata":{},"jobs":[` + line + `]}`, 422, "metadata", -1},
		"wrong callback":    {lines, `{"batch":{"callback":{"url":"x"}}}` + "\n" + line, 422, "callback.url", -1},
		"too many":          {lines, strings.Repeat(line, job.MaxBatch+1), 422, "jobs", job.MaxBatch},
		"a job too large":   {lines, line + strings.Repeat(" ", 1) + `{"source":"` + strings.Repeat("a", 34<<20), 413, "jobs[1] (line 2)", 1},
		"another key in it": {lines, `{"batch":{"idempotency_key":"a"}}` + "\n" + line, 422, "idempotency_key", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if name == "another key in it" {
				headers = []string{"Idempotency-Key: b"}
			}
			a, _, p := w.batch(t, c.mediaType, c.body, headers...)
			if a.status != c.status || len(p.Errors) != 1 || p.Errors[0].Field != c.field || p.Errors[0].Allowed == "" {
				t.Errorf("got %d %s, want %d about %s", a.status, a.body, c.status, c.field)
			}
			if p.Batch != nil && p.Batch.CancelRequested {
				// On a busy machine the cancellation of many jobs outlasts the answer, and is taken up again.
				gbtest.Eventually(t, "the batch is canceled", func() bool {
					a := w.do(t, http.MethodDelete, "/v1/batches/"+p.Batch.ID, http.NoBody)
					*p.Batch = job.Batch{}
					if err := json.Unmarshal(a.body, p.Batch); err != nil {
						t.Fatalf("%v: %d %s", err, a.status, a.body)
					}
					return p.Batch.Status == job.BatchCanceled
				})
			}
			switch {
			case (c.taken < 0) != (p.Batch == nil):
				t.Errorf("got batch %+v, want %d jobs taken", p.Batch, c.taken)
			case p.Batch != nil && (p.Batch.Status != job.BatchCanceled || p.Batch.Jobs != c.taken || p.Batch.Counts[job.Canceled] != c.taken || !strings.Contains(p.Detail, p.Batch.ID)):
				t.Errorf("got %s of %+v, want it canceled with %d jobs", p.Detail, p.Batch, c.taken)
			}
		})
	}
}

// Whoever has a key can go on where the first request ended.
func TestBatchIsContinued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	key := "Idempotency-Key: import 1"
	const lines = "application/x-ndjson"
	a, _, p := w.batch(t, lines, strings.Repeat(line, 130)+"{", key)
	if a.status != http.StatusBadRequest || p.Batch == nil || p.Batch.Status != job.BatchReceiving || p.Batch.Jobs != 130 || !strings.Contains(p.Detail, "again") {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	a, b, _ := w.batch(t, lines, strings.Repeat(line, 140), key)
	if a.status != http.StatusAccepted || b.ID != p.Batch.ID || b.Jobs != 140 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	a, _, p = w.batch(t, lines, strings.Repeat(line, 139)+`{"runtime":"bash","source":"1"}`, key)
	if a.status != http.StatusConflict || p.Code() != job.CodeConflict || !strings.Contains(p.Detail, "jobs[139]") {
		t.Errorf("another job: got %d %s", a.status, a.body)
	}
	// A batch that is complete takes no more jobs, and the answer says so.
	for name, body := range map[string]string{
		"another job": strings.Repeat(line, 139) + `{"runtime":"bash","source":"1"}`, "one more": strings.Repeat(line, 141), "one less": strings.Repeat(line, 139),
	} {
		a, _, p = w.batch(t, lines, body, key)
		if a.status != http.StatusConflict || !strings.Contains(p.Detail, b.ID+" under that key is complete, with 140 jobs") || strings.Contains(p.Detail, "again") {
			t.Errorf("%s than the complete batch has: got %d %s", name, a.status, a.body)
		}
	}
	// A tenant's keys are its own.
	a, b2, _ := w.batch(t, lines, line, key, "Authorization: Bearer "+otherToken)
	if a.status != http.StatusAccepted || b2.ID == b.ID {
		t.Errorf("another tenant with the key: got %d %s", a.status, a.body)
	}
}

func TestBatchBeyondItsBytes(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.BatchBytes = 4000 })
	w.Runtimes(t)
	a, _, p := w.batch(t, "application/x-ndjson", strings.Repeat(line, 200))
	if a.status != http.StatusRequestEntityTooLarge || p.Code() != job.CodeTooLarge || p.Batch != nil {
		t.Errorf("with its length announced: got %d %s", a.status, a.body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/v1/batches", io.MultiReader(strings.NewReader(strings.Repeat(line, 200))))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || p.Batch == nil || p.Batch.Status != job.BatchCanceled {
		t.Errorf("without: got %s, %+v, %v", res.Status, p, err)
	}
}

// A sender who leaves in the middle takes its batch along.
func TestBatchSenderLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000000\r\n\r\n%s", token, strings.Repeat(line, 1000))
	newest := func() job.Batch {
		var page producer.BatchPage
		if err := json.Unmarshal(w.do(t, http.MethodGet, "/v1/batches", http.NoBody).body, &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Batches) == 0 {
			return job.Batch{}
		}
		return page.Batches[0]
	}
	gbtest.Eventually(t, "some jobs are taken", func() bool { return newest().Jobs > 0 })
	conn.Close()
	gbtest.Eventually(t, "the batch is canceled", func() bool { b := newest(); return b.Status == job.BatchCanceled && b.Counts[job.Canceled] == b.Jobs })
}

// A sender who pauses while the API drains is told so at once, and what became of the batch.
func TestBatchDrained(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(line), line), "of a known length": "Content-Length: 1000\r\n\r\n" + line,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Runtimes(t)
			conn := w.raw(t, net.Dialer{}, http.MethodPost, "/v1/batches", token, "Content-Type: application/x-ndjson\r\n"+sent)
			newest := func() job.Batch {
				page, err := w.Client.ListBatches(t.Context(), producer.BatchListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return append(page.Batches, job.Batch{})[0]
			}
			gbtest.Eventually(t, "its job is taken", func() bool { return newest().Jobs == 1 })
			w.api.Drain()
			if err := conn.SetReadDeadline(time.Now().Add(gbtest.AtOnce)); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var p producer.Problem
			if err := json.NewDecoder(res.Body).Decode(&p); err != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
				t.Fatalf("got %s %+v, %v, want 503", res.Status, p, err)
			}
			if p.Batch == nil || !p.Batch.CancelRequested || p.Batch.Jobs != 1 || !strings.Contains(p.Detail, "is ending") || !strings.Contains(p.Detail, p.Batch.ID) {
				t.Errorf("got %+v, want what became of the batch", p)
			}
			gbtest.Eventually(t, "the batch is canceled", func() bool { return newest().Status == job.BatchCanceled })
			if strings.Contains(w.log.String(), `"level":"ERROR"`) {
				t.Errorf("an end is not an error: %s", w.log)
			}
		})
	}
}

// A sender who takes too long is cut off, and told so; one who sends much is given the time.
func TestSlowBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const pause = 3 * time.Second
	w.api.SetBodyTime(pause)
	send := func(body string, then func(net.Conn)) (int, producer.Problem) {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", token, len(body), body)
		then(conn)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var p producer.Problem
		if res.StatusCode >= 300 {
			if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
				t.Fatal(err)
			}
		}
		return res.StatusCode, p
	}
	status, p := send(strings.Repeat(line, 150), func(net.Conn) {})
	if status != http.StatusRequestTimeout || p.Code() != job.CodeTimeout || p.Batch == nil || p.Batch.Status != job.BatchCanceled {
		t.Errorf("one who stops: got %d %+v; log:\n%s", status, p, w.log.String())
	}
	// 512 KiB are worth 12 seconds more, as far as pauses go.
	status, p = send(strings.Repeat(" ", 512<<10)+line, func(conn net.Conn) {
		time.Sleep(pause + time.Second)
		fmt.Fprint(conn, "0\r\n\r\n")
	})
	if status != http.StatusAccepted {
		t.Errorf("one who sent much and pauses: got %d %+v", status, p)
	}
}

// TestUnreadBody: who announces a body and doesn't send it gets an answer, and no place.
func TestUnreadBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetBodyTime(300 * time.Millisecond)
	for _, request := range []string{"POST /v1/batches", "POST /v1/jobs", "GET /v1/jobs/default-x/events", "DELETE /v1/jobs/default-x"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", request)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", request, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %s, want 401", request, res.Status)
		}
	}
}

func TestBatchResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	_, b, _ := w.batch(t, "application/x-ndjson", line+line+`{"runtime":"python","source":"1","run_at":"2026-11-20T09:00:00+24:00"}`+"\n"+line)
	path := "/v1/batches/" + b.ID
	read := func(path string, headers ...string) (indexes []int) {
		t.Helper()
		a := w.do(t, http.MethodGet, path, http.NoBody, headers...)
		if a.status != http.StatusOK || a.header.Get("Content-Type") != producer.LinesMediaType {
			t.Fatalf("got %d %s as %s", a.status, a.body, a.header.Get("Content-Type"))
		}
		for lines := bufio.NewScanner(bytes.NewReader(a.body)); lines.Scan(); {
			var r job.BatchResult
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			indexes = append(indexes, r.Index)
		}
		return indexes
	}
	if got := fmt.Sprint(read(path + "/results")); got != "[2]" {
		t.Errorf("before any job ended: got %s, want the rejected one", got)
	}
	for _, i := range []int{3, 0} {
		w.End(t, w.Start(t, job.ItemID(b.ID, i)), nil, nil)
	}
	if got := fmt.Sprint(read(path + "/results")); got != "[0 2 3]" {
		t.Errorf("while it runs: got %s", got)
	}
	if got := fmt.Sprint(read(path + "/results?from=3")); got != "[3]" {
		t.Errorf("from 3: got %s", got)
	}
	a := w.do(t, http.MethodGet, path, http.NoBody, "Prefer: wait=1")
	if a.status != http.StatusAccepted || a.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("waiting in vain: got %d %v", a.status, a.header)
	}
	w.End(t, w.Start(t, job.ItemID(b.ID, 1)), nil, nil)
	a = w.do(t, http.MethodGet, path, http.NoBody, "Prefer: wait=60")
	if err := json.Unmarshal(a.body, &b); err != nil || a.status != http.StatusOK || b.Status != job.BatchCompleted || !strings.HasPrefix(b.ResultsURL, w.srv.URL+path+"/results?token=") {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if got := fmt.Sprint(read(b.ResultsURL, "Authorization: ")); got != "[0 1 2 3]" { // its token is enough
		t.Errorf("by its URL: got %s", got)
	}
	for _, wrong := range []string{path + "/results?from=x", path + "/results?from=-1"} {
		if a := w.do(t, http.MethodGet, wrong, http.NoBody); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: got %d", wrong, a.status)
		}
	}
	forged := strings.Replace(b.ResultsURL, b.ID, job.NewBatchID("default"), 1)
	if a := w.do(t, http.MethodGet, forged, http.NoBody, "Authorization: "); a.status != http.StatusForbidden {
		t.Errorf("another batch by that token: got %d", a.status)
	}
	if a := w.do(t, http.MethodGet, "/v1/jobs/"+job.ItemID(b.ID, 0), http.NoBody); a.status != http.StatusOK || !strings.Contains(string(a.body), "succeeded") {
		t.Errorf("a job of the batch by its id: got %d %s", a.status, a.body)
	}
}
