package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const hookSecret = "a secret of github's"

// github is a request as GitHub sends it, signed with the secret.
func (w *world) github(t *testing.T, path, secret, delivery, body string, headers ...string) answer {
	t.Helper()
	return w.do(t, "POST", path, strings.NewReader(body), append(githubHeaders(secret, delivery, body), headers...)...)
}

func githubHeaders(secret, delivery, body string) []string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(body))
	return []string{
		"Authorization: ", "Content-Type: application/json", "X-GitHub-Event: push", "X-GitHub-Delivery: " + delivery,
		"X-Hub-Signature-256: sha256=" + hex.EncodeToString(h.Sum(nil)),
	}
}

// hook makes a template and a hook that starts it.
func (w *world) hook(t *testing.T, settings string, headers ...string) producer.NewHook {
	t.Helper()
	const template = `{"params":{"type":"object","required":["ref"],"properties":{"ref":{"type":"string","maxLength":50},"event":{"type":"string"}}},
		"spec":{"runtime":"python","source":"1","args":[{"from":"/params/ref"},{"from":"/params/event"}]}}`
	if a := w.do(t, "PUT", "/v1/templates/report", strings.NewReader(template), headers...); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	a := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{"template":"report","from":{"ref":"/body/ref","event":"/headers/x-github-event"},`+settings+`}`), headers...)
	var made producer.NewHook
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated || strings.Contains(string(a.body), hookSecret) {
		t.Fatalf("create hook: got %d %s, %v", a.status, a.body, err)
	}
	return made
}

func jobs(t *testing.T, w *world, headers ...string) int {
	t.Helper()
	var page struct{ Jobs []job.Summary }
	a := w.do(t, "GET", "/v1/jobs?limit=200", http.NoBody, headers...)
	if err := json.Unmarshal(a.body, &page); err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

func started(t *testing.T, a answer) producer.HookAccepted {
	t.Helper()
	var said producer.HookAccepted
	if err := json.Unmarshal(a.body, &said); err != nil || a.status != http.StatusAccepted || said.JobID == "" {
		t.Fatalf("got %d %s, %v, want a job", a.status, a.body, err)
	}
	return said
}

// TestHookStartsOneJob: a delivery starts one job, however often it comes and under whatever id.
func TestHookStartsOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"github","body":"event.json","secret":"`+hookSecret+`"`)
	const body = `{"ref":"refs/heads/it's $(main)","n":1}`

	var wg sync.WaitGroup
	answers := make([]answer, 20)
	for i := range answers {
		wg.Go(func() { answers[i] = w.github(t, made.Path, hookSecret, "d1", body) })
	}
	wg.Wait()
	first := started(t, answers[0]).JobID
	fresh := 0
	for _, a := range answers {
		said := started(t, a)
		if !said.Duplicate {
			fresh++
		}
		if said.JobID != first {
			t.Errorf("got job %s, want %s", said.JobID, first)
		}
	}
	if fresh == 0 || jobs(t, w) != 1 {
		t.Errorf("20 at once: %d were the first, %d jobs, want one", fresh, jobs(t, w))
	}
	spec := w.Start(t, first).Spec
	if got := strings.Join(spec.Args, "|"); got != "refs/heads/it's $(main)|push" || len(spec.Files) != 1 || spec.Files[0].Name != "event.json" || spec.Files[0].Content != body {
		t.Errorf("got args %s, files %+v", got, spec.Files)
	}
	if m := spec.Metadata; m[job.TemplateKey] != "report@1" || m[job.HookKey] != made.ID || m[job.DeliveryKey] != "d1" {
		t.Errorf("got metadata %v", m)
	}

	if said := started(t, w.github(t, made.Path, hookSecret, "d2", body)); said.JobID != first || !said.Duplicate {
		t.Errorf("a replay under another id: got %+v", said)
	}
	if said := started(t, w.github(t, made.Path, hookSecret, "d3", `{"ref":"other"}`)); said.JobID == first || said.Duplicate {
		t.Errorf("another delivery: got %+v", said)
	}
	// What is purged is not run again.
	w.End(t, w.Start(t, jobOf(t, w, made, "d3")), nil, nil)
	if a := w.do(t, "DELETE", "/v1/jobs/"+jobOf(t, w, made, "d3")+"?purge=true", http.NoBody); a.status != http.StatusNoContent {
		t.Fatalf("purge: got %d %s", a.status, a.body)
	}
	if said := started(t, w.github(t, made.Path, hookSecret, "d3", `{"ref":"other"}`)); !said.Duplicate {
		t.Errorf("of a purged job: got %+v", said)
	}
	// Nor is it where an api died once the job was created, and so did not settle the delivery.
	for _, key := range w.Raw.Keys(t.Context(), "gb:{default}:hookseen:*").Val() {
		claimed := strings.Replace(w.Raw.Get(t.Context(), key).Val(), " done", " claimed", 1)
		if err := w.Raw.Set(t.Context(), key, claimed, redis.KeepTTL).Err(); err != nil {
			t.Fatal(err)
		}
	}
	started(t, w.github(t, made.Path, hookSecret, "d3", `{"ref":"other"}`))
	if got := jobs(t, w); got != 1 {
		t.Errorf("got %d jobs, want the first alone", got)
	}
}

