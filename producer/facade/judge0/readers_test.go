package judge0

import (
	"context"
	"errors"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// One tenant's submissions that are slow to read leave places to the others.
func TestReadersOfOneTenant(t *testing.T) {
	t.Parallel()
	r := newReaders()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var dones []func()
	for range tenantReads {
		done, err := r.begin(t.Context(), "slow")
		if err != nil {
			t.Fatal(err)
		}
		dones = append(dones, done)
	}
	if _, err := r.begin(ended, "slow"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want no more places of one tenant than %d", err, tenantReads)
	}
	other, err := r.begin(t.Context(), "other")
	if err != nil {
		t.Fatalf("got %v, want a place of another tenant", err)
	}
	other()
	for _, done := range dones {
		done()
	}
	if len(r.tenants) != 0 || len(r.all) != 0 {
		t.Errorf("%d tenants and %d places are left", len(r.tenants), len(r.all))
	}
}

// Nothing is sent in another form of a submission that can't be read any more.
func TestMessageOfSubmissionThatIsGone(t *testing.T) {
	t.Parallel()
	r := job.Result{ID: job.NewID("default"), Metadata: map[string]string{languageKey: "71", pieceKey + "0": "!"}}
	if b, err := Message(t.Context(), &direct.Client{}, r); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %q, %v, want ErrNotFound", b, err)
	}
	delete(r.Metadata, pieceKey+"0")
	if b, err := Message(t.Context(), &direct.Client{}, r); b != nil || err != nil {
		t.Errorf("got %q, %v: metadata of a job's own make it no submission", b, err)
	}
}
