package worker_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// TestImageNotAllowed: a worker runs no image but its operator's, whatever the api let
// through.
func TestImageNotAllowed(t *testing.T) {
	t.Parallel()
	g := start(t, nil) // it allows none
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := set.Lookup("bash") // by its tag, an image that is there
	id := g.submit(job.Spec{Image: bash.Image(), Command: []string{"bash", "-c", "echo ran"}})
	g.says("no worker offers")
	if j := g.state(id, job.Queued); j.State != job.Queued || j.Attempts != 0 || !strings.Contains(g.log.String(), "wants="+bash.Image()) {
		t.Errorf("got %s, %d attempts; want it queued, and a worker that names the image", j.State, j.Attempts)
	}
	if images, err := g.records.Fleet.Images(t.Context()); err != nil || len(images) > 0 {
		t.Errorf("published: got %v, %v, want none", images, err)
	}
}
