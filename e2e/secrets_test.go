package e2e

import (
	"encoding/base64"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// TestSecrets: a job has what it names, prints *** for it, and nothing else of the
// installation ever has it: neither Redis, nor the bucket, nor a log.
func TestSecrets(t *testing.T) {
	t.Parallel()
	key := secrets.NewKey()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SECRETS_KEY=" + key, "GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()}})
	const value = "correct-horse\nbattery-staple"
	if _, err := g.client.SetSecret(t.Context(), "PASSPHRASE", value); err != nil {
		t.Fatal(err)
	}
	// It prints it as a whole, in pieces that come apart, in base64, more than a result
	// holds, and its length.
	const source = `
printf '%s\n' "$PASSPHRASE"
printf 'correct-'; sleep 0.3; printf 'horse\n'
printf '%s' "$PASSPHRASE" | base64 >&2
for i in $(seq 1 2000); do echo "line $i: $PASSPHRASE, and what makes the line as long as a line of a log is"; done
echo "${#PASSPHRASE} bytes"; printf correct-h >&2`
	spec := job.Spec{Runtime: "bash", Source: source, Secrets: []string{"PASSPHRASE"}, Stream: true, Callback: &job.Callback{URL: g.hook.url}, Limits: job.Limits{WallMS: 120_000}}
	id := g.submit(spec)
	watched := g.watch(id)
	result := g.wait(id)
	watched.until(t, func() bool { return false })
	if !strings.HasPrefix(result.Stdout, "***\n***\nline 1: ***, and") || result.Stderr != "***==\n***" {
		t.Errorf("got %s %.100q and %q", result.Status, result.Stdout, result.Stderr)
	}
	whole, err := g.client.Open(t.Context(), id, "stdout")
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	b, err := io.ReadAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	all := string(b)
	if !strings.HasSuffix(all, "as long as a line of a log is\n28 bytes\n") || !strings.Contains(all, "line 2000: ***, and") || watched.stdout.String() != all {
		t.Errorf("got %d bytes that end %q, and %d of events", len(all), all[max(len(all)-40, 0):], watched.stdout.Len())
	}
	keys, err := g.client.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	statement, err := attest.Verify(result, keys)
	if err != nil {
		t.Fatalf("the attestation: %v", err)
	}
	if want, err := attest.InputHash(spec); err != nil || statement.Statement.Predicate.InputHash != want || statement.Statement.Predicate.Stdout.Size != int64(len(all)) {
		t.Errorf("attested: input %s, want %s; %d bytes of stdout, want %d (%v)", statement.Statement.Predicate.InputHash, want, statement.Statement.Predicate.Stdout.Size, len(all), err)
	}

	// One that is deleted before the job starts is the job's failure.
	g.worker.Stop()
	late := g.submit(job.Spec{Runtime: "bash", Source: "true", Secrets: []string{"PASSPHRASE"}})
	if err := g.client.DeleteSecret(t.Context(), "PASSPHRASE"); err != nil {
		t.Fatal(err)
	}
	g.worker.Restart()
	if r := g.wait(late); r.Status != job.Failed || r.Error == nil || r.Error.Code != "secret_missing" || !strings.Contains(r.Error.Message, "PASSPHRASE") {
		t.Errorf("got %s, %+v", r.Status, r.Error)
	}

	for _, form := range []string{"correct-horse", "battery-staple", base64.StdEncoding.EncodeToString([]byte(value))[:20], key} {
		for what, log := range map[string]string{"the api's log": g.api.Output(), "the worker's log": g.worker.Output()} {
			if strings.Contains(log, form) {
				t.Errorf("%s has %q", what, form)
			}
		}
		for _, root := range []string{g.s3.Dir, g.redis.Dir} {
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
