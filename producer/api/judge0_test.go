package api_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/judge0"
)

// newJudge0 is an API with the façade on, for Bash, Python and C.
func newJudge0(t *testing.T) *world {
	t.Helper()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades = []facade.Facade{judge0.New()} })
	w.Runtimes(t)
	if err := w.Worker.Fleet.PublishRuntimes(t.Context(), []fleet.Runtime{{Name: "c", Version: "14", File: "main.c", Image: "glovebox/c", ImageDigest: "sha256:02", Limits: job.DefaultLimits}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// submission sends one, and returns its token and its job's id.
func (w *world) submission(t *testing.T, fields map[string]any) (token, id string) {
	t.Helper()
	a := w.do(t, http.MethodPost, "/judge0/submissions", strings.NewReader(marshal(t, fields)), "Content-Type: application/json")
	var made struct{ Token string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		t.Fatalf("got %d %.300s, want 201", a.status, a.body)
	}
	id, ok := job.IDOfUUID("default", made.Token)
	if !ok {
		t.Fatalf("got the token %s, which is no UUID", made.Token)
	}
	return made.Token, id
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestJudge0Faults: what is wrong with a submission of several runs is said in Judge0's form, and no job is made.
func TestJudge0Faults(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	long := func(n int, least, most rune) string {
		var b strings.Builder
		for range n {
			b.WriteRune(least + rand.N(most-least))
		}
		return b.String()
	}
	rare := func() string { return long(512, 0x10000, 0x10ffff) }
	for name, tt := range map[string]struct {
		fields map[string]any
		want   string
	}{
		"a callback": {map[string]any{"callback_url": "x"}, `"callback_url":["is not an http or https URL`},
		"too long together": {
			map[string]any{"compiler_options": rare(), "command_line_arguments": rare(), "callback_url": "http://a/" + long(2039, '&', '~')},
			`"base":["compiler_options, command_line_arguments and callback_url are too long together"]`,
		},
	} {
		fields := map[string]any{"language_id": 50, "source_code": "int main(void) {}", "number_of_runs": 20}
		maps.Copy(fields, tt.fields)
		a := w.do(t, http.MethodPost, "/judge0/submissions", strings.NewReader(marshal(t, fields)), "Content-Type: application/json")
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), tt.want) {
			t.Errorf("%s: got %d %.300s, want 422 and %s", name, a.status, a.body, tt.want)
		}
	}
	for _, wait := range []string{"", "&wait=true"} {
		a := w.do(t, http.MethodPost, "/judge0/submissions?fields=bogus"+wait, strings.NewReader(`{"language_id": 50, "source_code": "int main(void) {}"}`), "Content-Type: application/json")
		if want := `{"error":"invalid fields: [bogus]"}`; a.status != http.StatusBadRequest || strings.TrimSpace(string(a.body)) != want {
			t.Errorf("fields=bogus%s: got %d %.300s, want 400 and %s", wait, a.status, a.body, want)
		}
	}
	page, err := w.Client.List(t.Context(), producer.ListOptions{})
	if err != nil || len(page.Jobs) > 0 {
		t.Errorf("got %d jobs, %v, want none", len(page.Jobs), err)
	}
}

// deadlined is an answer that notes when it got its deadline.
type deadlined struct {
	http.ResponseWriter

	at *atomic.Pointer[time.Time]
}

func (d deadlined) SetWriteDeadline(until time.Time) error {
	now := time.Now()
	d.at.Store(&now)
	return http.NewResponseController(d.ResponseWriter).SetWriteDeadline(until)
}

// Unwrap is for http.ResponseController.
func (d deadlined) Unwrap() http.ResponseWriter { return d.ResponseWriter }

// TestJudge0BatchTime: the tokens of many submissions have an answer's time, however long it took to store these.
func TestJudge0BatchTime(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	var at atomic.Pointer[time.Time]
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.api.ServeHTTP(deadlined{rw, &at}, r) }))
	t.Cleanup(srv.Close)
	one := map[string]any{"language_id": 46, "source_code": "true"}
	a := w.do(t, http.MethodPost, srv.URL+"/judge0/submissions/batch", strings.NewReader(marshal(t, map[string]any{"submissions": []any{one, one, one}})), "Content-Type: application/json")
	var made []struct{ Token string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated || len(made) != 3 {
		t.Fatalf("got %d %s, %v, want 201 and three tokens", a.status, a.body, err)
	}
	id, _ := job.IDOfUUID("default", made[2].Token)
	last, err := w.Client.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if set := at.Load(); set == nil || set.Before(last.Timing.CreatedAt) {
		t.Errorf("the deadline was set at %v, and the last job stored at %s", set, last.Timing.CreatedAt)
	}
}

