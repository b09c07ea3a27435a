package attest

import (
	"errors"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestIsolationIsAttested: a result of less isolation is no result of gVisor, nor the other way round.
func TestIsolationIsAttested(t *testing.T) {
	t.Parallel()
	signer, err := NewSigner(NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for _, c := range []struct{ is, said job.Isolation }{{"", job.Process}, {job.Process, ""}, {job.Process, job.GVisor}} {
		r, run := sample()
		r.Runtime.Isolation = c.is
		if r.Attestation, err = signer.Attest(r, run); err != nil {
			t.Fatal(err)
		}
		v, err := Verify(r, []Key{signer.Key()})
		if err != nil {
			t.Fatal(err)
		}
		hashes[v.Statement.Predicate.EnvironmentHash] = true
		r.Runtime.Isolation = c.said
		if _, err := Verify(r, []Key{signer.Key()}); !errors.Is(err, ErrChanged) {
			t.Errorf("%q passed off as %q: got %v", c.is, c.said, err)
		}
	}
	if len(hashes) != 2 {
		t.Errorf("got %d environments, want 2", len(hashes))
	}
}
