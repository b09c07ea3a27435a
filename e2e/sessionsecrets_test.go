package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/secrets"
)

// TestSessionSecrets: a session that has secrets, from a shell: what it prints is masked, what is kept of it has names only, is proven, and can be replayed.
func TestSessionSecrets(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SECRETS_KEY=" + secrets.NewKey(), "GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	const value = "correct-horse-battery-staple"
	if _, err := g.client.SetSecret(t.Context(), "PASSPHRASE", value); err != nil {
		t.Fatal(err)
	}
	glovebox := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), args...)
		cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("glovebox %v: %v, %s", args, err, out)
		}
		if strings.Contains(string(out), "correct-horse") {
			t.Errorf("glovebox %v shows the secret: %s", args, out)
		}
		return strings.TrimSpace(string(out))
	}
	id := glovebox("session", "start", "bash", "--secret", "PASSPHRASE", "--limit", "wall_ms=60000")
	if got := glovebox("session", "exec", id, `p=$PASSPHRASE; echo "${#p} $p"`); got != "28 ***" {
		t.Errorf("got %q, want the secret masked", got)
	}
	if got := glovebox("session", "exec", id, `echo "$p" | tee p.txt | wc -c; false || echo "$p"`); got != "29\n***" {
		t.Errorf("got %q, want the secret masked", got)
	}
	if got := glovebox("session", "show", id); !strings.Contains(got, `"PASSPHRASE"`) {
		t.Errorf("got %s, want its name", got)
	}
	transcript := filepath.Join(t.TempDir(), "transcript.jsonl")
	if err := os.WriteFile(transcript, []byte(glovebox("session", "transcript", id)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := glovebox("verify", "--session", transcript); !strings.HasPrefix(got, "verified  session "+id+"\n  1  ") || !strings.Contains(got, "\n  2  ") {
		t.Errorf("got %s, want two executions", got)
	}
	glovebox("session", "notebook", id)
	if got := glovebox("session", "replay", "--end", id); strings.Count(got, "  same") != 2 {
		t.Errorf("got %s, want that both are the same with the secret", got)
	}
	for what, log := range map[string]string{"the api's log": g.api.Output(), "the worker's log": g.worker.Output()} {
		if strings.Contains(log, "correct-horse") {
			t.Errorf("%s has the secret", what)
		}
	}
}
