package podman_test

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestAsk: as many sandboxes wait as an operator asked for and the memory holds, and no longer than that holds.
func TestAsk(t *testing.T) {
	t.Parallel()
	p := warm(t, "ask", 1)
	most := 1000 / podman.IdleMB
	if room := p.RoomOf(suite.image); room != most-1 { // there is another image
		t.Errorf("there is room for %d, want %d", room, most-1)
	}
	ask := func(count int, until time.Time) {
		p.Ask([]sandbox.Ask{{Image: suite.image, Count: count, Since: time.Now(), Until: until}, {Image: "localhost/glovebox/no:such", Count: 9, Until: until}})
	}
	ask(3, time.Now().Add(time.Hour))
	awaitWarm(t, p, 3)
	if wanted := p.WantedOf(suite.image); wanted != 3 {
		t.Errorf("%d are wanted, want the 3 that were asked for", wanted)
	}
	if room := p.RoomOf(suite.image); room != most-1 {
		t.Errorf("there is room for %d, want %d as before", room, most-1)
	}
	for range 3 {
		if o, err := p.Run(t.Context(), programOf("print('ok')"), &kept{}); err != nil || !o.Warm {
			t.Fatalf("got %+v, %v, want a warm one", o, err)
		}
	}
	awaitWarm(t, p, 3)
	ask(1000, time.Now().Add(time.Hour))
	gbtest.Eventually(t, "all that there is room for is wanted", func() bool { return p.WantedOf(suite.image) == most-1 })
	ask(3, time.Now().Add(-time.Second)) // that is over
	gbtest.Eventually(t, "no more are wanted than programs came for", func() bool { return p.WantedOf(suite.image) < 3 })
	gbtest.Eventually(t, "those that are too many are gone", func() bool { return p.WarmOf(suite.image) < 3 })
}
