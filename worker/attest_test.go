package worker_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// TestSessionAttested: each execution of a session is attested with the one before it, whatever became of that; one that was canceled before it began
// has no part in that.
func TestSessionAttested(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { sessionWorker(c); c.Signer = signer })
	settings := job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}, Env: map[string]string{"K": "v"}}
	id := g.openSession(settings)
	files := job.SessionExecution{Code: "print(open('b').read())", WallMS: 30_000, Files: []job.File{
		{Name: "b", Content: "text"}, {Name: "a", Artifact: job.NewID("default") + "/gone", Size: 1, SHA256: strings.Repeat("0", 64)},
	}}
	var results []job.Executed
	for _, e := range []job.SessionExecution{
		{Code: "x = 1; open('f', 'w').write('here')"}, {Code: "import os; os._exit(3)"}, files, {Code: "print('x' in globals())"}, {Code: "print(open('b').read())", Files: files.Files[:1]},
	} {
		execution := job.NewID("default")
		if err := g.records.AddTurn(t.Context(), id, execution, job.SessionSettings{Runtime: "python"}.Spec(e), record.NewTurn{}); err != nil {
			t.Fatal(err)
		}
		given := job.ExecutionInput{Code: e.Code, Files: e.Files, Env: settings.Env}
		results = append(results, job.Executed{Result: g.result(execution), Input: &given})
	}
	got, err := attest.VerifySession(results, []attest.Key{signer.Key()})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Executions) != 4 || len(got.Unattested) != 1 || got.Unattested[0] != results[2].ID || got.Session != id {
		t.Errorf("got %+v", got)
	}
	if x := g.session(id, job.SessionReady); x.Head != got.Head || x.Attested != 4 {
		t.Errorf("got head %s of %d in its record, want %s of 4", x.Head, x.Attested, got.Head)
	}
	last := got.Executions[3].Statement.Predicate
	at := job.ExecutionState{ID: id, Sequence: 5, Generation: 2}
	input := attest.NewExecutionInput(settings.Spec(job.SessionExecution{Code: "print(open('b').read())", Files: files.Files[:1]}), at, got.Executions[2].Statement.Subject[0].Digest.SHA256)
	if err := input.Begin("b", 4); err != nil {
		t.Fatal(err)
	}
	if _, err := input.Write([]byte("text")); err != nil {
		t.Fatal(err)
	}
	if sum, err := input.Sum(); err != nil || sum != last.InputHash {
		t.Errorf("input: got %s, want %s (%v)", last.InputHash, sum, err)
	}
	if last.Runtime.ImageDigest == "" || last.Runtime.OCIRuntime == "" || last.LimitsEnforced == "" || last.Limits.WallMS != 60_000 || results[1].Session.State != job.StateLost {
		t.Errorf("got %+v", last)
	}
	results[3].Stdout = "True\n"
	if _, err := attest.VerifySession(results, []attest.Key{signer.Key()}); !errors.Is(err, attest.ErrChanged) {
		t.Errorf("got %v, want %v", err, attest.ErrChanged)
	}
}

// TestAttestation runs jobs that end in different ways: the result of each verifies
// with the key that the worker published, and says which input it is of.
func TestAttestation(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { c.Signer = signer })
	for name, c := range map[string]struct {
		spec   job.Spec
		status job.Status
		stdout string // the whole of it, as it is attested
	}{
		"files and both streams": {job.Spec{Runtime: "bash", Source: "echo out; echo err >&2; echo x > a.txt; mkdir d; echo y > d/b.txt"}, job.Succeeded, "out\n"},
		"more than a result shows": {
			job.Spec{Runtime: "bash", Source: `head -c 100000 /dev/zero | tr '\0' a`}, job.Succeeded, strings.Repeat("a", 100_000),
		},
		"bytes that are no text": {job.Spec{Runtime: "bash", Source: `printf '\377'`}, job.Succeeded, "\xff"},
		"an exit code":           {job.Spec{Runtime: "bash", Source: "exit 3"}, job.Failed, ""},
		"a time-out":             {job.Spec{Runtime: "bash", Source: "sleep 60", Limits: job.Limits{WallMS: 1000}}, job.TimedOut, ""},
	} {
		c.spec = ample(c.spec) // as it is submitted
		r := g.result(g.submit(c.spec))
		if r.Status != c.status {
			t.Fatalf("%s: got %+v, want status %s", name, r, c.status)
		}
		keys, err := g.records.Fleet.Keys(t.Context()) // published before the first job
		if err != nil || len(keys) != 1 || keys[0].ID != signer.Key().ID {
			t.Fatalf("%s: published: got %v, %v, want %v", name, keys, err, signer)
		}
		v, err := attest.Verify(r, keys)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p := v.Statement.Predicate
		sum := sha256.Sum256([]byte(c.stdout))
		if p.Stdout.SHA256 != hex.EncodeToString(sum[:]) || p.Stdout.Size != int64(len(c.stdout)) {
			t.Errorf("%s: stdout: got %+v, want %d bytes with hash %x", name, p.Stdout, len(c.stdout), sum)
		}
		if input, err := attest.InputHash(c.spec); err != nil || p.InputHash != input {
			t.Errorf("%s: input: got %s, want %s (%v)", name, p.InputHash, input, err)
		}
		if p.Limits.WallMS == 0 || p.Limits.MemoryMB == 0 || p.Runtime.ImageDigest == "" || p.Runtime.OCIRuntime == "" || p.LimitsEnforced == "" {
			t.Errorf("%s: the environment is incomplete: %+v", name, p)
		}
		r.Status = job.Succeeded + "?"
		if _, err := attest.Verify(r, keys); err == nil {
			t.Errorf("%s: with another status it verifies", name)
		}
	}
}

func TestNoSigningKey(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "true"}))
	if r.Status != job.Succeeded || r.Attestation != nil {
		t.Errorf("got %+v, want a result without attestation", r)
	}
	if keys, err := g.records.Fleet.Keys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("keys: got %v, %v, want none", keys, err)
	}
}
