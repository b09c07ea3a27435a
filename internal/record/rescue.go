package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// sweepOpen makes sure that each job that has been queued for long has a task.
func (w *Sweeper) sweepOpen(ctx context.Context, tenants ...string) error {
	c := claims{set: "open", record: "job:", fields: []string{"epoch", "priority", "placement"}}
	return w.sweepTasks(ctx, tenants, c, slices.Sorted(maps.Keys(queue.Jobs())), func(d due) (queue.Task, error) {
		priority := cmp.Or(job.Priority(d.text(1)), job.Normal)
		if _, known := queue.Jobs()[string(priority)]; !known || !ofTenant(d.id, d.tenant) {
			return queue.Task{}, fmt.Errorf("read record of %.100q in tenant %s: it is no job of the tenant's, or of no queue: %.20q", d.id, d.tenant, string(priority))
		}
		epoch, err := d.number(0)
		return queue.RunTask(d.id, epoch, priority, time.Time{}).InPool(d.text(2)), err
	})
}

// sweepOutbox makes sure that each delivery that is overdue has a task.
func (w *Sweeper) sweepOutbox(ctx context.Context, tenants ...string) error {
	c := claims{set: "outbox", overdue: sweepInterval, record: "delivery:", fields: []string{"attempt", "due", "backlog", "waits"}}
	return w.sweepTasks(ctx, tenants, c, slices.Sorted(maps.Keys(queue.Deliveries())), func(d due) (queue.Task, error) {
		attempt, err := d.number(0)
		at, dueErr := d.number(1)
		waits, _ := strconv.Atoi(d.text(3)) // none before the first
		turn := queue.Turn{Attempt: attempt, Waits: waits}
		return queue.DeliverTask(d.tenant, d.id, turn, d.text(2) == "1", time.UnixMilli(int64(at))), errors.Join(err, dueErr)
	})
}

func (d due) text(field int) string {
	if field >= len(d.fields) {
		return ""
	}
	return d.fields[field]
}

func (d due) number(field int) (int, error) {
	n, err := strconv.Atoi(d.text(field))
	if err != nil {
		return 0, fmt.Errorf("read record of %s: field %d is %.20q", d.id, field, d.text(field))
	}
	return n, nil
}

// sweepTasks makes sure that what c claims has a task in one of the queues.
func (w *Sweeper) sweepTasks(ctx context.Context, tenants []string, c claims, queues []string, taskOf func(due) (queue.Task, error)) error {
	var errs []error
	orphans, listed := map[string]bool{}, map[string]bool{} // each queue's once, and only where something is due
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		c.until = w.Records.now().Add(recheckDelay)
		list, failed, err := w.claim(ctx, some, c)
		if errs = append(errs, failed...); err != nil {
			return errors.Join(append(errs, err)...)
		}
		var tasks []queue.Task
		look := map[string]bool{}
		for _, d := range list {
			t, err := taskOf(d)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			tasks = append(tasks, t)
			if look[t.Queue()] = true; len(listed) == 0 {
				for _, of := range queues {
					look[of] = true
				}
			}
		}
		maps.DeleteFunc(look, func(of string, _ bool) bool { return listed[of] })
		if len(look) > 0 {
			var more map[string]bool
			more, err = w.Records.Queue.Orphans(ctx, slices.Sorted(maps.Keys(look)))
			maps.Copy(orphans, more)
			maps.Copy(listed, look)
		}
		errs = append(errs, err, w.Records.Queue.Rescue(ctx, tasks, orphans))
	}
	return errors.Join(errs...)
}
