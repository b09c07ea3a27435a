package fleet

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// TestImages: two workers allow different images, and one that nobody publishes any more
// is forgotten.
func TestImages(t *testing.T) {
	t.Parallel()
	f := open(t, time.Hour)
	began := time.Now()
	publish := func(after time.Duration, images ...string) {
		t.Helper()
		f.now = func() time.Time { return began.Add(after) }
		if err := f.PublishImages(t.Context(), images); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(want ...string) {
		t.Helper()
		if got, err := f.Images(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	lists()
	publish(0)
	lists()
	publish(0, "b", "a")
	publish(time.Hour, "c", "b")
	lists("a", "b", "c")
	publish(runtimeTTL) // by a worker that has none
	lists("b", "c")
	publish(runtimeTTL+time.Hour, "c")
	lists("c")
	if n, err := f.rdb.HLen(t.Context(), imagesKey).Result(); err != nil || n != 1 {
		t.Errorf("got %d entries, %v, want the one that is listed", n, err)
	}
}

// open returns a fleet without workers.
func open(t *testing.T, retention time.Duration) *Fleet {
	t.Helper()
	rdb, err := redisconn.Open(t.Context(), gbtest.Redis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return New(rdb, retention, time.Now, slog.New(slog.DiscardHandler))
}
