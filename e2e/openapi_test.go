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
	g.runs("openapi", "succeeded made by a generated client\nmade.txt 3\n", "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
}

// TestExample runs the example of both Go clients.
func TestExample(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	const want = "succeeded: hello\nsquares.csv (8 bytes):\n2,4\n3,9\n"
	g.runs("example", want, "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	g.runs("example", want, append(g.shared, "GLOVEBOX_REDIS_URL="+g.redis.API())...)
}

// runs runs a client that was built for the tests.
func (g *glovebox) runs(client, want string, env ...string) {
	g.tb.Helper()
	cmd := exec.CommandContext(g.tb.Context(), binary(g.tb, client))
	cmd.Env = env
	if said, err := cmd.CombinedOutput(); err != nil || string(said) != want {
		g.tb.Errorf("%s: got %q, %v, want %q", client, said, err, want)
	}
}