// TestJudge0LargeTexts: a submission is refused whose texts no answer has memory for; any other is answered with all of its fields.
func TestJudge0LargeTexts(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	fields := func(size int) map[string]any {
		return map[string]any{"language_id": 46, "source_code": "true", "expected_output": strings.Repeat("x", size)}
	}
	const most = (12<<20 - 1<<10) / 4 * 3
	const want = `{"base":["source_code, stdin, expected_output and additional_files are too large together (maximum is 12288 kilobytes in base64)"]}`
	a := w.do(t, http.MethodPost, "/judge0/submissions", strings.NewReader(marshal(t, fields(most+1<<10))), "Content-Type: application/json")
	if a.status != http.StatusUnprocessableEntity || string(a.body) != want {
		t.Errorf("got %d %.300s, want 422 and %s", a.status, a.body, want)
	}
	token, id := w.submission(t, fields(most))
	w.Printed(t, id, bytes.Repeat([]byte("y"), 1<<20), producer.Stdout, producer.Stderr)
	a = w.do(t, http.MethodGet, "/judge0/submissions/"+token+"?fields=*", http.NoBody)
	if a.status != http.StatusOK || len(a.body) < most+2<<20 {
		t.Errorf("got %d and %d bytes: %.200s, want all", a.status, len(a.body), a.body)
	}
}

// TestJudge0Many: lists and statistics know as many submissions as docs/moving.md says, however much their metadata take.
func TestJudge0Many(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	_, id := w.submission(t, map[string]any{"language_id": 46, "source_code": "true"})
	first, err := w.Client.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{Runtime: "bash", Source: "true", Metadata: first.Metadata}
	made, err := w.Client.SubmitBatch(t.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		for range 1100 {
			if !yield(spec, nil) {
				return
			}
		}
	})
	if err != nil || made.Rejected > 0 {
		t.Fatalf("got %+v, %v", made, err)
	}
	const most = 1000
	var statistics struct{ Submissions struct{ Total int } }
	w.expecting(t, http.MethodGet, "/judge0/statistics", "", http.StatusOK, &statistics)
	if statistics.Submissions.Total != most {
		t.Errorf("statistics count %d, want %d", statistics.Submissions.Total, most)
	}
	var page struct {
		Submissions []struct{ Token string }
		Meta        map[string]any
	}
	w.expecting(t, http.MethodGet, "/judge0/submissions?page=10&per_page=5000&fields=token", "", http.StatusOK, &page)
	if len(page.Submissions) != 100 || page.Meta["total_count"] != float64(most) {
		t.Errorf("the last page has %d submissions, %v", len(page.Submissions), page.Meta)
	}
	w.expecting(t, http.MethodGet, "/judge0/submissions?page=9223372036854775807&fields=token", "", http.StatusOK, &page)
	if len(page.Submissions) != 0 || page.Meta["current_page"] != float64(1<<63) || page.Meta["next_page"] != nil {
		t.Errorf("a page after the last has %d submissions, %v", len(page.Submissions), page.Meta)
	}
	w.expecting(t, http.MethodGet, "/judge0/submissions?page=1000&per_page=1&fields=token", "", http.StatusOK, &page)
	if len(page.Submissions) != 1 {
		t.Errorf("the last page of one each has %d submissions", len(page.Submissions))
	}
	for _, query := range []string{"page=0", "per_page=-1", "page=x"} {
		w.expecting(t, http.MethodGet, "/judge0/submissions?"+query, "", http.StatusBadRequest, nil)
	}
	var workers []struct{ Size int }
	w.expecting(t, http.MethodGet, "/judge0/workers", "", http.StatusOK, &workers)
	if len(workers) != 1 || workers[0].Size != most {
		t.Errorf("got the workers %v, want %d that wait", workers, most)
	}
}

// TestJudge0ConfigStack: what a tenant may have less of than Judge0's default is told as its default and its bound.
func TestJudge0ConfigStack(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	small, _ := w.tenant(t, "acme", job.Terms{Maximums: job.Limits{StackMB: 32}})
	for token, want := range map[string]string{token: `"max_stack_limit":128000,`, small: `"max_stack_limit":32768,`} {
		a := w.do(t, http.MethodGet, "/judge0/config_info", http.NoBody, as(token))
		if a.status != http.StatusOK || !strings.Contains(string(a.body), want) {
			t.Errorf("got %d %s, want %s", a.status, a.body, want)
		}
	}
	if a := w.do(t, http.MethodGet, "/judge0/config_info", http.NoBody, as(small)); !strings.Contains(string(a.body), `"stack_limit":32768,`) {
		t.Errorf("got %s, want that it is the default", a.body)
	}
}

