package worker_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// secretKeys are new keys for secrets.
func secretKeys(t *testing.T) *secrets.Keys {
	t.Helper()
	keys, err := secrets.ParseKeys(secrets.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// store stores the secret, sealed for these keys.
func (g *glovebox) store(keys *secrets.Keys, name, value string) {
	g.t.Helper()
	sealed, err := keys.Public().Seal("default", name, []byte(value))
	if err == nil {
		_, err = secrets.NewStore(g.records.Redis()).Set(g.t.Context(), "default", name, sealed)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// TestSessionSecrets: a session's secrets are in the environment of all its executions, as they were when it began, and *** in what these print. No
// record and no log has them.
func TestSessionSecrets(t *testing.T) {
	t.Parallel()
	keys := secretKeys(t)
	g := start(t, func(c *worker.Config) { sessionWorker(c); c.Secrets = keys })
	const value = "correct-horse-battery-staple"
	g.store(keys, "TOKEN", value)
	for runtime, code := range map[string][3]string{
		"python": {"import os, sys, base64; t = os.environ['TOKEN']; print(t, len(t)); print(t, file=sys.stderr)", "os.kill(os.getpid(), 9)", "import os; print(len(os.environ['TOKEN']), os.environ['TOKEN'])"},
		"bash":   {"t=$TOKEN; echo \"$t ${#t}\"; echo \"$TOKEN\" >&2", "kill -9 $$", "echo ${#TOKEN} $(sh -c 'echo $TOKEN')"},
	} {
		id := g.openSession(job.SessionSettings{Runtime: runtime, Secrets: []string{"TOKEN"}, Limits: job.Limits{WallMS: 60_000}})
		if r := g.result(g.execute(id, code[0])); r.Status != job.Succeeded || r.Stdout != "*** 28\n" || r.Stderr != "***\n" {
			t.Errorf("%s: got %+v, want *** in its output", runtime, r)
		}
		if err := secrets.NewStore(g.records.Redis()).Delete(t.Context(), "default", "TOKEN"); err != nil {
			t.Fatal(err)
		}
		if r := g.result(g.execute(id, code[1])); r.Session.State != job.StateLost {
			t.Errorf("%s: got %+v, want its state lost", runtime, r)
		}
		if r := g.result(g.execute(id, code[2])); r.Status != job.Succeeded || r.Stdout != "28 ***\n" {
			t.Errorf("%s: got %+v, want the secret in the next interpreter", runtime, r)
		}
		g.store(keys, "TOKEN", value)
	}
	for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value))[:20]} {
		if strings.Contains(g.log.String(), form) {
			t.Errorf("the log has %q", form)
		}
		for _, root := range []string{g.redis.Dir, g.s3.Dir} {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				b, err := os.ReadFile(path)
				if strings.Contains(string(b), form) {
					t.Errorf("%s has %q", path, form)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSessionWithoutSecret: a session that can't have its secrets ends and says why; what waits for it is canceled.
func TestSessionWithoutSecret(t *testing.T) {
	t.Parallel()
	keys := secretKeys(t)
	g := start(t, func(c *worker.Config) { sessionWorker(c); c.Secrets = keys })
	g.store(secretKeys(t), "OTHER", "sealed-for-another")
	for name, because := range map[string]string{"GONE": "the secret GONE was deleted before it started", "OTHER": "its worker can't open one of its secrets"} {
		g.failsWithout(name, because)
	}
	bare := start(t, sessionWorker)
	bare.store(keys, "TOKEN", "nobody-has-the-key")
	bare.failsWithout("TOKEN", "its worker has no key for secrets")
}

func (g *glovebox) failsWithout(name, because string) {
	g.t.Helper()
	id := g.openSession(job.SessionSettings{Runtime: "python", Secrets: []string{name}})
	waits := job.NewID("default")
	err := g.records.AddTurn(g.t.Context(), id, waits, job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: "print(1)"}), record.NewTurn{})
	if err != nil && !errors.Is(err, job.ErrSessionEnded) {
		g.t.Fatal(err)
	}
	x := g.session(id, job.SessionEnded)
	if x.EndReason != job.EndFailed || !strings.Contains(x.EndedBecause, because) {
		g.t.Errorf("%s: got %s, %q; want failed, %q", name, x.EndReason, x.EndedBecause, because)
	}
	if err != nil { // it had ended before anything could wait
		return
	}
	if r := g.result(waits); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeSessionEnded {
		g.t.Errorf("%s: got %+v, want what waited canceled", name, r)
	}
}
