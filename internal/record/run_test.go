package record

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// newRun begins a run that may take an hour.
func (s *Store) newRun(t *testing.T) Run {
	t.Helper()
	r, err := s.OpenRun(t.Context(), "default", NewRun{
		Pipeline: []byte(`{"steps":{}}`), Params: []byte(`{}`), Callback: "https://example.com/hook", Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stepJob(r Run, step string, index, try int) NewJob {
	return NewJob{
		ID: job.StepJobID(r.ID, step, index, try), Spec: job.Spec{Runtime: "python", Source: "print(1)"}, Step: step, Index: index, Try: try,
	}
}

// addStep creates a job of the run, and returns what became of it.
func (s *Store) addStep(t *testing.T, r Run, j NewJob) error {
	t.Helper()
	created, err := s.AddToRun(t.Context(), r, []NewJob{j})
	if err != nil {
		t.Fatal(err)
	}
	return created[0].Err
}

func (s *Store) endStep(t *testing.T, id string, status job.Status) {
	t.Helper()
	j, err := s.Start(t.Context(), id, 1, "w")
	if err == nil {
		err = s.End(t.Context(), j, Ending{Status: status, Result: []byte(`{}`)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Store) mustRun(t *testing.T, id string) Run {
	t.Helper()
	r, err := s.GetRun(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// dueRuns are those that are to be looked at now.
func (s *Store) dueRuns(t *testing.T) []string {
	t.Helper()
	var ids []string
	w := &Sweeper{Records: s}
	list, errs, err := w.claim(t.Context(), []string{"default"}, claims{set: "runwork", until: s.now().Add(RunRetry)})
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	for _, d := range list {
		ids = append(ids, d.id)
	}
	return ids
}

// TestFollowRuns: what follows in a run is seen as soon as something has ended, and no pass of the sweeper is waited for.
func TestFollowRuns(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	looked := make(chan string, 1000)
	w := &Sweeper{Records: s, Log: slog.New(slog.DiscardHandler), Advance: func(_ context.Context, id string, _ time.Time) error {
		looked <- id
		return nil
	}}
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { w.followRuns(ctx) })
	defer following.Wait()
	defer stop()
	r := s.newRun(t)
	gbtest.Eventually(t, "it listens", func() bool {
		if err := s.rdb.Publish(ctx, runChannel, r.ID).Err(); err != nil {
			t.Fatal(err)
		}
		return len(looked) > 0
	})
	<-looked
	a := stepJob(r, "a", 0, 1)
	if err := s.addStep(t, r, a); err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{"", "x", "default-r-", r.ID + "x", strings.Repeat("a", 1<<20)} {
		if err := s.rdb.Publish(ctx, runChannel, forged).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.endStep(t, a.ID, job.Succeeded)
	select {
	case id := <-looked:
		if id != r.ID {
			t.Errorf("got %q looked at, want %s", id, r.ID)
		}
	case <-time.After(gbtest.AtOnce):
		t.Error("nobody looked at the run whose job has ended")
	}
}

// TestRunNotesEnds: the step that ends a job notes that in its run, and has somebody look at it.
func TestRunNotesEnds(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	if due := s.dueRuns(t); !slices.Equal(due, []string{r.ID}) {
		t.Fatalf("got %q due, want the new run", due)
	}
	a, b := stepJob(r, "a", 0, 1), stepJob(r, "b", 7, 1)
	for _, j := range []NewJob{a, b, a} { // a twice: somebody else may have made it
		if err := s.addStep(t, r, j); err != nil {
			t.Fatalf("create %s: %v", j.Step, err)
		}
	}
	r = s.mustRun(t, r.ID)
	if err := s.SettleRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.endStep(t, a.ID, job.Failed)
	if due := s.dueRuns(t); !slices.Equal(due, []string{r.ID}) {
		t.Fatalf("got %q due, want the run in which a job has ended", due)
	}
	for name, err := range map[string]error{"settle": s.SettleRun(t.Context(), r), "end": s.EndRun(t.Context(), r, RunEnd{Status: job.Succeeded, Outputs: []byte(`{}`)})} {
		if !errors.Is(err, ErrRunStale) {
			t.Errorf("%s what was read before: got %v, want ErrRunStale", name, err)
		}
	}
	if _, err := s.Cancel(t.Context(), b.ID, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[int]RunItem{"a": {0: {Try: 1, Status: job.Failed}}, "b": {7: {Try: 1, Status: job.Canceled}}}
	if r = s.mustRun(t, r.ID); !cmp.Equal(r.Items, want) {
		t.Error(cmp.Diff(want, r.Items))
	}
	if err := s.SettleRun(t.Context(), r); err != nil {
		t.Errorf("settle what was read after: %v", err)
	}
}

// TestRunJobOnce: a job of a run is not made again, even if it has ended and could be purged; its next try is.
func TestRunJobOnce(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	first := stepJob(r, "a", 0, 1)
	if err := s.addStep(t, r, first); err != nil {
		t.Fatal(err)
	}
	s.endStep(t, first.ID, job.Failed)
	if err := s.Purge(t.Context(), first.ID); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("purge: got %v, want it refused while the run lives", err)
	}
	if err := s.addStep(t, r, stepJob(r, "a", 0, 2)); err != nil {
		t.Fatal(err)
	}
	if err := s.addStep(t, r, first); err != nil {
		t.Errorf("the first try once more: %v", err)
	}
	want := map[int]RunItem{0: {Try: 2, Status: job.Queued}}
	if got := s.mustRun(t, r.ID).Items["a"]; !cmp.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if j, err := s.Get(t.Context(), first.ID); err != nil || j.Retention < time.Hour {
		t.Errorf("the job is kept for %v (%v), want the time that its run may take, and its own", j.Retention, err)
	}
	if err := s.RefuseItem(t.Context(), r, "a", 1, 1, "is too large"); err != nil {
		t.Fatal(err)
	}
	if err := s.addStep(t, r, stepJob(r, "a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got, want := s.mustRun(t, r.ID).Items["a"][1], (RunItem{Try: 1, Status: Refused, Why: "is too large"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := s.Get(t.Context(), job.StepJobID(r.ID, "a", 1, 1)); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want no job that was refused", err)
	}
}

// TestRunEndsOnce: of any number that end a run one tells of it; nothing is made of it after that.
func TestRunEndsOnce(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	if err := s.DecideStep(t.Context(), r, "a", map[string]any{"verdict": "skip"}); err != nil {
		t.Fatal(err)
	}
	if err := s.DecideStep(t.Context(), r, "a", map[string]any{"verdict": "begin"}); err != nil {
		t.Fatal(err)
	}
	r = s.mustRun(t, r.ID)
	if got := string(r.Verdicts["a"]); got != `{"verdict":"skip"}` {
		t.Errorf("got %s, want what was decided first", got)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.EndRun(t.Context(), r, RunEnd{Status: job.Succeeded, Outputs: []byte(`{}`)}); err != nil {
				t.Errorf("end: %v", err)
			}
		})
	}
	all.Wait()
	if n := s.rdb.ZCard(t.Context(), outboxKey("default")).Val(); n != 1 {
		t.Errorf("got %d deliveries, want 1", n)
	}
	d, err := s.GetDelivery(t.Context(), "default", DeliveryID(r.ID, job.EventPipelineCompleted, "https://example.com/hook"))
	if err != nil || d.Subject() != r.ID || d.Event != job.EventPipelineCompleted {
		t.Errorf("got %+v, %v, want a delivery of the run", d, err)
	}
	if err := s.addStep(t, r, stepJob(r, "b", 0, 1)); !errors.Is(err, job.ErrEnded) {
		t.Errorf("a job of a run that has ended: got %v, want job.ErrEnded", err)
	}
	if err := s.CancelRun(t.Context(), r.ID, RunCanceled); !errors.Is(err, job.ErrEnded) {
		t.Errorf("cancel: got %v, want job.ErrEnded", err)
	}
	if due := s.dueRuns(t); len(due) != 0 {
		t.Errorf("got %q due, want none", due)
	}
	if r = s.mustRun(t, r.ID); r.State != job.Succeeded || r.Finished.IsZero() || string(r.Outputs) != `{}` {
		t.Errorf("got %+v", r)
	}
}

// TestRunCanceled: once a run is canceled, somebody late makes no job of it.
func TestRunCanceled(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	j := stepJob(r, "a", 0, 1)
	if err := s.addStep(t, r, j); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.CancelRun(t.Context(), r.ID, RunOverdue); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.addStep(t, r, stepJob(r, "b", 0, 1)); !errors.Is(err, job.ErrEnded) {
		t.Errorf("got %v, want job.ErrEnded", err)
	}
	if err := s.EndRun(t.Context(), r, RunEnd{Status: job.Succeeded}); !errors.Is(err, ErrRunStale) {
		t.Errorf("end as it was before: got %v, want ErrRunStale", err)
	}
	r = s.mustRun(t, r.ID)
	if err := s.CancelRunJobs(t.Context(), r, []string{j.ID, job.StepJobID(r.ID, "x", 0, 1)}); err != nil {
		t.Fatal(err)
	}
	if r = s.mustRun(t, r.ID); r.Cancel != RunOverdue || r.Items["a"][0].Status != job.Canceled {
		t.Errorf("got %q, %+v", r.Cancel, r.Items)
	}
}

// TestRunSeesNewJobs: whoever has read a run before a job of it was made doesn't end it.
func TestRunSeesNewJobs(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	if err := s.addStep(t, r, stepJob(r, "a", 0, 1)); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"settle": s.SettleRun(t.Context(), r), "end": s.EndRun(t.Context(), r, RunEnd{Status: job.Failed})} {
		if !errors.Is(err, ErrRunStale) {
			t.Errorf("%s what was read before: got %v, want ErrRunStale", name, err)
		}
	}
}

// TestOldRunFound: a run that a worker has taken out of what is looked at is found however many newer ones its tenant has.
func TestOldRunFound(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	r := s.newRun(t)
	if err := s.rdb.ZRem(t.Context(), runWorkKey("default"), r.ID).Err(); err != nil {
		t.Fatal(err)
	}
	pipe := s.rdb.Pipeline()
	for n := range 2 * foundRuns { // as of runs that have ended, and are no longer kept
		pipe.ZAdd(t.Context(), runsKey("default"), redis.Z{Member: string(position(r.Created.Add(time.Duration(n)*time.Millisecond), job.NewRunID("default")))})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &Sweeper{Records: s}
	for range 4 { // the fourth begins at the newest again
		if err := w.findRuns(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
	}
	if due := s.dueRuns(t); !slices.Contains(due, r.ID) {
		t.Errorf("got %q due, want the run", due)
	}
	if len(w.foundTo) != 1 {
		t.Errorf("got %v, want the next pass to go on behind the newest", w.foundTo)
	}
}

// TestRunPages: pages of the list have every run once, the newest first, though runs come and expire between two.
func TestRunPages(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	at := time.Now()
	s.now = func() time.Time { at = at.Add(time.Millisecond); return at }
	var ids []string
	for range 7 {
		ids = append(ids, s.newRun(t).ID)
	}
	slices.Reverse(ids)
	var got []string
	var after Position
	for i := range 4 {
		page, next, err := s.ListRuns(t.Context(), "default", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, r.ID)
		}
		if again, ok := ParseRunPosition("default", string(next)); ok != (i < 3) || ok && again != next {
			t.Errorf("page %d goes on at %q", i, next)
		}
		if i == 0 {
			s.newRun(t)                                                                     // which belongs to no later page
			if err := s.rdb.Del(t.Context(), runKey("default", ids[3])).Err(); err != nil { // it expires
				t.Fatal(err)
			}
		}
		after = next
	}
	if want := slices.Delete(slices.Clone(ids), 3, 4); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, p := range []string{"", "+", "1700000000000:" + job.NewID("default"), "1700000000000:" + job.NewRunID("other")} {
		if _, ok := ParseRunPosition("default", p); ok {
			t.Errorf("%q is taken for a position", p)
		}
	}
}

// TestRunsTakeTurns: one tenant's runs that take long hold up no other's.
func TestRunsTakeTurns(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 100)
	open := func(tenant string) string {
		r, err := s.OpenRun(t.Context(), tenant, NewRun{Pipeline: []byte(`{}`), Params: []byte(`{}`), Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	for range 10 {
		open("many")
	}
	one := open("one")
	came := make(chan struct{})
	w := &Sweeper{Records: s, Log: slog.New(slog.DiscardHandler), Advance: func(ctx context.Context, id string, _ time.Time) error {
		if id == one {
			close(came)
			return nil
		}
		select {
		case <-came:
			return nil
		case <-ctx.Done():
			return errors.New("another tenant's run did not get its turn")
		}
	}}
	if err := w.advanceRuns(t.Context(), "many", "one"); err != nil {
		t.Error(err)
	}
}
