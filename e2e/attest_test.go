package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// TestAttestation follows attested results to everybody who gets one, and a key through
// its rotation.
func TestAttestation(t *testing.T) {
	t.Parallel()
	older, newer := attest.NewSeed(), attest.NewSeed()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + older}})
	first := g.wait(g.submit(g.chart()))
	hooked := g.hook.messages(t, 1, patience)[0].Result
	// Too large for a record: its result is read from S3.
	large := g.wait(g.submit(job.Spec{Runtime: "bash", Source: "yes | head -c 200000; yes | head -c 200000 >&2"}))

	t.Log("a worker with another key takes over")
	g.worker.Stop()
	if strings.Contains(g.worker.Output(), older) {
		t.Error("the worker's log holds its signing key")
	}
	g.worker = g.startWorker("GLOVEBOX_SIGNING_KEY=" + newer)
	second := g.wait(g.submit(g.chart()))

	keys, err := g.client.Keys(t.Context())
	if err != nil || len(keys) != 2 || keys[0].ID != keyID(t, newer) || keys[1].ID != keyID(t, older) {
		t.Fatalf("got keys %v, %v, want both, the newer first", keys, err)
	}
	for name, c := range map[string]struct {
		result job.Result
		seed   string
	}{"GET": {first, older}, "the webhook": {hooked, older}, "from S3": {large, older}, "after the rotation": {second, newer}} {
		v, err := attest.Verify(c.result, keys)
		if err != nil || v.Key.ID != keyID(t, c.seed) {
			t.Errorf("%s: signed by %s, %v, want %s", name, v.Key.ID, err, keyID(t, c.seed))
		}
		c.result.Stdout += " "
		if _, err := attest.Verify(c.result, keys); !errors.Is(err, attest.ErrChanged) {
			t.Errorf("%s, changed: got %v, want %v", name, err, attest.ErrChanged)
		}
	}

	t.Log("the command line verifies it, with and without the API")
	files := t.TempDir()
	write := func(name string, v any) string {
		t.Helper()
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	result, keyFile := write("result.json", first), write("keys.json", attest.KeyList{Keys: keys})
	first.Worker = "another"
	changed := write("changed.json", first)
	for _, c := range []struct {
		args string
		env  []string
		want string
	}{
		{"verify --keys " + keyFile + " " + result, nil, "verified  " + first.ID},
		{"verify --keys " + keyFile + " " + changed, nil, "REJECTED  " + first.ID},
		{"verify " + result, []string{"GLOVEBOX_URL=" + g.url, "GLOVEBOX_TOKEN=" + g.token}, "verified  " + first.ID},
	} {
		command := exec.CommandContext(t.Context(), binary(t, "glovebox"), strings.Fields(c.args)...)
		command.Env, command.Dir = append(c.env, "HOME="+files), files
		if out, err := command.CombinedOutput(); !strings.HasPrefix(string(out), c.want) || (err == nil) != strings.HasPrefix(c.want, "verified") {
			t.Errorf("glovebox %s: got %q, %v, want %q", c.args, out, err, c.want)
		}
	}

	t.Log("what ended without a run is not attested")
	g.worker.Stop()
	id := g.submit(g.chart())
	if _, err := g.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := attest.Verify(g.wait(id), keys); !errors.Is(err, attest.ErrUnsigned) {
		t.Errorf("canceled in the queue: got %v, want %v", err, attest.ErrUnsigned)
	}
}

func keyID(t *testing.T, seed string) string {
	t.Helper()
	s, err := attest.NewSigner(seed)
	if err != nil {
		t.Fatal(err)
	}
	return s.Key().ID
}