// deliveries are those that the hook shows.
func deliveries(t *testing.T, w *world, path string, headers ...string) []job.HookDelivery {
	t.Helper()
	var list producer.HookDeliveryList
	if err := json.Unmarshal(w.do(t, "GET", path+"/deliveries", http.NoBody, headers...).body, &list); err != nil {
		t.Fatal(err)
	}
	return list.Deliveries
}

func jobOf(t *testing.T, w *world, made producer.NewHook, delivery string) string {
	t.Helper()
	for _, d := range deliveries(t, w, made.Path) {
		if d.Delivery == delivery && d.Outcome == job.DeliveryStarted {
			return d.Job
		}
	}
	t.Fatalf("no delivery %s started a job", delivery)
	return ""
}

// TestHookWithoutIDs: of requests that nothing names each starts a job, and nothing is remembered by which none can be found.
func TestHookWithoutIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.expecting(t, "PUT", "/v1/templates/plain", `{"spec":{"runtime":"python","source":"1"}}`, http.StatusOK, nil)
	var made producer.NewHook
	w.expecting(t, "POST", "/v1/hooks", `{"template":"plain","sender":"bearer","secret":"`+hookSecret+`"}`, http.StatusCreated, &made)
	seen := map[string]bool{}
	for range 3 {
		said := started(t, w.do(t, "POST", made.Path, strings.NewReader(`{}`), "Content-Type: application/json", as(hookSecret)))
		if said.Duplicate || seen[said.JobID] {
			t.Errorf("got %+v, want a job of its own", said)
		}
		seen[said.JobID] = true
	}
	if list := deliveries(t, w, made.Path); len(list) != 3 {
		t.Errorf("got %+v, want three deliveries", list)
	}
	if keys, err := w.Raw.Keys(t.Context(), "gb:{default}:hookseen:*").Result(); err != nil || len(keys) != 0 {
		t.Errorf("got %v, %v, want nothing remembered", keys, err)
	}
}

