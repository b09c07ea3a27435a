package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// ruled is an API whose operator has rules: "forbidden" in a program is refused, "careful" is held. Its tenant acme has tokens of an
// agent, that submits and reads, and of two people who approve.
type ruled struct {
	*world

	agent, reviewer, other string
	acme                   *direct.Client // as the sweeper has it
}

func newRuled(t *testing.T, own ...job.Rule) *ruled {
	t.Helper()
	operators, err := policy.Parse("policy", []job.Rule{
		{Name: "forbidden", When: "code.contains('forbidden')", Then: job.RuleDeny, Message: "not here"},
		{Name: "careful", When: "code.contains('careful')", Then: job.RuleHold, Message: "somebody has to look"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(c *apiConfig) { c.Client = c.Client.WithPolicy(operators) })
	w.Runtimes(t)
	w.tenant(t, "acme", job.Terms{Policy: own})
	r := &ruled{world: w, acme: w.Client.WithPolicy(operators).For("acme")}
	r.agent = w.token(t, producer.TokenRequest{Label: "agent", Scopes: []job.Scope{job.ScopeSubmit, job.ScopeRead}}).Secret
	r.reviewer = w.token(t, producer.TokenRequest{Label: "reviewer", Scopes: []job.Scope{job.ScopeApprove, job.ScopeSubmit}}).Secret
	r.other = w.token(t, producer.TokenRequest{Scopes: []job.Scope{job.ScopeApprove}}).Secret
	return r
}

// held submits a job that is held, with that token.
func (r *ruled) held(t *testing.T, token, source string) job.Summary {
	t.Helper()
	var j job.Summary
	r.expecting(t, "POST", "/v1/jobs", fmt.Sprintf(`{"runtime":"python","source":%q}`, source), http.StatusAccepted, &j, as(token))
	if j.Status != job.Held || j.Hold == nil || j.Hold.Rule != "careful" || j.Hold.Message != "somebody has to look" || len(j.Hold.InputHash) != 64 {
		t.Fatalf("got %+v, want it held", j)
	}
	return j
}

// decide sends a decision.
func (r *ruled) decide(t *testing.T, token, id, word, hash, note string) answer {
	t.Helper()
	return r.do(t, "POST", "/v1/approvals/"+id+"/"+word, strings.NewReader(fmt.Sprintf(`{"input_hash":%q,"note":%q}`, hash, note)), as(token))
}

func (r *ruled) refused(t *testing.T, a answer, status int, code string) {
	t.Helper()
	var p producer.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != status || p.Code() != code {
		t.Errorf("got %d %s, %v; want %d %s", a.status, a.body, err, status, code)
	}
}

// TestApprove: what was shown is approved, once, by somebody else, and is what a worker gets.
func TestApprove(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	j := r.held(t, r.agent, "careful()")
	var list producer.ApprovalList
	r.expecting(t, "GET", "/v1/approvals", "", http.StatusOK, &list, as(r.reviewer))
	if len(list.Approvals) != 1 || list.Approvals[0].ID != j.ID || list.Approvals[0].Spec != nil || list.Approvals[0].Hold.Rule != "careful" {
		t.Errorf("got %+v", list)
	}
	var p job.Pending
	r.expecting(t, "GET", "/v1/approvals/"+j.ID, "", http.StatusOK, &p, as(r.reviewer))
	if p.Spec == nil || p.Spec.Source != "careful()" || p.Hold.InputHash != j.Hold.InputHash {
		t.Errorf("got %+v", p)
	}
	for _, hash := range []string{"", "abc", strings.Repeat("z", 64)} {
		r.refused(t, r.decide(t, r.reviewer, j.ID, "approve", hash, ""), http.StatusUnprocessableEntity, job.CodeInvalid)
	}
	r.refused(t, r.decide(t, r.reviewer, j.ID, "approve", j.Hold.InputHash, strings.Repeat("n", 2000)), http.StatusUnprocessableEntity, job.CodeInvalid)
	r.refused(t, r.decide(t, r.reviewer, j.ID, "approve", strings.Repeat("0", 64), ""), http.StatusConflict, job.CodeOtherInput)
	r.refused(t, r.decide(t, r.agent, j.ID, "approve", j.Hold.InputHash, ""), http.StatusForbidden, job.CodeMissingScope)
	r.refused(t, r.decide(t, token, j.ID, "approve", j.Hold.InputHash, ""), http.StatusNotFound, job.CodeNotFound) // of another tenant
	own := r.held(t, r.reviewer, "careful(2)")
	for _, word := range []string{"approve", "reject"} {
		r.refused(t, r.decide(t, r.reviewer, own.ID, word, own.Hold.InputHash, ""), http.StatusForbidden, job.CodeForbidden)
	}
	// Its hash is another job's, too.
	r.refused(t, r.decide(t, r.other, j.ID, "approve", own.Hold.InputHash, ""), http.StatusConflict, job.CodeOtherInput)

	a := r.decide(t, r.reviewer, j.ID, "approve", j.Hold.InputHash, "looked at it")
	var decided job.Summary
	if err := json.Unmarshal(a.body, &decided); err != nil || a.status != http.StatusOK || decided.Status != job.Queued || decided.Hold != nil {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	r.refused(t, r.decide(t, r.other, j.ID, "approve", j.Hold.InputHash, ""), http.StatusConflict, job.CodeNotHeld)
	started := r.Start(t, j.ID)
	approval := started.Approval
	if started.Spec.Source != "careful()" || approval == nil || !strings.HasPrefix(approval.By, "reviewer (") || approval.Note != "looked at it" || approval.Rule != "careful" || approval.InputHash != j.Hold.InputHash {
		t.Errorf("got %+v, %+v", started, approval)
	}
	if err := started.CheckApproved([]byte(started.SpecText)); err != nil {
		t.Error(err)
	}

	// Rejected, with the reason for whoever submitted it.
	a = r.decide(t, r.other, own.ID, "reject", own.Hold.InputHash, "no")
	if err := json.Unmarshal(a.body, &decided); err != nil || a.status != http.StatusOK || decided.Status != job.Canceled {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	var result job.Result
	r.expecting(t, "GET", "/v1/jobs/"+own.ID, "", http.StatusOK, &result, as(r.agent))
	if result.Status != job.Canceled || result.Error == nil || result.Error.Code != job.CodeRejected || !strings.HasSuffix(result.Error.Message, ": no") {
		t.Errorf("got %+v, %+v", result, result.Error)
	}
	r.expecting(t, "GET", "/v1/approvals", "", http.StatusOK, &list, as(r.reviewer))
	if len(list.Approvals) != 0 {
		t.Errorf("got %+v, want none", list)
	}
}

// TestApproveLarge: a job of as much code as one may have is shown and approved.
func TestApproveLarge(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	var j job.Summary
	body := `{"runtime":"python","limits":{"source_kb":16384},"source":"careful()` + strings.Repeat(`\n`, 10<<20) + `"}` // 20 MiB as JSON
	r.expecting(t, "POST", "/v1/jobs", body, http.StatusAccepted, &j, as(r.agent))
	if j.Hold == nil {
		t.Fatalf("got %+v, want it held", j)
	}
	var p job.Pending
	r.expecting(t, "GET", "/v1/approvals/"+j.ID, "", http.StatusOK, &p, as(r.reviewer))
	if p.Spec == nil || len(p.Spec.Source) < 10<<20 {
		t.Error("got less than its code")
	}
	if a := r.decide(t, r.reviewer, j.ID, "approve", j.Hold.InputHash, ""); a.status != http.StatusOK {
		t.Errorf("got %d %s, want it approved", a.status, a.body)
	}
}

// TestApprovedInputChanged: what is changed in Redis or in the bucket after it was shown is not approved, and what is changed
// after it was approved is not what its approval says.
func TestApprovedInputChanged(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	const changed = `{"spec_version":1,"runtime":"python","source":"another()"}`
	large := strings.Repeat("#", 100<<10)
	small, kept := r.held(t, r.agent, "careful()"), r.held(t, r.agent, "careful()"+large)
	swap := func(id string) {
		t.Helper()
		text := []byte(changed)
		if id == small.ID {
			if err := r.Raw.HSet(t.Context(), "gb:{acme}:job:"+id, "spec", text).Err(); err != nil {
				t.Fatal(err)
			}
			return
		}
		keys, err := artifacts.JobKeys("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Objects.PutBytes(t.Context(), keys.Spec(), "application/json", text); err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range []job.Summary{small, kept} {
		swap(j.ID)
		var p job.Pending
		r.expecting(t, "GET", "/v1/approvals/"+j.ID, "", http.StatusOK, &p, as(r.reviewer))
		if p.Spec.Source != "another()" || p.Hold.InputHash == j.Hold.InputHash {
			t.Errorf("got %+v, want what would run, and its hash", p)
		}
		for _, hash := range []string{j.Hold.InputHash, p.Hold.InputHash} {
			r.refused(t, r.decide(t, r.reviewer, j.ID, "approve", hash, ""), http.StatusConflict, job.CodeOtherInput)
		}
		r.refused(t, r.decide(t, r.reviewer, j.ID, "reject", strings.Repeat("0", 64), ""), http.StatusConflict, job.CodeOtherInput)
	}
	for id, hash := range map[string]string{small.ID: small.Hold.InputHash, kept.ID: record.HashInput(kept.ID, []byte(changed))} { // as it was, and as it is
		if a := r.decide(t, r.reviewer, id, "reject", hash, ""); a.status != http.StatusOK {
			t.Errorf("reject: got %d %s", a.status, a.body)
		}
	}
	later := r.held(t, r.agent, "careful(3)")
	if a := r.decide(t, r.reviewer, later.ID, "approve", later.Hold.InputHash, ""); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	small = later
	swap(later.ID)
	if started := r.Start(t, later.ID); started.CheckApproved([]byte(started.SpecText)) == nil {
		t.Error("what was approved is not what would run, and nobody noticed")
	}
}

// TestRulesOfAllWays: whatever starts a job, rules judge it.
func TestRulesOfAllWays(t *testing.T) {
	t.Parallel()
	r := newRuled(t, job.Rule{Name: "agents", When: "token == 'agent' && kind == 'session'", Then: job.RuleDeny},
		job.Rule{Name: "no-bash", When: "runtime == 'bash'", Then: job.RuleDeny}, job.Rule{Name: "careful", When: "source == 'ours'", Then: job.RuleHold})
	for body, want := range map[string]string{
		`{"runtime":"python","source":"forbidden"}`:                                                              "the rule forbidden denies it: not here",
		`{"runtime":"python","entrypoint":"a.py","files":[{"name":"a.py","content":"forbidden"}]}`:               "the rule forbidden denies it: not here",
		`{"runtime":"python","entrypoint":"a.py","files":[{"name":"a.py","content_base64":"Zm9yYmlkZGVuCg=="}]}`: "the rule forbidden denies it: not here",
		`{"runtime":"bash","source":"1"}`:                                                                        "the rule no-bash denies it",
	} {
		var p producer.Problem
		r.expecting(t, "POST", "/v1/jobs", body, http.StatusForbidden, &p, as(r.agent))
		if p.Code() != job.CodeDenied || p.Detail != want {
			t.Errorf("%s: got %s %q", body, p.Code(), p.Detail)
		}
	}
	// A key names one job, whatever became of the rules: what was accepted is not judged again.
	var once, again job.Summary
	keyed := `{"runtime":"python","source":"careful","idempotency_key":"k"}`
	r.expecting(t, "POST", "/v1/jobs", keyed, http.StatusAccepted, &once, as(r.agent))
	r.expecting(t, "POST", "/v1/jobs", keyed, http.StatusAccepted, &again, as(r.agent))
	if once.ID != again.ID || again.Status != job.Held || again.Hold == nil || *again.Hold != *once.Hold {
		t.Errorf("got %+v, then %+v", once, again)
	}

	// A batch: one is denied, one held, one is queued.
	lines := `{"runtime":"python","source":"forbidden"}` + "\n" + `{"runtime":"python","source":"ours"}` + "\n" + `{"runtime":"python","source":"1"}`
	_, b, _ := r.batch(t, "application/x-ndjson", lines, as(r.agent))
	if b.Total != 3 || b.Rejected != 1 || len(b.Errors) != 1 || b.Errors[0].Index != 0 || b.Errors[0].Code != job.CodeDenied || !strings.Contains(b.Errors[0].Message, "the rule forbidden") {
		t.Errorf("got %+v", b)
	}
	item := job.ItemID(b.ID, 1)
	var p job.Pending
	r.expecting(t, "GET", "/v1/approvals/"+item, "", http.StatusOK, &p, as(r.reviewer))
	if p.Spec.Source != "ours" || p.Hold.Rule != "careful" {
		t.Errorf("got %+v", p)
	}
	if _, err := r.Worker.Start(t.Context(), item, 1, "w"); err == nil {
		t.Error("a worker starts what is held")
	}

	// A template, and a step of a pipeline.
	r.expecting(t, "PUT", "/v1/templates/bad", `{"spec":{"runtime":"python","source":"forbidden"}}`, http.StatusOK, nil, as(r.full(t)))
	r.expecting(t, "POST", "/v1/templates/bad/run", `{}`, http.StatusForbidden, nil, as(r.agent))
	var run job.Run
	r.expecting(t, "POST", "/v1/runs", `{"pipeline":{"steps":{"a":{"runtime":"python","source":"forbidden"},"b":{"runtime":"python","source":"careful"}}}}`, http.StatusAccepted, &run, as(r.agent))
	for range 2 {
		if err := r.acme.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	r.expecting(t, "GET", "/v1/runs/"+run.ID, "", http.StatusOK, &run, as(r.agent))
	if a := run.Steps["a"].Jobs; len(a) != 1 || a[0].Status != "refused" || !strings.Contains(a[0].Why, "the rule forbidden denies it") {
		t.Errorf("got %+v", run.Steps["a"])
	}

	// A step is its run's, and that is whose token began it.
	r.expecting(t, "POST", "/v1/runs", `{"pipeline":{"steps":{"b":{"runtime":"python","source":"careful"}}}}`, http.StatusAccepted, &run, as(r.reviewer))
	if err := r.acme.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, by := range []struct {
		token  string
		status int
	}{{r.reviewer, http.StatusForbidden}, {r.other, http.StatusOK}} {
		var list producer.ApprovalList
		r.expecting(t, "GET", "/v1/approvals", "", http.StatusOK, &list, as(r.other))
		for _, p := range list.Approvals {
			if p.Metadata[job.RunKey] != run.ID {
				continue
			}
			if a := r.decide(t, by.token, p.ID, "approve", p.Hold.InputHash, ""); a.status != by.status {
				t.Errorf("approve a step: got %d %s, want %d", a.status, a.body, by.status)
			}
		}
	}
	// A client that waits with the connection open is refused at once.
	r.expecting(t, "POST", "/v1/code-sandbox/execute", `{"language":"python","code":"careful"}`, http.StatusForbidden, nil, as(r.agent))

	// Sessions: their start, and each execution.
	r.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusForbidden, nil, as(r.agent))
	var x job.Session
	r.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","env":{"K":"v"}}`, http.StatusAccepted, &x, as(r.full(t)))
	r.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"forbidden"}`, http.StatusForbidden, nil, as(r.agent))
	var e job.Summary
	r.expecting(t, "POST", "/v1/sessions/"+x.ID+"/execute", `{"code":"careful"}`, http.StatusAccepted, &e, as(r.agent))
	p = job.Pending{}
	r.expecting(t, "GET", "/v1/approvals/"+e.ID, "", http.StatusOK, &p, as(r.reviewer))
	if e.Status != job.Held || p.Session != x.ID || p.Spec.Source != "careful" || p.Spec.Env["K"] != "v" {
		t.Errorf("got %+v, %+v", e, p)
	}

	// A tool: the model is told to wait, at once.
	var said struct {
		Content []struct{ Text string }
		JobID   string `json:"job_id"`
	}
	r.expecting(t, "POST", "/v1/tools/run_code", `{"arguments":{"language":"python","code":"careful"}}`, http.StatusOK, &said, as(r.agent))
	if len(said.Content) == 0 || !strings.Contains(said.Content[0].Text, "waits for a person: the rule careful holds it") {
		t.Errorf("got %+v", said)
	}
}

// TestWrongRules: rules that can't be read are never a tenant's, and if they are all the same, nothing is let through.
func TestWrongRules(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	a := r.admin(t, "PUT", "/tenants/acme", `{"revision":1,"terms":{"policy":[{"name":"a","when":"sauce == ''","then":"deny"}]}}`)
	if a.status != http.StatusUnprocessableEntity || !bytes.Contains(a.body, []byte("terms.policy[0].when")) || !bytes.Contains(a.body, []byte("undeclared reference to 'sauce'")) {
		t.Errorf("got %d %s", a.status, a.body)
	}
	terms := job.Terms{Policy: []job.Rule{{Name: "a", When: "sauce == ''", Then: job.RuleHold}}}
	if _, err := r.Records.SetTerms(t.Context(), "acme", 1, terms); err != nil { // as a later Glovebox might
		t.Fatal(err)
	}
	r.refused(t, r.submit(t, `{"runtime":"python","source":"1"}`, as(r.agent)), http.StatusForbidden, job.CodeDenied)
}

// full is a token that may do everything.
func (r *ruled) full(t *testing.T) string {
	t.Helper()
	return r.token(t, producer.TokenRequest{Label: "full"}).Secret
}
