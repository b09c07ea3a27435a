package direct_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// late is a hook of a Redis client whose first create gets no answer, and is carried out
// only after the next question: what a Redis that hung for a while may do.
type late struct {
	mu   *sync.Mutex
	done *bool
	todo *func()
}

func (late) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h late) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		args := cmd.Args()
		if !*h.done && len(args) > 10 && slices.Contains(args, any("spec_ref")) {
			*h.done = true
			*h.todo = func() { _ = next(context.WithoutCancel(ctx), cmd) }
			return os.ErrDeadlineExceeded
		}
		return next(ctx, cmd)
	}
}

func (h late) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		err := next(ctx, cmds)
		if *h.todo != nil && strings.EqualFold(cmds[0].Name(), "hgetall") {
			(*h.todo)()
			*h.todo = nil
		}
		return err
	}
}

func TestCreateThatComesLateHasItsSpec(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "true"}); err != nil { // the script is known
		t.Fatal(err)
	}
	var todo func()
	w.Records.Redis().AddHook(late{&sync.Mutex{}, new(bool), &todo})
	if _, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "bash", Source: strings.Repeat("# x\n", 100_000)}); err == nil {
		t.Fatal("accepted without an answer of Redis")
	}
	open, err := w.Raw.ZRange(t.Context(), "gb:{default}:open", 0, -1).Result()
	if err != nil || len(open) != 2 {
		t.Fatalf("got open jobs %v, %v; want the late one among them", open, err)
	}
	for _, id := range open {
		j, err := w.Records.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if j.SpecRef == "" {
			continue
		}
		if _, err := w.Objects.GetBytes(t.Context(), j.SpecRef, 1<<20); err != nil {
			t.Errorf("the spec of a job that is queued: %v", err)
		}
	}
}
