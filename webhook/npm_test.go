package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
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
	dir := gbtest.NPM(t, "testdata/npm")

	oldSecret, newSecret, stranger := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	body := []byte(`{"type":"job.completed","data":{"stdout":"größe 図 \u0000"}}`)
	// As Glovebox signs during a rotation: v1 by both, and v1a, which the package doesn't know.
	asymmetric := privateKey(t, vectorPrivateKey)
	h, err := webhook.Sign([]webhook.Signer{newSecret, oldSecret, asymmetric}, "msg_1", time.Now(), body)
	if err != nil {
		t.Fatal(err)
	}
	late, err := webhook.Sign([]webhook.Signer{newSecret, asymmetric}, "msg_1", time.Now().Add(-6*time.Minute), body)
	if err != nil {
		t.Fatal(err)
	}
	only, err := webhook.Sign([]webhook.Signer{asymmetric}, "msg_1", time.Now(), body)
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
		send(newSecret, only, body),
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
	want := []string{"accepted", "accepted", refused, refused, refused, "WebhookVerificationError: Message timestamp too old", refused}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}
