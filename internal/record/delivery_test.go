package record

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// What a tenant with many pending deliveries adds goes into another queue than what others
// add, and stays there: whoever enqueues a task of it finds the one that is there already.
func TestDeliveryBacklog(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	const more = 3
	var first, backlog []string // tasks
	for i := range deliveriesInLine + more {
		j := endedWith(t, s, "acme", fmt.Sprintf("https://example.com/%d", i))
		id := "acme/" + DeliveryID(j.ID, job.EventCompleted, j.Callback) + ".1"
		if i < deliveriesInLine {
			first = append(first, id)
		} else {
			backlog = append(backlog, id)
		}
	}
	other := endedWith(t, s, "default", "https://example.com/")
	first = append(first, "default/"+DeliveryID(other.ID, job.EventCompleted, other.Callback)+".1")
	slices.Sort(first)
	slices.Sort(backlog)
	are := func(what string) {
		t.Helper()
		for queue, want := range map[string][]string{queue.Delivery: first, queue.DeliveryBacklog: backlog} {
			got := tasks(t, s, queue)
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %v, want %v", what, queue, got, want)
			}
		}
	}
	are("at their ends")

	sweep := func(after time.Duration) {
		t.Helper()
		w.forward(after)
		if err := w.sweepOutbox(t.Context(), "acme", "default"); err != nil {
			t.Fatal(err)
		}
	}
	sweep(time.Minute)
	are("swept while all have a task")
	inspector := asynq.NewInspectorFromRedisClient(s.rdb)
	for _, queue := range []string{queue.Delivery, queue.DeliveryBacklog} {
		if n, err := inspector.DeleteAllPendingTasks(queue); n == 0 || err != nil {
			t.Fatalf("delete tasks of %s: %d, %v", queue, n, err)
		}
	}
	sweep(2 * time.Minute)
	are("swept when none has a task")

	for _, task := range []string{first[0], backlog[0]} { // of acme
		did := task[len("acme/") : len(task)-len(".1")]
		d, err := s.GetDelivery(t.Context(), "acme", did)
		if err != nil || d.Backlog != (task == backlog[0]) {
			t.Fatalf("delivery %s: %+v, %v", did, d, err)
		}
		if err := s.Attempted(t.Context(), d, Outcome{State: Pending, Status: 500, Problem: "it failed", Next: time.Now()}, Pace{Most: 16}); err != nil {
			t.Fatal(err)
		}
	}
	first, backlog = append(first, first[0][:len(first[0])-1]+"2"), append(backlog, backlog[0][:len(backlog[0])-1]+"2")
	slices.Sort(first)
	slices.Sort(backlog)
	are("after a failed attempt")
}

// endedWith is a job of the tenant that ended, and tells this URL.
func endedWith(t *testing.T, s *Store, tenant, url string) Record {
	t.Helper()
	id := job.NewID(tenant)
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "python", Callback: &job.Callback{URL: url}}, ""); err != nil {
		t.Fatal(err)
	}
	j, err := s.Start(t.Context(), id, 1, "w1")
	if err == nil {
		err = s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte("{}")})
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}
