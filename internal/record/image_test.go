package record

import (
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

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