// TestHookBodyIsStdin: a body of any bytes is what the program reads, and a template that has something
// there already is refused when the hook is set, or for a later revision when a request comes.
func TestHookBodyIsStdin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`)
	set := func(spec string) {
		t.Helper()
		if a := w.do(t, "PUT", "/v1/templates/reads", strings.NewReader(`{"spec":{"runtime":"python","source":"1"`+spec+`}}`)); a.status != http.StatusOK {
			t.Fatalf("set template: got %d %s", a.status, a.body)
		}
	}
	hook := func(body string) answer {
		return w.do(t, "PUT", made.Path, strings.NewReader(`{"template":"reads","sender":"github","body":"`+body+`"}`))
	}
	for spec, body := range map[string]string{
		`,"stdin":"mine"`: "stdin", `,"stdin_base64":"AAE="`: "stdin", `,"tests":[{"name":"1"}]`: "stdin", `,"files":[{"name":"a.json"}]`: "a.json",
	} {
		set(spec)
		if a := hook(body); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"body"`) {
			t.Errorf("%s: got %d %s, want body to be wrong", spec, a.status, a.body)
		}
	}
	set("")
	if a := hook("stdin"); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for _, body := range []string{"text", "\xff\x00bytes"} {
		spec := w.Start(t, started(t, w.github(t, made.Path, hookSecret, fmt.Sprint(len(body)), body)).JobID).Spec
		if got, err := spec.StdinBytes(); err != nil || string(got) != body {
			t.Errorf("got stdin %q, %v, want %q", got, err, body)
		}
	}
	// A template's only file is its program, with the body beside it, too.
	if a := w.do(t, "PUT", "/v1/templates/reads", strings.NewReader(`{"spec":{"runtime":"python","files":[{"name":"main.py","content":"1"}]}}`)); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	if a := hook("event.json"); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if spec := w.Start(t, started(t, w.github(t, made.Path, hookSecret, "file", "{}")).JobID).Spec; spec.Entrypoint != "main.py" || len(spec.Files) != 2 {
		t.Errorf("got the entrypoint %q of %d files, want main.py of two", spec.Entrypoint, len(spec.Files))
	}
	set("")
	if a := hook("stdin"); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	set(`,"stdin":"mine"`)
	if a := w.github(t, made.Path, hookSecret, "later", "other"); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"body"`) {
		t.Errorf("a later revision: got %d %s, want body to be wrong", a.status, a.body)
	}
}

// TestHookOfManyPointers: what a hook's pointers find is no larger than the parameters of a run may be,
// however often they find it, and is not made a job of first.
func TestHookOfManyPointers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`)
	var args, from []string
	for i := range job.MaxArgs {
		args = append(args, `{"from":"/params"}`)
		from = append(from, fmt.Sprintf(`"p%d":"/body/big"`, i))
	}
	if a := w.do(t, "PUT", "/v1/templates/many", strings.NewReader(`{"params":{"type":"object"},"spec":{"runtime":"python","source":"1","args":[`+strings.Join(args, ",")+`]}}`)); a.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "PUT", made.Path, strings.NewReader(`{"template":"many","sender":"github","from":{`+strings.Join(from, ",")+`}}`)); a.status != http.StatusOK {
		t.Fatalf("change hook: got %d %s", a.status, a.body)
	}
	for _, size := range []int{1000, 1_000_000} {
		a := w.github(t, made.Path, hookSecret, fmt.Sprint(size), `{"big":"`+strings.Repeat("<", size)+`"}`)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"params"`) {
			t.Errorf("%d bytes: got %d %.300s, want params to be too large", size, a.status, a.body)
		}
	}
	run := w.do(t, "POST", "/v1/templates/many/run", strings.NewReader(`{"params":{"big":"`+strings.Repeat("<", 60<<10)+`"}}`))
	if run.status != http.StatusUnprocessableEntity || !strings.Contains(string(run.body), `"field":"params"`) {
		t.Errorf("run: got %d %.300s, want params to be too large", run.status, run.body)
	}
	if got := jobs(t, w); got != 0 {
		t.Errorf("got %d jobs, want none", got)
	}
}

func (w *world) hookOf(t *testing.T, want int) {
	t.Helper()
	if a := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{"template":"report","sender":"github","from":{"ref":"/body/ref"}}`)); a.status != want {
		t.Fatalf("got %d %s, want %d", a.status, a.body, want)
	}
}
