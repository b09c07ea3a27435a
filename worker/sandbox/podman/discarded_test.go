package podman_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestDiscardedPreload: a program that can't be the preloaded process has all of its own memory, though gVisor gives back what that
// process held some time after its end.
func TestDiscardedPreload(t *testing.T) {
	t.Parallel()
	p := preloaded(t, fromSnapshots+"discarded", 1)
	for range 4 {
		gbtest.Eventually(t, "a sandbox waits", func() bool { return (*podman.Sandboxes).CurrentOf(p, suite.image) > 0 })
		small := bash("for i in {1..50}; do sleep 0.01; done; echo ok", limits(job.Limits{MemoryMB: 32}))
		small.Image = suite.image
		out := &kept{}
		o, err := p.Run(t.Context(), small, out)
		if err != nil || o.Status != job.Succeeded || out.stdout.String() != "ok\n" || o.Snapshot == "" || o.Preloaded {
			t.Errorf("got %+v, %v, %q", o, err, out.stdout.String())
		}
	}
}
