package podman_test

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestAsk: as many sandboxes wait as an operator asked for and the memory holds, and no longer than that holds.
func TestAsk(t *testing.T) {
	t.Parallel()
	const most = 6
	p := warm(t, "ask", most)
	if room := p.RoomOf(suite.image); room != most {
		t.Errorf("there is room for %d, want %d", room, most)
	}
	ask := func(count int, until time.Time) {
		p.Ask([]sandbox.Ask{{Image: suite.image, Count: count, Since: time.Now(), Until: until}, {Image: "localhost/glovebox/no:such", Count: 9, Until: until}})
	}
	ask(3, time.Now().Add(time.Hour))
	awaitWarm(t, p, 3)
	if wanted := p.WantedOf(suite.image); wanted != 3 {
		t.Errorf("%d are wanted, want the 3 that were asked for", wanted)
	}
	if room := p.RoomOf(suite.image); room != most {
		t.Errorf("there is room for %d, want %d as before", room, most)
	}
	ask(1000, time.Now().Add(time.Hour))
	awaitWarm(t, p, most)
	ask(1000, time.Now().Add(-time.Second)) // that is over
	gbtest.Eventually(t, "one waits, as nobody came", func() bool { return p.WantedOf(suite.image) == 1 && p.WarmOf(suite.image) == 1 })
	ask(3, time.Now().Add(time.Hour))
	awaitWarm(t, p, 3)
	for range 3 {
		if o, err := p.Run(t.Context(), programOf("print('ok')"), &kept{}); err != nil || !o.Warm {
			t.Fatalf("got %+v, %v, want a warm one", o, err)
		}
	}
}
