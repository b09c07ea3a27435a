package e2e

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestPolicy: an agent's job waits until somebody else approves what it would run; then it runs, and its attestation says who did.
func TestPolicy(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	const text = `policy:
- {name: forbidden, when: "code.contains('forbidden')", then: deny, message: not here}
- {name: careful, when: "code.contains('careful') && token == 'agent'", then: hold, message: somebody has to look}
`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	admin := rand.Text()
	signer := attest.NewSeed()
	g := start(t, options{
		apiEnv:    []string{"GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_POLICY=" + rules},
		workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + signer},
	})
	client := func(token string) *producer.Client {
		t.Helper()
		c, err := producer.New(g.url, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	operator := client(admin)
	if _, err := operator.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	tokenOf := func(label string, scopes ...job.Scope) string {
		t.Helper()
		made, err := operator.AddToken(t.Context(), "default", producer.TokenRequest{Label: label, Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	as := func(token string) func(stdin string, args ...string) (string, int) {
		return func(stdin string, args ...string) (string, int) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
			cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+token)
			cmd.Stdin = strings.NewReader(stdin)
			out, err := cmd.CombinedOutput()
			if err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
		}
	}
	agent, reviewer := as(tokenOf("agent", job.ScopeSubmit, job.ScopeRead)), as(tokenOf("reviewer", job.ScopeApprove))
	if out, code := agent(`{"runtime": "python", "source": "careful = 1"}`, "policy", "test", rules, "-", "--token-label", "agent", "--expect", "hold"); code != 0 || !strings.Contains(out, "careful") {
		t.Errorf("policy test: got %d, %s", code, out)
	}
	if out, code := agent("forbidden()", "submit", "--runtime", "python", "-"); code != 1 || !strings.Contains(out, "the rule forbidden denies it: not here") {
		t.Errorf("denied: got %d, %s", code, out)
	}
	submitted := func(source string) (id, hash string) {
		t.Helper()
		out, code := agent(source, "submit", "--runtime", "python", "--limit", "wall_ms=60000", "-")
		id, _, _ = strings.Cut(out, "\n")
		if code != 0 || !strings.HasPrefix(id, "default-") {
			t.Fatalf("submit: got %d, %s", code, out)
		}
		shown, code := reviewer("", "approvals", "show", id)
		_, hash, found := strings.Cut(shown, "--input-hash ")
		if code != 0 || !found || !strings.Contains(shown, "    "+source) || !strings.Contains(shown, "somebody has to look") {
			t.Fatalf("show: got %d, %s", code, shown)
		}
		return id, hash
	}
	id, hash := submitted("careful = 41; print(careful + 1)")
	if out, code := agent("", "approvals", "approve", id, "--input-hash", hash); code == 0 || !strings.Contains(out, "scope approve") {
		t.Errorf("the agent approves: got %d, %s", code, out)
	}
	if out, code := reviewer("", "approvals", "approve", id, "--input-hash", strings.Repeat("0", 64)); code != 1 || !strings.Contains(out, "look at it again") {
		t.Errorf("another hash: got %d, %s", code, out)
	}
	if out, code := reviewer("", "approvals", "list"); code != 0 || !strings.Contains(out, id) {
		t.Errorf("list: got %d, %s", code, out)
	}
	if out, code := reviewer("", "approvals", "approve", id, "--input-hash", hash, "--note", "fine"); code != 0 || out != "queued" {
		t.Fatalf("approve: got %d, %s", code, out)
	}
	r := g.wait(id)
	if r.Status != job.Succeeded || r.Stdout != "42\n" || r.Approval == nil || !strings.HasPrefix(r.Approval.By, "reviewer (") || r.Approval.Note != "fine" || r.Approval.InputHash != hash {
		t.Fatalf("got %+v, %+v", r, r.Approval)
	}
	key, err := attest.NewSigner(signer)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := attest.Verify(r, []attest.Key{key.Key()}); err != nil || *v.Statement.Predicate.Approval != *r.Approval {
		t.Errorf("attestation: got %+v, %v", v.Statement.Predicate.Approval, err)
	}
	forged := r
	forged.Approval = &job.Approval{By: "the boss"}
	if _, err := attest.Verify(forged, []attest.Key{key.Key()}); err == nil {
		t.Error("a forged approval verifies")
	}

	id, hash = submitted("careful = 0")
	if out, code := reviewer("", "approvals", "reject", id, "--input-hash", hash, "--note", "too careful"); code != 0 || out != "canceled" {
		t.Fatalf("reject: got %d, %s", code, out)
	}
	if r := g.wait(id); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeRejected || !strings.HasSuffix(r.Error.Message, ": too careful") {
		t.Errorf("got %+v, %+v", r, r.Error)
	}

	// An execution that is held holds those after it; its session goes on.
	session, code := agent("", "session", "start", "python", "--limit", "wall_ms=60000")
	if code != 0 {
		t.Fatalf("session: got %s", session)
	}
	session, _, _ = strings.Cut(session, "\n")
	x := client(tokenOf("agent", job.ScopeSubmit, job.ScopeRead))
	held, err := x.ExecuteInSession(t.Context(), session, job.SessionExecution{Code: "careful = 2"})
	if err != nil || held.Status != job.Held {
		t.Fatalf("got %+v, %v", held, err)
	}
	next, err := x.ExecuteInSession(t.Context(), session, job.SessionExecution{Code: "print('care' + 'ful' in globals(), locals()['care' + 'ful'])"})
	if err != nil {
		t.Fatal(err)
	}
	if out, code := reviewer("", "approvals", "approve", held.ID, "--input-hash", held.Hold.InputHash); code != 0 {
		t.Fatalf("approve: got %d, %s", code, out)
	}
	if r := g.wait(next.ID); r.Stdout != "True 2\n" || r.Session.Sequence != 2 {
		t.Errorf("got %+v", r)
	}
	if r := g.wait(held.ID); r.Status != job.Succeeded || r.Approval == nil {
		t.Errorf("got %+v", r)
	}
}
