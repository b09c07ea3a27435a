package record

import (
	"errors"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// A key names what it began for 24 hours, though that is kept for an hour.
func TestKeysOutliveWhatTheyBegan(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{Retention: time.Hour}), t.Context()
	n := NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "python"}, Key: "k", RequestHash: HashRequest([]byte("this"))}
	if made, err := s.CreateMany(ctx, "default", []NewJob{n}); err != nil || made[0].Err != nil {
		t.Fatal(made, err)
	}
	if _, err := s.Cancel(ctx, n.ID, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	b := s.rejected(t, "batch", 1, "no")
	for _, k := range []string{jobKey("default", n.ID), batchKey("default", b.ID)} {
		if life := s.rdb.PTTL(ctx, k).Val(); life <= 0 || life > s.retention {
			t.Errorf("%s lives %s, want it to expire", k, life)
		}
		if err := s.rdb.Del(ctx, k).Err(); err != nil { // it expires
			t.Fatal(err)
		}
	}
	var gone *job.GoneError
	if _, err := s.FindByKey(ctx, "default", "k", n.RequestHash); !errors.As(err, &gone) || gone.ID != n.ID {
		t.Errorf("asked: got %v, want that %s is gone", err, n.ID)
	}
	again := n
	again.ID = job.NewID("default")
	if made, err := s.CreateMany(ctx, "default", []NewJob{again}); err != nil || !errors.As(made[0].Err, &gone) || gone.ID != n.ID {
		t.Errorf("created: got %+v, %v, want that %s is gone", made, err, n.ID)
	}
	again.RequestHash = HashRequest([]byte("that"))
	if made, err := s.CreateMany(ctx, "default", []NewJob{again}); err != nil || !errors.Is(made[0].Err, job.ErrConflict) {
		t.Errorf("another job: got %+v, %v, want job.ErrConflict", made, err)
	}
	if _, _, err := s.OpenBatch(ctx, "default", job.BatchOptions{IdempotencyKey: "batch"}); !errors.As(err, &gone) || gone.ID != b.ID {
		t.Errorf("batch: got %v, want that %s is gone", err, b.ID)
	}
	if _, err := s.Get(ctx, again.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want that nothing was made", err)
	}
	// Both keys count, and no longer once their time is over.
	if n := s.recorded(t); n < 2*keyCost {
		t.Errorf("%d bytes are recorded, want those of two keys", n)
	}
	w, _ := sweepingOver(s)
	w.forward(keyLife + time.Minute)
	if err := w.sweepGarbage(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if n := s.recorded(t); n != 0 {
		t.Errorf("%d bytes are recorded a day later, want none", n)
	}
}
