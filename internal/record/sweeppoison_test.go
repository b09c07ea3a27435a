package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestBeatThatCannotBeRead: it holds up nobody else's jobs, and costs its worker none.
func TestBeatThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	jobs := map[string]string{"odd": job.NewID("default"), "dead": job.NewID("default")}
	for worker, id := range jobs {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, id, 1, worker); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rdb.Set(ctx, workerKey("odd"), "no JSON", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.reap(ctx, "default"); err == nil {
			t.Error("that a beat can't be read is not told")
		}
		w.forward(lostAfter)
	}
	for worker, want := range map[string]int{"odd": 1, "dead": 2} {
		if j, err := s.Get(ctx, jobs[worker]); err != nil || j.Epoch != want {
			t.Errorf("the job of %s: got epoch %d, %v, want %d", worker, j.Epoch, err, want)
		}
	}
}

func TestPoisonedRecordHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	bad, good := job.NewID("default"), job.NewID("default")
	for _, id := range []string{bad, good} {
		if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.rdb.HSet(ctx, jobKey("default", bad), "epoch", "no number").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "default"); err == nil {
		t.Error("the failure is not told")
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{good + ".1"}) {
		t.Errorf("got tasks %v, want %s.1", got, good)
	}
}

// The same where it is no record at all.
func TestPoisonedEntryHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := job.NewID("default")
	if err := s.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.ZAdd(ctx, openKey("default"), redis.Z{Member: "poison"}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.Set(ctx, jobKey("default", "poison"), "no hash", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.Set(ctx, openKey("odd"), "no set", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "odd", "default"); err == nil || !strings.Contains(err.Error(), "poison") || !strings.Contains(err.Error(), "tenant odd") {
		t.Errorf("got %v, want both failures told", err)
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{id + ".1"}) {
		t.Errorf("got tasks %v, want %s.1", got, id)
	}
}
