package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
)

// token makes a token of the tenant acme.
func (w *world) token(t *testing.T, asked producer.TokenRequest) producer.NewToken {
	t.Helper()
	made, err := w.Client.AddToken(t.Context(), "acme", asked)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestScopes walks every route with tokens that have one scope each, and ones that lack one.
func TestScopes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.Secrets(t)
	checkVisits(t, w)
	w.tenant(t, "acme", job.Terms{})
	only, lacks := map[job.Scope]string{}, map[job.Scope]string{}
	for _, s := range job.Scopes() {
		only[s] = w.token(t, producer.TokenRequest{Scopes: []job.Scope{s}}).Secret
		rest := slices.DeleteFunc(job.Scopes(), func(other job.Scope) bool { return other == s })
		lacks[s] = w.token(t, producer.TokenRequest{Scopes: rest}).Secret
	}
	ask := func(v visit, token string) answer {
		path := strings.NewReplacer("<id>", job.NewID("acme"), "<batch>", job.NewBatchID("acme"), "<token>", "x").Replace(v.path)
		headers := []string{as(token)}
		if v.mediaType != "" {
			headers = append(headers, "Content-Type: "+v.mediaType)
		}
		return w.do(t, v.method, path, strings.NewReader(v.body), headers...)
	}
	for pattern, v := range visits {
		v.method, _, _ = strings.Cut(pattern, " ")
		for _, path := range v.also {
			if strings.Contains(path, "purge=true") {
				purge := v
				purge.path = path
				if a := ask(purge, lacks[job.ScopeManage]); a.status != http.StatusForbidden || !strings.Contains(string(a.body), job.CodeMissingScope) {
					t.Errorf("purge without manage: got %d %s", a.status, a.body)
				}
				if a := ask(purge, lacks[job.ScopeRead]); a.status == http.StatusForbidden {
					t.Errorf("purge with manage: got %d %s", a.status, a.body)
				}
			}
		}
		s := api.Needs(pattern)
		if s == "" {
			t.Errorf("%s names no scope", pattern)
		}
		if !slices.Contains(job.Scopes(), s) {
			continue
		}
		a := ask(v, lacks[s])
		want := fmt.Sprintf(`error="insufficient_scope", scope=%q`, string(s))
		if a.status != http.StatusForbidden || !strings.Contains(string(a.body), "the scope "+string(s)+";") || !strings.Contains(string(a.body), job.CodeMissingScope) ||
			!strings.Contains(a.header.Get("WWW-Authenticate"), want) {
			t.Errorf("%s without %s: got %d %v %s", pattern, s, a.status, a.header, a.body)
		}
		only := only[s]
		if pattern == "POST /v1/problems/{digest}/regrade" || pattern == "POST /v1/runs/{id}/rerun" { // they lead to results of what other tokens submitted
			if a := ask(v, only); a.status != http.StatusForbidden || !strings.Contains(a.header.Get("WWW-Authenticate"), `scope="read"`) {
				t.Errorf("%s without read: got %d %s", pattern, a.status, a.body)
			}
			only = w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeSubmit, job.ScopeRead}}).Secret
		}
		if a := ask(v, only); a.status == http.StatusForbidden || a.status == http.StatusUnauthorized || a.status >= 500 {
			t.Errorf("%s with %s: got %d %s", pattern, s, a.status, a.body)
		}
	}
	// What another job made is read by whoever may read.
	const uses = `{"runtime":"python","source":"1","files":[{"name":"a","artifact":"acme-aaaaaaaaaaaaaaaaaaaaaaaaaa/plot.png"}]}`
	if a := w.submit(t, uses, as(only[job.ScopeSubmit])); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "the scope read") {
		t.Errorf("an artifact of another job: got %d %s", a.status, a.body)
	}
	if _, b, _ := w.batch(t, "application/x-ndjson", uses, as(only[job.ScopeSubmit])); b.Rejected != 1 || !strings.Contains(b.Errors[0].Message, "the scope read") {
		t.Errorf("an artifact of another job, in a batch: got %+v", b)
	}
	a := w.do(t, "GET", "/v1/jobs", http.NoBody, as(only[job.ScopeSubmit]))
	golden(t, "problems/missing-scope.json", indented(t, a.body))
	for _, bad := range []string{`{"scopes":["submit","everything"]}`, `{"scopes":["read","read"]}`, `{"expires_at":"2020-01-01T00:00:00Z"}`, `{"expires_at":"2199-01-01T00:00:00Z"}`} {
		if a := w.admin(t, "POST", "/tenants/acme/tokens", bad); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: got %d %s, want 422", bad, a.status, a.body)
		}
	}
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant(t, "acme", job.Terms{})
	var at time.Time
	var good int
	var a answer
	for life := 5 * time.Second; good == 0 && life < gbtest.Patience; life *= 4 { // it may expire before a busy machine has used it
		at = time.Now().Add(life).Truncate(time.Millisecond) // as records have it
		token, err := w.Client.AddToken(t.Context(), "acme", producer.TokenRequest{ExpiresAt: at})
		if err != nil && time.Now().After(at) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		get := func() answer { return w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token.Secret)) }
		for a = get(); a.status == http.StatusOK; a = get() {
			good++
			if time.Now().After(at.Add(gbtest.AtOnce)) {
				t.Fatal("it is good after it expired")
			}
			time.Sleep(20 * time.Millisecond)
		}
		if time.Now().Before(at) {
			break
		}
	}
	if good == 0 || time.Now().Before(at) {
		t.Errorf("it was good %d times, and worthless before its time", good)
	}
	if a.status != http.StatusUnauthorized || !strings.Contains(string(a.body), "the token has expired") || !strings.Contains(a.header.Get("WWW-Authenticate"), "invalid_token") {
		t.Errorf("got %d %v %s, want 401", a.status, a.header, a.body)
	}
}

