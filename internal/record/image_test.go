package record

import (
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestImages: two workers allow different images, and one that nobody publishes any more
// is forgotten.
func TestImages(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	began := time.Now()
	publish := func(after time.Duration, images ...string) {
		t.Helper()
		s.now = func() time.Time { return began.Add(after) }
		if err := s.PublishImages(t.Context(), images); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(want ...string) {
		t.Helper()
		if got, err := s.Images(t.Context()); err != nil || !slices.Equal(got, want) {
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
	if n, err := s.rdb.HLen(t.Context(), imagesKey).Result(); err != nil || n != 1 {
		t.Errorf("got %d entries, %v, want the one that is listed", n, err)
	}
}

// TestImageOfARecord: a job without a runtime shows its image, however it ends.
func TestImageOfARecord(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, job.Spec{Image: "a@b", Command: []string{"c"}}, ""); err != nil {
		t.Fatal(err)
	}
	j, err := s.Get(t.Context(), id)
	if err != nil || j.Image != "a@b" || j.Runtime != "" || j.Spec == nil || j.Spec.Command[0] != "c" {
		t.Errorf("got %+v, %v", j, err)
	}
	if r := j.Failure(job.Canceled, nil, time.Now()); r.Runtime.Image != "a@b" {
		t.Errorf("got %+v, want the image", r.Runtime)
	}
}
