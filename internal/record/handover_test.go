package record

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
	"github.com/glovebox-run/glovebox/job"
)

func store(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newJob(t *testing.T, s *Store, spec job.Spec) string {
	t.Helper()
	id := job.NewID("default")
	if err := s.Create(t.Context(), id, spec, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestStartRefusesWhatIsNotOffered: nothing is written, whatever the job wants.
func TestStartRefusesWhatIsNotOffered(t *testing.T) {
	t.Parallel()
	s := store(t)
	const image = "localhost/tool@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, spec := range map[string]job.Spec{
		"python": {Runtime: "python", Source: "1", Priority: job.Low}, image: {Image: image, Command: []string{"x"}, Priority: job.Low},
	} {
		id := newJob(t, s, spec)
		before := s.rdb.HGetAll(t.Context(), jobKey("default", id)).Val()
		_, err := s.Start(t.Context(), id, 1, "w", "node", "js")
		var refused *NotOfferedError
		if !errors.As(err, &refused) || *refused != (NotOfferedError{Name: name, Priority: job.Low}) {
			t.Errorf("%s: got %v", name, err)
		}
		if after := s.rdb.HGetAll(t.Context(), jobKey("default", id)).Val(); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: the record was %v and is %v", name, before, after)
		}
		if j, err := s.Start(t.Context(), id, 1, "w", "node", name); err != nil || j.Attempts != 1 {
			t.Errorf("%s, offered: got %+v, %v", name, j, err)
		}
		if _, err := s.Start(t.Context(), id, 1, "w", "node"); err != nil { // its answer got lost, and its offer has changed
			t.Errorf("%s, again: got %v", name, err)
		}
	}
}

// TestStartRefusesLess: a job is started by a worker that offers as much isolation as it accepts at the least, and by no other.
func TestStartRefusesLess(t *testing.T) {
	t.Parallel()
	s := store(t)
	for _, c := range []struct {
		least   job.Isolation
		offered string
		refused string // the name that is wanted
	}{
		{"", "python@process", "python"},
		{job.GVisor, "python@process", "python"},
		{"", "python", ""},
		{job.Process, "python@process", ""},
		{job.Process, "python", ""},
		{job.Process, "node@process", "python@process"},
	} {
		id := newJob(t, s, job.Spec{Runtime: "python", Source: "1", Isolation: c.least})
		_, err := s.Start(t.Context(), id, 1, "w", c.offered)
		var refused *NotOfferedError
		if got := errors.As(err, &refused); got != (c.refused != "") || got && refused.Name != c.refused || !got && err != nil {
			t.Errorf("a job that accepts %q, on a worker with %s: got %v, want %q", c.least, c.offered, err, c.refused)
		}
	}
}

// TestHandOverOfLess: a job that accepts less goes to workers that give that, or else to those that give more; one that doesn't, never.
func TestHandOverOfLess(t *testing.T) {
	t.Parallel()
	s := store(t)
	for _, c := range []struct{ wants, there string }{{"python@process", "python@process"}, {"python@process", "python"}, {"python", "python@process"}} {
		wanted := make(chan string, 10)
		offer := s.Fleet.Offer(t.Context(), func(name string) { wanted <- name })
		if err := offer.Set(t.Context(), []string{c.there}); err != nil {
			t.Fatal(err)
		}
		const channel = "gb:wanted:"
		gbtest.Eventually(t, "a subscription", func() bool { return s.rdb.PubSubNumSub(t.Context(), channel+c.there).Val()[channel+c.there] == 1 })
		id := inHand(t, s, job.Spec{Runtime: "python", Source: "1"})
		told, err := s.HandOver(t.Context(), queue.Run{ID: id, Epoch: 1}, &NotOfferedError{Name: c.wants, Priority: job.Normal})
		if want := c.wants != "python"; err != nil || told != want {
			t.Errorf("%s where there is %s: told %v, %v", c.wants, c.there, told, err)
		}
		if told {
			if name := <-wanted; name != c.there {
				t.Errorf("%s is wanted of those that have %s", name, c.there)
			}
		}
		if err := offer.Close(); err != nil {
			t.Fatal(err)
		}
		gbtest.Eventually(t, "its end", func() bool { return s.rdb.PubSubNumSub(t.Context(), channel+c.there).Val()[channel+c.there] == 0 })
	}
}

// TestHandOver: a job goes to a worker that offers what it needs, at once, and only to them.
func TestHandOver(t *testing.T) {
	t.Parallel()
	const most = 8 * time.Second // a poll comes after 10 s
	if took := gbtest.Best(3, most, func() time.Duration { return handsOver(t) }); took > most {
		t.Errorf("the worker that offers what it needs took it after %s, want at once", took)
	}
}

// handsOver returns how long the worker takes to get a job that is handed over to it.
func handsOver(t *testing.T) time.Duration {
	t.Helper()
	s := store(t)
	wanted := make(chan string, 10)
	offer := s.Fleet.Offer(t.Context(), func(name string) { wanted <- name })
	defer offer.Close()
	if err := offer.Set(t.Context(), []string{"python", "py"}); err != nil {
		t.Fatal(err)
	}
	const channel = "gb:wanted:"
	for deadline := time.Now().Add(time.Minute); s.rdb.PubSubNumSub(t.Context(), channel+"py").Val()[channel+"py"] == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not subscribed")
		}
	}
	id := inHand(t, s, job.Spec{Runtime: "py", Source: "1", Priority: job.High}) // first, or a server takes its task
	_, others := serve(t, s, queue.JobsWith([]string{"node"}), 10*time.Second)
	_, took := serve(t, s, queue.JobsWith([]string{"py"}), 10*time.Second)
	began := time.Now()
	told, err := s.HandOver(t.Context(), queue.Run{ID: id, Epoch: 1}, &NotOfferedError{Name: "py", Priority: job.High})
	if err != nil || !told {
		t.Fatalf("got %v, %v", told, err)
	}
	if name := <-wanted; name != "py" {
		t.Errorf("wanted is %q", name)
	}
	queuetest.Within(t, took, id+".1", gbtest.Patience)
	after := time.Since(began)
	select {
	case task := <-others:
		t.Errorf("a worker that does not offer it took %s", task)
	default:
	}
	if err := offer.Set(t.Context(), []string{"python"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if told, err = s.HandOver(t.Context(), queue.Run{ID: id, Epoch: 1}, &NotOfferedError{Name: "py", Priority: job.High}); err != nil || !told {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still told of what it does not offer any more")
		}
	}
	if err != nil {
		t.Error(err)
	}
	return after
}

