package webhook_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/webhook"
)

// What our receivers use in JavaScript must agree with what we sign.
func TestNPMPackageAccepts(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "npm")
	dir := installNPM(t)

	oldSecret, newSecret, stranger := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	body := []byte(`{"type":"job.completed","data":{"stdout":"größe 図 \u0000"}}`)
	h, err := webhook.Sign([]webhook.Secret{newSecret, oldSecret}, "msg_1", time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	late, err := webhook.Sign([]webhook.Secret{newSecret}, "msg_1", time.Now().Add(-6*time.Minute), body)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(body, []byte("completed"), []byte("completee"), 1)
	otherID := h.Clone()
	otherID.Set(webhook.HeaderID, "msg_2")

	type attempt struct {
		Secret  string            `json:"secret"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	send := func(s webhook.Secret, h http.Header, body []byte) attempt {
		flat := map[string]string{}
		for name := range h {
			flat[name] = h.Get(name)
		}
		return attempt{s.Reveal(), flat, string(body)}
	}
	input, err := json.Marshal([]attempt{
		send(newSecret, h, body),
		send(oldSecret, h, body),
		send(newSecret, h, changed),
		send(stranger, h, body),
		send(newSecret, otherID, body),
		send(newSecret, late, body),
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "verify.cjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run verify.cjs: %v\n%s", err, out)
	}
	const refused = "WebhookVerificationError: No matching signature found"
	want := []string{"accepted", "accepted", refused, refused, refused, "WebhookVerificationError: Message timestamp too old"}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// installNPM returns a directory with testdata/npm and what its lock file names, which
// is installed once and found again by the lock file's hash.
func installNPM(t *testing.T) string {
	t.Helper()
	files := []string{"package.json", "package-lock.json", "verify.cjs"}
	sum := sha256.New()
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join("testdata/npm", name))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "glovebox-test", "npm-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	// Installed aside and renamed, so that a test that was killed leaves no half of it.
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-") //nolint:usetesting // renamed, so on the same file system
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS("testdata/npm")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, other := os.Stat(dir); other != nil { // nobody else was faster
			t.Fatal(err)
		}
	}
	return dir
}
