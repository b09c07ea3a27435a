package record

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// TestExecutionKeepsInput: what a session has executed is kept with what came of it, and counted, until it is purged. What never began is not.
func TestExecutionKeepsInput(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.worker.mustClaim(t, x.ID)
	before := r.api.rdb.Get(ctx, recordedKey("acme")).Val()
	code := strings.Repeat("x = 1\n", 500)
	small, large, canceled := r.api.execute(t, x.ID, code), r.api.execute(t, x.ID, code), r.api.execute(t, x.ID, code)
	if _, err := r.api.Cancel(ctx, canceled, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	r.worker.take(t, x.ID, "", small)
	r.worker.endTurn1(t, small)
	j := r.worker.take(t, x.ID, small, large)
	if err := r.worker.End(ctx, j, Ending{Status: job.Succeeded, ResultRef: "r", InputRef: "i"}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]struct {
		code, ref string
		least     int64
	}{small: {code, "", int64(len(code))}, large: {"", "i", 0}, canceled: {"", "", 0}} {
		j, err := r.api.Get(ctx, id)
		if err != nil || !j.State.Final() {
			t.Fatalf("got %+v, %v", j, err)
		}
		got := ""
		if j.Spec != nil {
			got = j.Spec.Source
		}
		if got != want.code || j.InputRef != want.ref {
			t.Errorf("got %d bytes of code and ref %q, want %d and %q", len(got), j.InputRef, len(want.code), want.ref)
		}
		charge, err := r.api.rdb.HGet(ctx, jobKey("acme", id), "charge").Int64()
		if err != nil {
			t.Fatal(err)
		}
		kept := strings.Fields(r.api.rdb.HGet(ctx, script.Key("acme", "kept"), id).Val())
		if len(kept) != 3 || len(kept[2]) == 0 {
			t.Fatalf("got %q", kept)
		}
		if counted := number(kept[2]); (counted > charge-jobCost/2) != (want.least > 0) {
			t.Errorf("%d bytes count of %d, want the code's among them: %t", counted, charge, want.least > 0)
		}
		if err := r.api.Purge(ctx, id); err != nil {
			t.Fatal(err)
		}
		if err := r.api.Purged(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if after := r.api.rdb.Get(ctx, recordedKey("acme")).Val(); after != before {
		t.Errorf("%s bytes are counted once all is purged, want %s", after, before)
	}
}
