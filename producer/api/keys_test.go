package api_test

import (
	"net/http"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
)

// TestKeys lists no keys, then one, in the form that attest.ParseKeys reads.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a := w.do(t, "GET", "/v1/keys", http.NoBody); a.status != 200 || string(a.body) != "{\"keys\":[]}\n" {
		t.Errorf("got %d %s, want an empty list", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/keys", http.NoBody, "Authorization: "); a.status != 401 {
		t.Errorf("without a token: got %d, want 401", a.status)
	}
	s, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Worker.Fleet.PublishKey(t.Context(), s.Key()); err != nil {
		t.Fatal(err)
	}
	a := w.do(t, "GET", "/v1/keys", http.NoBody)
	keys, err := attest.ParseKeys(a.body)
	if err != nil || len(keys) != 1 || keys[0].ID != s.Key().ID || keys[0].NotBefore.IsZero() || keys[0].SeenAt.IsZero() {
		t.Errorf("got %d %s, %v", a.status, a.body, err)
	}
	listed, err := w.Client.Keys(t.Context())
	if err != nil || len(listed) != 1 || listed[0].ID != s.Key().ID {
		t.Errorf("the client: got %v, %v", listed, err)
	}
}