// serve runs a server of the queues, and returns what it takes.
func serve(t *testing.T, s *Store, queues map[string]int, interval time.Duration) (*queue.Server, <-chan string) {
	t.Helper()
	srv := s.Queue.Server(queue.ServerConfig(4, queues, interval, slog.New(slog.DiscardHandler)), nil)
	return srv, queuetest.Serve(t, srv)
}

// inHand makes a job without a task: it was in the hands of a worker that refused it.
func inHand(t *testing.T, s *Store, spec job.Spec) string {
	t.Helper()
	id := newJob(t, s, spec)
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestUnoffered: a job that no worker offers leaves its tenant's window, comes back ever
// more rarely, and ends after a day.
func TestUnoffered(t *testing.T) {
	t.Parallel()
	s := store(t)
	began := time.Now().Truncate(time.Millisecond)
	now := began
	s.now = func() time.Time { return now }
	first := newJob(t, s, job.Spec{Runtime: "python", Source: "1"})
	newJob(t, s, job.Spec{Runtime: "node", Source: "1"})
	behind := newJob(t, s, job.Spec{Runtime: "node", Source: "1"}) // the window is 2
	if n := s.rdb.ZCard(t.Context(), openKey("default")).Val(); n != 2 {
		t.Fatalf("%d jobs are released, want 2", n)
	}
	wants := &NotOfferedError{Name: "python", Priority: job.Normal}
	epoch := func() int {
		j, err := s.Get(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		return j.Epoch
	}
	for {
		if told, err := s.HandOver(t.Context(), queue.Run{ID: first, Epoch: epoch()}, wants); err != nil || told {
			t.Fatalf("after %s: got %v, %v", now.Sub(began), told, err)
		}
		if now.Sub(began) > unofferedPatience {
			break
		}
		due := time.UnixMilli(int64(s.rdb.ZScore(t.Context(), laterKey("default"), first).Val()))
		if got, want := due.Sub(now), min(max(now.Sub(began), leastUnoffered), mostUnoffered); got != want {
			t.Fatalf("after %s: it comes back after %s, want %s", now.Sub(began), got, want)
		}
		if now.Equal(began) && s.rdb.ZScore(t.Context(), openKey("default"), behind).Val() == 0 {
			t.Error("the next job was not released")
		}
		// It is another's turn to find it, once the release pass has lined it up again.
		now = due
		s.rdb.ZRem(t.Context(), laterKey("default"), first)
		s.rdb.ZAdd(t.Context(), openKey("default"), redis.Z{Score: float64(ms(now)), Member: first})
	}
	j, err := s.Get(t.Context(), first)
	if err != nil || j.State != job.InternalError || j.Attempts != 0 {
		t.Errorf("after a day: got %s with %d attempts, %v", j.State, j.Attempts, err)
	}
	if told, err := s.HandOver(t.Context(), queue.Run{ID: first, Epoch: epoch()}, wants); err != nil || told {
		t.Errorf("once it has ended: got %v, %v", told, err)
	}
}

// TestHandedOverTooLate: a task that a job was handed over with starts it no more once the job
// has left its tenant's window, in which another may be by then.
func TestHandedOverTooLate(t *testing.T) {
	t.Parallel()
	s, ctx := store(t), t.Context()
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{RunningAtOnce: 1}}); err != nil {
		t.Fatal(err)
	}
	ids := []string{job.NewID("acme"), job.NewID("acme")}
	for i, runtime := range []string{"ruby", "python"} { // the second waits for the first one's place
		if err := s.Create(ctx, ids[i], job.Spec{Runtime: runtime, Source: "1"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	late, next := ids[0], ids[1]
	// The worker that it was handed over to ends, and the sweeper's task meets one without ruby.
	if told, err := s.HandOver(ctx, queue.Run{ID: late, Epoch: 1}, &NotOfferedError{Name: "ruby", Priority: job.Normal}); err != nil || told {
		t.Fatalf("got %v, %v", told, err)
	}
	if _, err := s.Start(ctx, next, 1, "w1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(ctx, late, 1, "w2"); !errors.Is(err, ErrStale) {
		t.Errorf("the first task starts it: %v; %d run, want 1", err, s.rdb.HLen(ctx, runningKey("acme")).Val())
	}
}
