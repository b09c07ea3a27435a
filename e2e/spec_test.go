package e2e

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestLargeSpec sends a spec through S3 because it is too large for Redis, under an
// alias of its runtime.
func TestLargeSpec(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	spec := job.Spec{Runtime: "py", Source: "#" + strings.Repeat("x", 200_000) + "\nprint('hello')"}
	j, err := g.client.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if j.Runtime.Name != "python" {
		t.Errorf("got runtime %q, want the alias's python", j.Runtime.Name)
	}
	r := g.wait(j.ID)
	if r.Status != job.Succeeded || r.Stdout != "hello\n" {
		t.Errorf("got %+v", r)
	}
	g.nothingLeft(r) // spec.json is swept once the job has ended
}
