package record

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestHold: while a backup is made nothing is deleted, and all of it after that.
func TestHold(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	id := job.NewID("acme")
	var uploads sync.Map
	w.DeleteUpload = func(_ context.Context, _, sum string) error { uploads.Store(sum, true); return nil }
	due := func() {
		t.Helper()
		past := float64(ms(time.Now().Add(-time.Minute)))
		if err := w.Records.rdb.ZAdd(t.Context(), garbageKey("acme"), redis.Z{Score: past, Member: id}, redis.Z{Score: past, Member: uploadPrefix + "ab"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func() (n int) {
		t.Helper()
		due()
		if err := w.sweepGarbage(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*sync.Map{deleted, &uploads} {
			m.Range(func(any, any) bool { n++; return true })
		}
		return n
	}
	hold, held, err := TakeHold(t.Context(), w.Records.rdb)
	if err != nil {
		t.Fatal(err)
	}
	if n := sweep(); n != 0 {
		t.Errorf("%d were deleted in spite of the hold", n)
	}
	if claimed := w.Records.rdb.HGet(t.Context(), "gb:{acme}:kept", uploadPrefix+"ab").Val(); claimed != "" {
		t.Errorf("the upload was claimed: %q", claimed)
	}
	if _, _, err := TakeHold(t.Context(), w.Records.rdb); err == nil {
		t.Error("a second hold: got no error")
	}
	if held.Err() != nil {
		t.Errorf("the hold is lost: %v", context.Cause(held))
	}
	if err := hold.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := sweep(); n != 2 {
		t.Errorf("after the hold %d were deleted, want 2", n)
	}
}

// TestHoldLost: one that lapsed is not good, and isn't the one that somebody took meanwhile.
func TestHoldLost(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	hold, _, err := TakeHold(t.Context(), w.Records.rdb)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Records.rdb.Set(t.Context(), backupKey, "another's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := hold.Release(t.Context()); !errors.Is(err, ErrHoldLost) {
		t.Errorf("got %v", err)
	}
	if got := w.Records.rdb.Get(t.Context(), backupKey).Val(); got != "another's" {
		t.Errorf("the other hold is %q", got)
	}
}

// TestHoldRenewed: a hold is kept for as long as it takes, and one that is lost ends the work under it.
func TestHoldRenewed(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	hold, held, err := TakeHold(t.Context(), w.Records.rdb)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Records.rdb.PExpire(t.Context(), backupKey, 50*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the hold is renewed", func() bool { return w.Records.rdb.PTTL(t.Context(), backupKey).Val() > 50*time.Second })
	if err := w.Records.rdb.Del(t.Context(), backupKey).Err(); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "what is done under the hold ends", func() bool { return errors.Is(context.Cause(held), ErrHoldLost) })
	if err := hold.Release(t.Context()); !errors.Is(err, ErrHoldLost) {
		t.Errorf("got %v", err)
	}
}
