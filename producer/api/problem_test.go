package api_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// Each bad request has a golden problem, and leaves nothing behind.
func TestProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const id = "default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	submit := func(body string, headers ...string) func(*testing.T) answer {
		return func(t *testing.T) answer { t.Helper(); return w.submit(t, body, headers...) }
	}
	get := func(method, path string, headers ...string) func(*testing.T) answer {
		return func(t *testing.T) answer { t.Helper(); return w.do(t, method, path, http.NoBody, headers...) }
	}
	// Before any worker has published runtimes.
	check(t, w, "no-runtimes", 503, submit(`{"runtime":"python","source":"1"}`))
	w.Runtimes(t)
	check(t, w, "no-images", 422, submit(`{"image":"`+producertest.Image+`","command":["/tool"]}`))
	w.Images(t)
	for _, test := range []struct {
		name   string
		status int
		do     func(*testing.T) answer
	}{
		{"checker-programs", 422, submit(`{"runtime":"python","source":"1","tests":[{"name":"1"}],"checker":{"kind":"kattis","program":{"runtime":"cobol","limits":{"memory_mb":999999}}}}`)},
		{"checker-arguments", 422, submit(`{"runtime":"python","source":"1","tests":[{"name":"1","checker_args":["x"]}],"checker":{"kind":"exact","program":{"runtime":"python3","source":"1"}}}`)},
		{"checker-uploads", 422, submit(`{"runtime":"python","source":"1","tests":[{"name":"1"}],"checker":{"kind":"kattis","program":{"runtime":"python3","files":[{"name":"a.py","upload":"` + strings.Repeat("0", 64) + `"}]}}}`)},
		{"unknown-runtime", 422, submit(`{"runtime":"cobol","source":"1"}`)},
		{"bad-list", 422, get("GET", "/v1/jobs?status=done,running&limit=201&cursor=Kg&runtime="+strings.Repeat("x", 300))},
		{"bad-list-values", 422, get("GET", "/v1/jobs?limit=many&since=yesterday&status="+strings.Repeat("failed,", 30))},
		{"list-without-token", 401, get("GET", "/v1/jobs", "Authorization: ")},
		{"empty-source", 422, submit(`{"runtime":"python","source":""}`)},
		{"empty-object", 422, submit(`{}`)},
		{"negative-limit", 422, submit(`{"runtime":"python","source":"1","limits":{"wall_ms":-1,"cpus":-0.5}}`)},
		{"too-large-limits", 422, submit(`{"runtime":"python","source":"1","limits":{"memory_mb":999999999,"cpus":1e300}}`)},
		{"limit-is-a-string", 422, submit(`{"runtime":"python","source":"1","limits":{"wall_ms":"10; rm -rf /"}}`)},
		{"limit-is-nan", 400, submit(`{"runtime":"python","source":"1","limits":{"cpus":NaN}}`)},
		{"limits-no-number-holds", 422, submit(`{"runtime":"python","source":"1","limits":{"wall_ms":1e3,"memory_mb":99999999999999999999,"cpus":1e999,"disk_mb":1.5}}`)},
		{"limits-is-an-array", 422, submit(`{"runtime":"python","source":"1","limits":[1,{"wall_ms":2}]}`)},
		{"image-and-runtime", 422, submit(`{"runtime":"python","image":"` + producertest.Image + `","command":["/tool"]}`)},
		{"image-not-allowed", 422, submit(`{"image":"registry.example.com/other@sha256:` + strings.Repeat("0", 64) + `","command":["/tool"]}`)},
		{"image-of-another-digest", 422, submit(`{"image":"` + strings.Replace(producertest.Image, "@sha256:0", "@sha256:1", 1) + `","command":["/tool"]}`)},
		{"image-by-tag", 422, submit(`{"image":"registry.example.com/team/tool:latest","command":[],"args":["-v"],"entrypoint":"main.py"}`)},
		{"command-without-image", 422, submit(`{"runtime":"python","source":"1","command":["/tool"]}`)},
		{"unknown-fields", 422, submit(`{"runtime":"python","source":"1","imge":"x","Runtime":"y","limits":{"wall_s":1},"files":[{"name":"a","mode":{"x":[1]}}]}`)},
		{"repeated-field", 422, submit(`{"runtime":"python","source":"1","runtime":"bash"}`)},
		{"wrong-types", 422, submit(`{"runtime":1,"source":["a"],"files":{"a":"b"},"args":["x",2],"env":{"A":true},"callback":"https://x"}`)},
		{"bad-names", 422, submit(`{"runtime":"python","files":[{"name":"../x"},{"name":"/etc/passwd"},{"name":"a\n"}],"entrypoint":"a"}`)},
		{"bad-callback", 422, submit(`{"runtime":"python","source":"1","callback":{"url":"ftp://user:secret@host/","events":["job.started"]}}`)},
		{"long-value", 422, submit(`{"runtime":"` + strings.Repeat("x", 5000) + `","source":"1","` + strings.Repeat("y", 5000) + `":1}`)},
		{"too-large-source", 422, submit(`{"runtime":"python","source":"` + strings.Repeat("x", 2<<20) + `"}`)},
		{"malformed", 400, submit("{\"runtime\":\n  \"python\",}")},
		{"cut-off", 400, submit(`{"runtime":"python","source":"1`)},
		{"trailing", 400, submit(`{"runtime":"python","source":"1"} {}`)},
		{"empty-body", 400, submit(``)},
		{"not-an-object", 422, submit(`["a"]`)},
		{"not-utf-8", 400, submit("{\"runtime\":\"python\",\"source\":\"\xff\"}")},
		{"deep", 400, submit(strings.Repeat("[", 100_000))},
		{"form", 415, submit(`runtime=python`, "Content-Type: application/x-www-form-urlencoded")},
		{"no-token", 401, submit(`{"runtime":"python","source":"1"}`, "Authorization: ")},
		{"wrong-token", 401, submit(`{"runtime":"python","source":"1"}`, "Authorization: Bearer "+token+"x")},
		{"wrong-scheme", 401, submit(`{"runtime":"python","source":"1"}`, "Authorization: Basic "+token)},
		{"no-such-job", 404, get("GET", "/v1/jobs/"+id)},
		{"no-job-id", 404, get("GET", "/v1/jobs/..%2F..%2Fx")},
		{"cancel-no-such-job", 404, get("DELETE", "/v1/jobs/"+id)},
		{"no-such-file", 404, get("GET", "/v1/jobs/"+id+"/artifacts/a%2F..%2Fb")},
		{"file-without-token", 401, get("GET", "/v1/jobs/"+id+"/stdout", "Authorization: ")},
		{"invalid-link", 403, get("GET", "/v1/jobs/"+id+"/stdout?token=1.default.99999999999.AAAA", "Authorization: ")},
		{"callback-as-number", 422, submit(`{"runtime":"python","source":"1","callback":{"url":"http://0x7f.1/"}}`)},
		{"deliveries-of-nothing", 422, get("GET", "/v1/deliveries")},
		{"deliveries-of-no-job", 404, get("GET", "/v1/deliveries?job="+id)},
		{"no-such-path", 404, get("GET", "/v2/jobs")},
		{"method-not-allowed", 405, get("PUT", "/v1/jobs")},
	} {
		check(t, w, test.name, test.status, test.do)
	}

	var tasks int64
	for name := range queue.Jobs() {
		n, err := w.Raw.LLen(t.Context(), "asynq:{"+name+"}:pending").Result()
		if err != nil {
			t.Fatal(err)
		}
		tasks += n
	}
	records, err := w.Raw.Keys(t.Context(), "gb:{*").Result()
	if err != nil || len(records) > 0 || tasks > 0 {
		t.Errorf("got %v, %d tasks, %v; want nothing enqueued", records, tasks, err)
	}
	for _, secret := range []string{token, "rm -rf", "wall_s", "AAAA"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func check(t *testing.T, _ *world, name string, status int, do func(*testing.T) answer) {
	t.Helper()
	a := do(t)
	if a.status != status {
		t.Errorf("%s: got %d %s, want %d", name, a.status, a.body, status)
		return
	}
	if got := a.header.Get("Content-Type"); got != producer.ProblemMediaType {
		t.Errorf("%s: got %q, want %q", name, got, producer.ProblemMediaType)
	}
	if status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer ") {
		t.Errorf("%s: no WWW-Authenticate", name)
	}
	if status == 405 && a.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("%s: Allow is %q, want GET, HEAD and POST", name, a.header.Get("Allow"))
	}
	if len(a.body) > 4096 {
		t.Errorf("%s: the problem has %d bytes: is something echoed whole?", name, len(a.body))
	}
	var p producer.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || p.Status != status || p.Title == "" || p.Detail == "" || p.Code() == "" {
		t.Errorf("%s: got %+v, %v", name, p, err)
	}
	golden(t, "problems/"+name+".json", indented(t, a.body))
}

// A huge body is refused by its length, or where it tells none, after the limit.
func TestHugeBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const size = 100 << 20
	var body *countingReader
	post := func(announce bool) (*http.Response, error) {
		body = &countingReader{r: io.MultiReader(strings.NewReader(`{"runtime":"python","source":"`), io.LimitReader(letters{}, size))}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.srv.URL+"/v1/jobs", body)
		if err != nil {
			t.Fatal(err)
		}
		if announce {
			req.ContentLength = size + 30
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		return w.srv.Client().Do(req)
	}
	for name, announce := range map[string]bool{"announced": true, "chunked": false} {
		res, err := insist(largeTries, func() (*http.Response, error) { return post(announce) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || !bytes.Contains(b, []byte(job.CodeTooLarge)) {
			t.Errorf("%s: got %d %s, %v; want 413", name, res.StatusCode, b, err)
		}
		// What the kernel holds between the two is beyond us.
		if n := body.n.Load(); n > 60<<20 || announce && n > 16<<20 {
			t.Errorf("%s: the API took %d bytes of %d", name, n, int64(size))
		}
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
