package producer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

func (s suite) idempotency(t *testing.T) {
	spec := job.Spec{Runtime: "python3", Source: "1", Metadata: map[string]string{"a": "1", "b": "2"}, IdempotencyKey: "order 1"}
	again := func(what string, want producer.Job) producer.Job {
		t.Helper()
		j, err := s.jobs.Submit(t.Context(), spec)
		if err != nil || j.ID != want.ID {
			t.Errorf("%s: got %s, %v, want %s", what, j.ID, err, want.ID)
		}
		return j
	}
	first, err := s.jobs.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	again("at once", first)
	other := spec
	other.Source = "2"
	if _, err := s.jobs.Submit(t.Context(), other); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another spec: got %v, want ErrConflict", err)
	}
	theirs, err := s.other.Submit(t.Context(), spec)
	if err != nil || theirs.ID == first.ID {
		t.Fatalf("another tenant: got %s, %v, want a job of its own", theirs.ID, err)
	}
	if _, err := s.other.Cancel(t.Context(), theirs.ID); err != nil {
		t.Error(err)
	}
	if err := s.other.Purge(t.Context(), theirs.ID); err != nil {
		t.Error(err)
	}
	running := s.w.Start(t, first.ID)
	if j := again("while it runs", first); j.Status != job.Running {
		t.Errorf("it is %s, want running", j.Status)
	}
	s.w.End(t, running, nil, nil)
	if j := again("after its end", first); !j.Ended() || j.Result.Stdout != "hello\n" {
		t.Errorf("got %+v, want its result", j)
	}

	// What was accepted is answered for even where it would not be accepted any more.
	for life := 4 * time.Second; ; life *= 4 { // its deadline may pass before a busy machine has submitted it
		spec = job.Spec{Runtime: "python", Source: "1", IdempotencyKey: "in time", Deadline: time.Now().Add(life)}
		first, err = s.jobs.Submit(t.Context(), spec)
		if err == nil {
			break
		}
		if job.CodeOf(err) != job.CodeInvalid || time.Now().Before(spec.Deadline) || life > gbtest.AtOnce {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(spec.Deadline) + 10*time.Millisecond)
	again("after its deadline", first)

	// The key is free again 24 hours later, whatever becomes of the job.
	s.w.Raw.Del(t.Context(), s.w.Raw.Keys(t.Context(), "gb:{default}:idem:*").Val()...)
	spec.Deadline = time.Time{}
	if first, err = s.jobs.Submit(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	again("with a new key", first)
	for _, ttl := range s.w.Raw.Keys(t.Context(), "gb:{default}:idem:*").Val() {
		if d := s.w.Raw.TTL(t.Context(), ttl).Val(); d < 23*time.Hour || d > 24*time.Hour {
			t.Errorf("a key is kept for %s, want a day", d)
		}
	}
	if _, err := s.jobs.Cancel(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.jobs.Purge(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	other = spec
	other.Source = "2"
	var gone *job.GoneError
	if j, err := s.jobs.Submit(t.Context(), spec); !errors.As(err, &gone) || gone.ID != first.ID {
		t.Errorf("after a purge: got %+v, %v, want that %s is gone", j, err, first.ID)
	}
	if _, err := s.jobs.Submit(t.Context(), other); !errors.Is(err, job.ErrConflict) {
		t.Errorf("another spec: got %v, want ErrConflict", err)
	}
	for name, key := range map[string]string{"a long key": strings.Repeat("k", job.MaxKeyBytes+1), "a key that can't be printed": "ü"} {
		var invalid job.Invalid
		spec.IdempotencyKey = key
		if _, err := s.jobs.Submit(t.Context(), spec); !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "idempotency_key" {
			t.Errorf("%s: got %v, want one fault, of idempotency_key", name, err)
		}
	}
	spec.IdempotencyKey = strings.Repeat("~", job.MaxKeyBytes)
	if _, err := s.jobs.Submit(t.Context(), spec); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}

// However many submit the same under one key, through several api processes and at once,
// it is one job, be its spec large or small.
func TestOneJobForAKey(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	clients := []everything{w.Client, overHTTP(t, w, "default")}
	second, err := direct.Open(t.Context(), direct.Config{RedisURL: w.Redis.API(), S3: w.S3Spec}) // another process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	clients = append(clients, overHTTP(t, &producertest.Env{Client: second, Links: w.Links}, "default"))
	for key, source := range map[string]string{"small": "1", "large": strings.Repeat("# long\n", 20_000)} {
		spec := job.Spec{Runtime: "bash", Source: source, IdempotencyKey: key}
		var mu sync.Mutex
		ids := map[string]int{}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				j, err := clients[i%len(clients)].Submit(t.Context(), spec)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[j.ID]++
			})
		}
		all.Wait()
		if len(ids) != 1 {
			t.Errorf("%s: got jobs %v, want one", key, ids)
		}
	}
	if n := len(w.Raw.Keys(t.Context(), "gb:{default}:job:*").Val()); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

// flaky is an API whose first answers get lost: the connection breaks after it has done
// what it was asked for.
type flaky struct {
	http.Handler

	lose atomic.Int32
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.lose.Add(-1) < 0 {
		f.Handler.ServeHTTP(w, r)
		return
	}
	f.Handler.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// A client that gives a key asks again when the answer is lost, and makes nothing twice.
func TestSubmitWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	a, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{Handler: withoutDeadlines{a}}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	h, err := producer.New(srv.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	jobs := func() int { return len(w.Raw.Keys(t.Context(), "gb:{default}:job:*").Val()) }

	f.lose.Store(3)
	j, err := h.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "1", IdempotencyKey: "k"})
	if err != nil || jobs() != 1 {
		t.Fatalf("got %v, %d jobs, want one", err, jobs())
	}
	if got, err := h.Get(t.Context(), j.ID); err != nil || got.Status != job.Queued {
		t.Errorf("got %+v, %v", got, err)
	}
	f.lose.Store(1)
	if _, err := h.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "1"}); err == nil || jobs() != 2 {
		t.Errorf("without a key: got %v, %d jobs, want the error, and nothing tried again", err, jobs())
	}
	// It gives up with its context.
	srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var broken net.Error
	_, err = h.Submit(ctx, job.Spec{Runtime: "bash", Source: "1", IdempotencyKey: "k"})
	if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &broken) {
		t.Errorf("without an API: got %v", err)
	}
}

// withoutDeadlines makes up for a ResponseRecorder, which knows no deadlines.
type withoutDeadlines struct{ http.Handler }

func (h withoutDeadlines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(strings.NewReader(string(b)))
	if _, recorder := w.(*httptest.ResponseRecorder); recorder {
		w = deadlines{w}
	}
	h.Handler.ServeHTTP(w, r)
}

type deadlines struct{ http.ResponseWriter }

func (deadlines) SetReadDeadline(time.Time) error { return nil }
