package record

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestUsage: of 1,000 jobs, many of them lost by a worker, ended twice at once, or canceled, the usage is the sum over
// their results, to the unit; and no spoiled count keeps a job from ending.
func TestUsage(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 2000)
	ctx := t.Context()
	prices := job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500}
	r := rand.New(rand.NewPCG(38, 1))
	var ids []string
	for n := range 1000 {
		id := s.mustCreate(t, "default", job.Normal)
		ids = append(ids, id)
		if n%7 == 0 {
			if _, err := s.Cancel(ctx, id, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		j := s.mustStart(t, id, 1)
		used := job.Usage{CPUMS: r.Int64N(5000), WallMS: r.Int64N(10_000)}
		end := func(j Record) error {
			nano := prices.Cost(used, 256)
			cost := job.NewCost(nano)
			b, err := job.Marshal(job.Result{ID: id, Usage: used, Cost: &cost})
			if err != nil {
				return err
			}
			return s.End(ctx, j, Ending{Status: job.Succeeded, Result: b, Metered: &Metered{CPUMS: used.CPUMS, MiBMS: 256 * used.WallMS, Nano: nano}})
		}
		if n%5 == 0 { // its worker is lost, and comes back with what it had
			if _, err := s.Requeue(ctx, id, 1, "w", CostAttempt, 0); err != nil {
				t.Fatal(err)
			}
			if err := end(j); !errors.Is(err, ErrStale) {
				t.Fatalf("an attempt that was lost: got %v, want ErrStale", err)
			}
			j = s.mustStart(t, id, 2)
			used.CPUMS++
		}
		var both sync.WaitGroup
		errs := make([]error, 2) // the answer to the first got lost, say
		for i := range errs {
			both.Go(func() { errs[i] = end(j) })
		}
		both.Wait()
		if errors.Is(errs[0], job.ErrEnded) == errors.Is(errs[1], job.ErrEnded) {
			t.Fatalf("ended twice: got %v", errs)
		}
	}
	var want job.UsageCounts
	nano := int64(0)
	for _, id := range ids {
		j, err := s.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		var result job.Result
		if err := json.Unmarshal(j.Result, &result); err != nil {
			t.Fatal(err)
		}
		if result.Cost == nil {
			continue
		}
		want.Jobs++
		want.CPUMS += result.Usage.CPUMS
		want.MemoryMiBMS += 256 * result.Usage.WallMS
		nano += result.Cost.Nano
	}
	want.Cost = job.NewCost(nano)
	now := time.Now().UTC().Truncate(day)
	got, err := s.Usage(ctx, "default", now.Add(-day), now)
	if err != nil || got.Total != want || len(got.Days) == 0 {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if other, err := s.Usage(ctx, "other", now.Add(-day), now); err != nil || other.Total.Jobs != 0 || len(other.Days) != 0 {
		t.Errorf("another tenant: got %+v, %v", other, err)
	}
	key := usageKey("default", time.Now())
	if life := s.rdb.PTTL(ctx, key).Val(); life < job.UsageLife-time.Hour || life > job.UsageLife {
		t.Errorf("the day is kept for %s", life)
	}
	for _, spoil := range []func() error{
		func() error { return s.rdb.HSet(ctx, key, "nano", math.MaxInt64, "cpu_ms", "x").Err() },
		func() error { s.rdb.Del(ctx, key); return s.rdb.Set(ctx, key, "x", 0).Err() },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		j := s.mustStart(t, s.mustCreate(t, "default", job.Normal), 1)
		if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte(`{}`), Metered: &Metered{1, 1, 1}}); err != nil {
			t.Errorf("a spoiled count: %v", err)
		}
	}
}
