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
	if got := jobs(t, w); got != 1 {
		t.Errorf("got %d jobs, want the first alone", got)
	}
}

// deliveries are those that the hook shows.
func deliveries(t *testing.T, w *world, path string) []job.HookDelivery {
	t.Helper()
	var list producer.HookDeliveryList
	if err := json.Unmarshal(w.do(t, "GET", path+"/deliveries", http.NoBody).body, &list); err != nil {
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

// TestHookRefuses: what is not the sender's starts nothing, and tells a stranger nothing.
func TestHookRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`)
	const body = `{"ref":"main"}`
	expect := func(what string, want int, a answer) {
		t.Helper()
		if a.status != want || strings.Contains(string(a.body), hookSecret) {
			t.Errorf("%s: got %d %s, want %d", what, a.status, a.body, want)
		}
	}
	none := w.github(t, "/v1/hooks/"+job.NewHookID("default"), hookSecret, "d", body)
	expect("no such hook", http.StatusNotFound, none)
	expect("no such tenant", http.StatusNotFound, w.github(t, "/v1/hooks/"+job.NewHookID("nobody"), hookSecret, "d", body))
	expect("no hook's id", http.StatusNotFound, w.github(t, "/v1/hooks/x", hookSecret, "d", body))
	expect("another secret", http.StatusUnauthorized, w.github(t, made.Path, "another secret", "d", body))
	expect("no signature", http.StatusUnauthorized, w.do(t, "POST", made.Path, strings.NewReader(body)))
	expect("a token in its place", http.StatusUnauthorized, w.do(t, "POST", made.Path, strings.NewReader(body), "Authorization: Bearer "+token))
	expect("a large body", http.StatusRequestEntityTooLarge, w.github(t, made.Path, hookSecret, "d", strings.Repeat("x", 25<<20)))
	expect("no JSON", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", "no JSON"))
	expect("no ref", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", "{}"))
	expect("a long ref", http.StatusUnprocessableEntity, w.github(t, made.Path, hookSecret, "d", `{"ref":"`+strings.Repeat("x", 51)+`"}`))
	if a := w.github(t, made.Path, hookSecret, "d", `{"zen":1}`, "X-GitHub-Event: ping"); a.status != http.StatusOK || string(a.body) != "pong\n" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a ping: got %d %s %v", a.status, a.body, a.header)
	}

	// Paused, it is as if it were not there.
	change := func(settings string) {
		t.Helper()
		if a := w.do(t, "PUT", made.Path, strings.NewReader(settings)); a.status != http.StatusOK {
			t.Fatalf("change hook: got %d %s", a.status, a.body)
		}
	}
	change(`{"template":"report","sender":"github","paused":true}`)
	paused := w.github(t, made.Path, hookSecret, "d", body)
	expect("paused", http.StatusNotFound, paused)
	if string(paused.body) != string(none.body) {
		t.Errorf("paused: got %s, want %s", paused.body, none.body)
	}
	change(`{"template":"report","sender":"github","from":{"ref":"/body/ref","event":"/headers/x-github-event"}}`)
	if got := jobs(t, w); got != 0 {
		t.Fatalf("got %d jobs, want none", got)
	}

	// A secret that is rotated out starts nothing.
	if a := w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the second secret"}`)); a.status != http.StatusOK {
		t.Fatalf("rotate: got %d %s", a.status, a.body)
	}
	started(t, w.github(t, made.Path, hookSecret, "old", `{"ref":"old"}`))
	started(t, w.github(t, made.Path, "the second secret", "new", `{"ref":"new"}`))
	expect("a third secret", http.StatusConflict, w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the third secret"}`)))
	if a := w.do(t, "POST", made.Path+"/rotate", strings.NewReader(`{"secret":"the third secret","expire_seconds":0}`)); a.status != http.StatusOK {
		t.Fatalf("rotate: got %d %s", a.status, a.body)
	}
	expect("an expired secret", http.StatusUnauthorized, w.github(t, made.Path, hookSecret, "old2", `{"ref":"old2"}`))
	expect("an expired secret", http.StatusUnauthorized, w.github(t, made.Path, "the second secret", "new2", `{"ref":"new2"}`))

	outcomes := map[string]int{}
	for _, d := range deliveries(t, w, made.Path) {
		outcomes[d.Outcome]++
		if d.Outcome == job.DeliveryRefused && d.Reason == "" {
			t.Errorf("no reason: %+v", d)
		}
	}
	if fmt.Sprint(outcomes) != "map[refused:3 started:2]" || jobs(t, w) != 2 {
		t.Errorf("got %v, %d jobs", outcomes, jobs(t, w))
	}
	for key := range w.Raw.HGetAll(t.Context(), "gb:{default}:hooks").Val() {
		if stored := w.Raw.HGet(t.Context(), "gb:{default}:hooks", key).Val(); strings.Contains(stored, "third secret") {
			t.Errorf("Redis has a secret: %s", stored)
		}
	}
	if strings.Contains(w.log.String(), "secret of github") || strings.Contains(w.log.String(), "third secret") {
		t.Error("the log has a secret")
	}
	if a := w.do(t, "DELETE", made.Path, http.NoBody); a.status != http.StatusNoContent {
		t.Errorf("delete: got %d %s", a.status, a.body)
	}
	expect("deleted", http.StatusNotFound, w.github(t, made.Path, "the third secret", "d", body))
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

// TestHookComesBack: where there is no room the sender is told to come back, and then its job is
// made; also if an api died before it had made it.
func TestHookComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	owner, _ := w.tenant(t, "owner", job.Terms{Quotas: job.Quotas{JobsQueued: 1}})
	auth := "Authorization: Bearer " + owner
	made := w.hook(t, `"sender":"github","secret":"`+hookSecret+`"`, auth)
	first := started(t, w.github(t, made.Path, hookSecret, "d1", `{"ref":"1"}`)).JobID
	full := w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)
	if full.status != http.StatusServiceUnavailable || full.header.Get("Retry-After") == "" {
		t.Fatalf("no room: got %d %s %v, want 503", full.status, full.body, full.header)
	}
	w.Start(t, first)
	if again := started(t, w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)); again.Duplicate || again.JobID == first {
		t.Errorf("it comes again: got %+v", again)
	}
	if again := started(t, w.github(t, made.Path, hookSecret, "d2", `{"ref":"2"}`)); !again.Duplicate {
		t.Errorf("and once more: got %+v", again)
	}
	if got := jobs(t, w, auth); got != 2 {
		t.Errorf("got %d jobs, want 2", got)
	}

	terms := w.do(t, "GET", "/v1/admin/tenants/owner", http.NoBody, "Authorization: Bearer "+adminToken)
	var tenant job.Tenant
	if err := json.Unmarshal(terms.body, &tenant); err != nil {
		t.Fatal(err)
	}
	if a := w.do(t, "PUT", "/v1/admin/tenants/owner", strings.NewReader(fmt.Sprintf(`{"revision":%d,"terms":{"disabled":true}}`, tenant.Revision)), "Authorization: Bearer "+adminToken); a.status != http.StatusOK {
		t.Fatalf("disable: got %d %s", a.status, a.body)
	}
	if a := w.github(t, made.Path, hookSecret, "d3", `{"ref":"3"}`); a.status != http.StatusNotFound {
		t.Errorf("of a disabled tenant: got %d %s, want 404", a.status, a.body)
	}
}

