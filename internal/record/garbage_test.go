package record

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// A tenant that ends more jobs than a page in an interval gets back what they take of Redis
// as fast as the bucket allows.
func TestMoreGarbageThanAPage(t *testing.T) {
	t.Parallel()
	w, deleted := sweeping(t)
	const n = 2*page + 1
	entries := make([]redis.Z, n)
	for i := range entries {
		entries[i] = redis.Z{Score: float64(ms(time.Now().Add(-time.Minute))), Member: job.NewID("acme")}
	}
	if err := w.Records.rdb.ZAdd(t.Context(), garbageKey("acme"), entries...).Err(); err != nil {
		t.Fatal(err)
	}
	errs, err := w.sweepGarbageOf(t.Context(), []string{"acme"}, time.Now().Add(gbtest.Patience)) // not an interval: a busy machine needs more
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	done := 0
	deleted.Range(func(any, any) bool { done++; return true })
	if left := w.Records.rdb.ZCard(t.Context(), garbageKey("acme")).Val(); done != n || left != 0 {
		t.Errorf("a pass deleted the objects of %d jobs and left %d, want all %d", done, left, n)
	}
}
