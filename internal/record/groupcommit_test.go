package record

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// gate holds a store's scripts up until it is opened, and counts them.
type gate struct {
	open  chan struct{}
	mu    sync.Mutex
	calls int
	err   error // what they end with, instead of going to Redis
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		<-g.open
		g.mu.Lock()
		g.calls++
		err := g.err
		g.mu.Unlock()
		if err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (*gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// grouped creates jobs while a call for another of the tenant's is under way, and answers what
// became of each. With released it lets the call end, once all of them wait.
func grouped(t *testing.T, s *Store, g *gate, jobs []NewJob, released func()) (created []Created, errs []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	create := func(ctx context.Context, j NewJob, c *Created, err *error) {
		all.Go(func() { *c, *err = s.CreateOne(ctx, "default", j) })
	}
	waiting := func(n int) func() bool {
		return func() bool {
			s.group.mu.Lock()
			defer s.group.mu.Unlock()
			list, underWay := s.group.waiting["default"]
			return underWay && len(list) == n
		}
	}
	var first, withdrawn Created
	var firstErr, withdrawnErr error
	create(t.Context(), aJob(), &first, &firstErr)
	gbtest.Eventually(t, "the first is under way", waiting(0))
	created, errs = make([]Created, len(jobs)), make([]error, len(jobs))
	for i, j := range jobs {
		create(t.Context(), j, &created[i], &errs[i])
		gbtest.Eventually(t, "the job waits", waiting(i+1)) // the order counts
	}
	left := aJob()
	create(ctx, left, &withdrawn, &withdrawnErr)
	gbtest.Eventually(t, "the last one waits", waiting(len(jobs)+1))
	cancel()
	gbtest.Eventually(t, "it has left", waiting(len(jobs)))
	released()
	close(g.open)
	all.Wait()
	if !errors.Is(withdrawnErr, context.Canceled) {
		t.Errorf("the job whose context ended got %v", withdrawnErr)
	}
	if _, err := s.Get(t.Context(), left.ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("the job whose context ended: got %v, want none", err)
	}
	return created, errs
}

// gated is a store whose scripts a gate holds up. Redis knows the script, so that a call is one.
func gated(t *testing.T) (*Store, *gate) {
	t.Helper()
	s, g := store(t), &gate{open: make(chan struct{})}
	if err := createScript.Load(t.Context(), s.rdb); err != nil {
		t.Fatal(err)
	}
	s.rdb.AddHook(g)
	return s, g
}

// idle waits until no call is under way.
func idle(t *testing.T, s *Store) {
	t.Helper()
	gbtest.Eventually(t, "no call is under way", func() bool {
		s.group.mu.Lock()
		defer s.group.mu.Unlock()
		return len(s.group.waiting) == 0
	})
}

func aJob() NewJob {
	return NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "python", Source: "1"}}
}

func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	keyed, same, other := aJob(), aJob(), aJob()
	keyed.Key, keyed.RequestHash = "k", HashRequest([]byte("a"))
	same.Key, same.RequestHash = "k", HashRequest([]byte("a"))
	other.Key, other.RequestHash = "k", HashRequest([]byte("b"))
	plain := aJob()
	jobs := []NewJob{plain, keyed, same, other, plain}
	created, errs := grouped(t, s, g, jobs, func() {})
	want := []Created{{ID: plain.ID}, {ID: keyed.ID}, {ID: keyed.ID, Again: true}, {ID: other.ID, Err: job.ErrConflict}, {ID: plain.ID, Err: ErrExists}}
	for i := range jobs {
		if errs[i] != nil || created[i].ID != want[i].ID || created[i].Again != want[i].Again || !errors.Is(created[i].Err, want[i].Err) {
			t.Errorf("job %d: got %+v, %v, want %+v", i, created[i], errs[i], want[i])
		}
	}
	if g.calls != 2 {
		t.Errorf("%d calls of the script, want one for the first and one for those that came meanwhile", g.calls)
	}
	// The next one is the first again.
	if _, err := s.CreateOne(t.Context(), "default", aJob()); err != nil {
		t.Error(err)
	}
	idle(t, s)
}

func TestGroupCommitFails(t *testing.T) {
	t.Parallel()
	s, g := gated(t)
	away := errors.New("redis is away")
	_, errs := grouped(t, s, g, []NewJob{aJob(), aJob()}, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.err = away
	})
	for _, err := range errs {
		if !errors.Is(err, away) {
			t.Errorf("got %v, want every job of the group to fail", err)
		}
	}
	g.err = nil
	if created, err := s.CreateOne(t.Context(), "default", aJob()); err != nil || created.Err != nil {
		t.Errorf("once it is back: %v, %v", created, err)
	}
}

// TestGroupCommitPanics: a call that panics is an error of those that wait for it, no more.
func TestGroupCommitPanics(t *testing.T) {
	t.Parallel()
	s := store(t)
	s.observer = panics{s.observer}
	if _, first := s.group.join("default", aJob()); !first {
		t.Fatal("the first job waits")
	}
	w, _ := s.group.join("default", aJob())
	s.createWaiting("default")
	<-w.done
	if w.err == nil || !strings.Contains(w.err.Error(), "panic") {
		t.Errorf("got %v, want the panic as an error", w.err)
	}
	idle(t, s)
}

type panics struct{ Observer }

func (panics) Accepted(string, job.Priority) { panic("an observer that fails") }