// TestHookSettings: what a hook can't be is said when it is made.
func TestHookSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	made := w.hook(t, `"sender":"standard-webhooks"`)
	if !strings.HasPrefix(made.Secret, "whsec_") {
		t.Errorf("got secret %q, want one that is made", made.Secret)
	}
	for want, settings := range map[string]string{
		"template":          `{"template":"none","sender":"github"}`,
		"sender":            `{"template":"report","sender":"myspace"}`,
		"secret":            `{"template":"report","sender":"stripe"}`,
		`"field":"secret"`:  `{"template":"report","sender":"github","secret":"short"}`,
		"64 hex digits":     `{"template":"report","sender":"discord","secret":"not a public key"}`,
		"whsec_":            `{"template":"report","sender":"standard-webhooks","secret":"not of that form"}`,
		"scheme":            `{"template":"report","sender":"hmac","secret":"12345678"}`,
		"scheme.content":    `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"nothing"}}`,
		"scheme.timestamp":  `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"{body}","timestamp":"X-T"}}`,
		"scheme.id":         `{"template":"report","sender":"hmac","secret":"12345678","scheme":{"signature":"X","encoding":"hex","content":"{id}{body}"}}`,
		`"field":"answer"`:  `{"template":"report","sender":"github","answer":"whenever"}`,
		"answer_seconds":    `{"template":"report","sender":"github","answer":"result","answer_seconds":61}`,
		"content_type":      `{"template":"report","sender":"github","answer":"result","content_type":"text/html"}`,
		"with answer":       `{"template":"report","sender":"github","content_type":"application/json"}`,
		"from.ref":          `{"template":"report","sender":"github","from":{"ref":"/secret"}}`,
		`"field":"body"`:    `{"template":"report","sender":"github","body":"../x"}`,
		`"field":"url"`:     `{"template":"report","sender":"github","url":"https://x"}`,
		"not a known field": `{"template":"report","sender":"github","more":1}`,
	} {
		if a := w.do(t, "POST", "/v1/hooks", strings.NewReader(settings)); a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: got %d %s, want %s to be wrong", settings, a.status, a.body, want)
		}
	}
	if a := w.do(t, "PUT", made.Path, strings.NewReader(`{"template":"report","sender":"github"}`)); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another sender: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "OPTIONS", made.Path, http.NoBody, "WebHook-Request-Origin: events.example"); a.status != http.StatusOK || a.header.Get("WebHook-Allowed-Origin") != "events.example" {
		t.Errorf("CloudEvents' handshake: got %d %v", a.status, a.header)
	}
	for i := 1; i < job.MaxHooks; i++ {
		w.hookOf(t, http.StatusCreated)
	}
	w.hookOf(t, http.StatusConflict)
}

func (w *world) hookOf(t *testing.T, want int) {
	t.Helper()
	if a := w.do(t, "POST", "/v1/hooks", strings.NewReader(`{"template":"report","sender":"github"}`)); a.status != want {
		t.Fatalf("got %d %s, want %d", a.status, a.body, want)
	}
}
