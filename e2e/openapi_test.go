package e2e

import (
	"os/exec"
	"testing"
)

// TestGeneratedClient runs a job with a client that was generated from the OpenAPI
// document, which producer/api's tests compare with the one that is served.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	client := exec.CommandContext(t.Context(), binary(t, "openapi"))
	client.Env = []string{"GLOVEBOX_URL=" + g.url, "GLOVEBOX_TOKEN=" + g.token}
	said, err := client.CombinedOutput()
	if want := "succeeded made by a generated client\nmade.txt 3\n"; err != nil || string(said) != want {
		t.Errorf("got %q, %v, want %q", said, err, want)
	}
}
