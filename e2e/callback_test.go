package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestCallbackAddress: the api knows at submit what its deliverer never dials, and what its
// operator lets it dial.
func TestCallbackAddress(t *testing.T) {
	t.Parallel()
	g := start(t, options{}) // whose operator allows 127.0.0.0/8
	spec := job.Spec{Runtime: "bash", Source: "echo hello", Callback: &job.Callback{URL: "http://10.0.0.1/"}}
	var invalid job.Invalid
	_, err := g.client.Submit(t.Context(), spec)
	if !errors.As(err, &invalid) || invalid[0].Field != "callback.url" || !strings.Contains(invalid[0].Message, "10.0.0.1 is not allowed") {
		t.Errorf("got %v, want the field that is wrong", err)
	}
	spec.Callback.URL = strings.Replace(g.hook.url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	id := g.submit(spec)
	if m := g.hook.messages(t, 1, patience); m[0].Result.ID != id {
		t.Errorf("got a message of %s, want %s", m[0].Result.ID, id)
	}
}