// A batch whose token is revoked while it comes ends before its next group of jobs.
func TestRevokedTokenEndsBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	token, id := w.tenant(t, "acme", job.Terms{})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nIdempotency-Key: import\r\nTransfer-Encoding: chunked\r\n\r\n", token)
	send := func(n int) {
		jobs := strings.Repeat(line, n)
		fmt.Fprintf(conn, "%x\r\n%s\r\n", len(jobs), jobs) // who is refused reads no more
	}
	send(100)
	client := w.Client.For("acme")
	var before job.Batch
	gbtest.Eventually(t, "the first group is taken", func() bool {
		page, err := client.ListBatches(t.Context(), producer.BatchListOptions{})
		if err != nil || len(page.Batches) != 1 || page.Batches[0].Jobs < 100 {
			return false
		}
		before = page.Batches[0]
		return true
	})
	if a := w.admin(t, "DELETE", "/tenants/acme/tokens/"+id, ""); a.status != http.StatusNoContent {
		t.Fatalf("revoke: got %d", a.status)
	}
	send(500)
	fmt.Fprint(conn, "0\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var p producer.Problem
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil || res.StatusCode != http.StatusUnauthorized || p.Batch == nil || p.Batch.ID != before.ID {
		t.Errorf("got %s %+v, %v, want 401", res.Status, p, err)
	}
	if now, err := client.GetBatch(t.Context(), before.ID); err != nil || now.Jobs != 100 {
		t.Errorf("got %+v, %v: jobs were taken with a revoked token", now, err)
	}
}

// Results of a batch break off when their token is revoked.
func TestRevokedTokenEndsResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.api.SetLookInterval(0)
	token, id := w.tenant(t, "acme", job.Terms{})
	// More than the kernel holds between the two, of jobs that are rejected for many reasons.
	rejected := `{` + strings.Repeat(`"a":1,`, 20) + `"a":1}` + "\n"
	_, b, _ := w.batch(t, "application/x-ndjson", strings.Repeat(rejected, job.MaxBatch), as(token))
	if b.Rejected != job.MaxBatch {
		t.Fatalf("got %+v", b)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/v1/batches/"+b.ID+"/results", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := w.srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.admin(t, "DELETE", "/tenants/acme/tokens/"+id, "")
	if n, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Errorf("got all %d bytes of results with a revoked token", n)
	}
}
