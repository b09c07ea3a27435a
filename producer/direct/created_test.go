package direct_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestCreatedAsStored: who is told when a job was created finds it by that time, and is told the same by whatever tells it later. Several
// are created at once, as those that come meanwhile wait, and share a call of the script.
func TestCreatedAsStored(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	spec := job.Spec{Runtime: "bash", Source: "true"}
	if _, err := w.Client.SetTemplate(ctx, "true", producer.TemplateRequest{Spec: job.TemplateSpec{Spec: spec}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.SetSchedule(ctx, "true", job.ScheduleSettings{Template: "true", Cron: "0 0 1 1 *"}); err != nil {
		t.Fatal(err)
	}
	x, err := w.Client.StartSession(ctx, job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		create func(key string) (producer.Job, error)
		tries  int
	}{
		"submit": {tries: 100, create: func(key string) (producer.Job, error) {
			keyed := spec
			keyed.IdempotencyKey = key
			return w.Client.Submit(ctx, keyed)
		}},
		"template": {tries: 20, create: func(key string) (producer.Job, error) {
			return w.Client.RunTemplate(ctx, "true", producer.RunRequest{IdempotencyKey: key})
		}},
		"schedule": {tries: 20, create: func(key string) (producer.Job, error) { return w.Client.RunSchedule(ctx, "true", key) }},
		"execution": {tries: 10, create: func(key string) (producer.Job, error) {
			return w.Client.ExecuteInSession(ctx, x.ID, job.SessionExecution{Code: "1", IdempotencyKey: key})
		}},
	} {
		var all sync.WaitGroup
		for i := range tc.tries {
			all.Go(func() {
				key := fmt.Sprint(name, i)
				created, err := tc.create(key)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				at := created.Timing.CreatedAt
				if again, err := tc.create(key); err != nil || again.ID != created.ID || !again.Timing.CreatedAt.Equal(at) {
					t.Errorf("%s again under its key: got %s of %v, %v, want %s of %v", name, again.ID, again.Timing.CreatedAt, err, created.ID, at)
				}
				if stored, err := w.Client.Get(ctx, created.ID); err != nil || !stored.Timing.CreatedAt.Equal(at) {
					t.Errorf("%s: answered created_at %v; got %v of what is stored, %v", name, at, stored.Timing.CreatedAt, err)
				}
				page, err := w.Client.List(ctx, producer.ListOptions{Since: at, Limit: producer.MaxPage})
				if err != nil || !slices.ContainsFunc(page.Jobs, func(j job.Summary) bool { return j.ID == created.ID }) {
					t.Errorf("%s: %s is not among the %d jobs since its created_at, %v", name, created.ID, len(page.Jobs), err)
				}
			})
		}
		all.Wait()
	}
}