// TestJudge0DeleteNeedsRead: a token that may not read is told nothing of a submission by deleting it, and deletes none.
func TestJudge0DeleteNeedsRead(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	secret, _ := w.tenant(t, "acme", job.Terms{})
	manages := w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeManage}}).Secret
	a := w.do(t, http.MethodPost, "/judge0/submissions", strings.NewReader(`{"language_id":46,"source_code":"true"}`), as(secret), "Content-Type: application/json")
	var made struct{ Token string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated {
		t.Fatalf("got %d %s, want 201", a.status, a.body)
	}
	id, _ := job.IDOfUUID("acme", made.Token)
	w.End(t, w.Start(t, id), nil, nil)
	path := "/judge0/submissions/" + made.Token + "?fields=source_code"
	if a := w.do(t, http.MethodDelete, path, http.NoBody, as(manages)); a.status != http.StatusForbidden || len(a.body) > 0 {
		t.Errorf("without the scope read: got %d %s, want 403", a.status, a.body)
	}
	if a := w.do(t, http.MethodDelete, path, http.NoBody, as(secret)); a.status != http.StatusOK || !strings.Contains(string(a.body), `"source_code":"dHJ1ZQ==`) {
		t.Errorf("with both: got %d %s, want 200", a.status, a.body)
	}
}

// TestJudge0ReadsOnce: what runs printed is read once for a request, however often that asks for their submission, and only
// where their outcome is asked for.
func TestJudge0ReadsOnce(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	proxy := w.S3.Proxy(t)
	a, err := api.New(api.Config{Client: w.ClientAt(t, proxy.Endpoint), Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken(token): "default"}, Facades: []facade.Facade{judge0.New()}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)

	const runs, asked = 3, 100
	output := strings.Repeat("x", 100<<10)
	made, _ := w.submission(t, map[string]any{"language_id": 46, "source_code": "true", "expected_output": output, "number_of_runs": runs})
	page, err := w.Client.List(t.Context(), producer.ListOptions{})
	if err != nil || len(page.Jobs) != runs {
		t.Fatalf("got %d jobs, %v, want %d", len(page.Jobs), err, runs)
	}
	for _, j := range page.Jobs {
		w.Printed(t, j.ID, []byte(output), producer.Stdout, producer.Stderr)
	}
	reads := func() (n int) {
		for request, count := range proxy.Counts() {
			if strings.HasPrefix(request, "GET ") && strings.HasSuffix(request, "/stdout") {
				n += count
			}
		}
		return n
	}
	tokens := strings.Repeat(made+","+strings.ToUpper(made)+",", asked/2)
	for _, tt := range []struct {
		fields string
		reads  int
		want   string
	}{
		{"token,created_at,language", 0, `"token":"` + made + `"`},
		{"status_id", runs, `{"status_id":3}`},
		{"stdout,status_id", runs + 1, `{"status_id":3,"stdout":"` + output + `"}`},
	} {
		before := reads()
		a := w.do(t, http.MethodGet, srv.URL+"/judge0/submissions/batch?fields="+tt.fields+"&tokens="+tokens, http.NoBody)
		if a.status != http.StatusOK || strings.Count(string(a.body), tt.want) != asked {
			t.Errorf("%s: got %d %.300s, want %d times %.60s", tt.fields, a.status, a.body, asked, tt.want)
		}
		if n := reads() - before; n != tt.reads {
			t.Errorf("%s: outputs were read %d times, want %d", tt.fields, n, tt.reads)
		}
	}
}

// TestJudge0Filesystem: the files that a program left are answered also where nothing else is asked for; null where there are none.
func TestJudge0Filesystem(t *testing.T) {
	t.Parallel()
	w := newJudge0(t)
	for _, files := range []map[string]string{{"f": "one"}, nil} {
		token, id := w.submission(t, map[string]any{"language_id": 46, "source_code": "true"})
		w.End(t, w.Start(t, id), files, nil)
		a := w.do(t, http.MethodGet, "/judge0/submissions/"+token+"?fields=post_execution_filesystem", http.NoBody)
		var answer struct {
			Zip *string `json:"post_execution_filesystem"`
		}
		if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusOK || (answer.Zip != nil) != (files != nil) {
			t.Fatalf("%v: got %d %s, %v", files, a.status, a.body, err)
		}
		if answer.Zip == nil {
			continue
		}
		archive, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(*answer.Zip, "\n", ""))
		if err != nil {
			t.Fatal(err)
		}
		r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
		if err != nil || len(r.File) != len(files) || r.File[0].Name != "f" || r.File[0].UncompressedSize64 != 3 {
			t.Errorf("got %v, want f with 3 bytes", err)
		}
	}
}
