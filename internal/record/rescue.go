package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// sweepOpen makes sure that each job that has been queued for long has a task.
func (w *Sweeper) sweepOpen(ctx context.Context, tenants ...string) error {
	c := claims{set: "open", record: "job:", fields: []string{"epoch", "priority"}}
	return w.sweepTasks(ctx, tenants, c, slices.Sorted(maps.Keys(JobQueues())), func(d due) (task, error) {
		priority := orNormal(job.Priority(d.text(1)))
		if _, known := JobQueues()[string(priority)]; !known || !ofTenant(d.id, d.tenant) {
			return task{}, fmt.Errorf("read record of %.100q in tenant %s: it is no job of the tenant's, or of no queue: %.20q", d.id, d.tenant, string(priority))
		}
		epoch, err := d.number(0)
		return runTask(d.id, epoch, priority, time.Time{}), err
	})
}

// sweepOutbox makes sure that each delivery that is overdue has a task.
func (w *Sweeper) sweepOutbox(ctx context.Context, tenants ...string) error {
	c := claims{set: "outbox", overdue: sweepInterval, record: "delivery:", fields: []string{"attempt", "due", "backlog"}}
	return w.sweepTasks(ctx, tenants, c, slices.Sorted(maps.Keys(DeliveryQueues())), func(d due) (task, error) {
		attempt, err := d.number(0)
		at, dueErr := d.number(1)
		return deliverTask(d.tenant, d.id, attempt, d.text(2) == "1", time.UnixMilli(int64(at))), errors.Join(err, dueErr)
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
func (w *Sweeper) sweepTasks(ctx context.Context, tenants []string, c claims, queues []string, taskOf func(due) (task, error)) error {
	var errs []error
	var orphans map[string]bool // listed once, and only where something is due
	for some := range slices.Chunk(tenants, redisconn.AtOnce) {
		c.until = w.Records.now().Add(lookAgain)
		list, failed, err := w.claim(ctx, some, c)
		if errs = append(errs, failed...); err != nil {
			return errors.Join(append(errs, err)...)
		}
		var tasks []task
		for _, d := range list {
			t, err := taskOf(d)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			tasks = append(tasks, t)
		}
		if len(tasks) > 0 && orphans == nil {
			orphans, err = w.Records.orphans(ctx, queues)
		}
		errs = append(errs, err, w.Records.rescue(ctx, tasks, orphans))
	}
	return errors.Join(errs...)
}

// rescue makes sure that there is a task for each of these that some process has or will get. A task
// whose holder died is asynq's to recover, but that takes it one to two minutes: until
// then it is enqueued anew under another id, and what asynq recovers finds a record
// that has moved on. The same goes for one that an operator has archived, which nobody
// will ever get. orphans are the ids of such tasks.
func (s *Store) rescue(ctx context.Context, tasks []task, orphans map[string]bool) error {
	var errs []error
	for range mostOrphans {
		if len(tasks) == 0 {
			return errors.Join(errs...)
		}
		there, err := s.haveTasks(ctx, tasks)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		var missing, orphaned []task
		for i, t := range tasks {
			switch {
			case !there[i]:
				missing = append(missing, t)
			case orphans[t.id]:
				t.id += "r"
				orphaned = append(orphaned, t)
			}
		}
		errs = append(errs, s.enqueueAll(ctx, missing))
		tasks = orphaned
	}
	return errors.Join(append(errs, fmt.Errorf("enqueue %d tasks: each had %d holders that died", len(tasks), mostOrphans))...)
}

// mostOrphans is how many tasks of one try at a job or delivery may have lost their holder.
const mostOrphans = 100

// haveTasks reports which of these tasks asynq has, in whatever state. What is no task but has
// the place of one is deleted: asynq would put off all others of its queue for it.
func (s *Store) haveTasks(ctx context.Context, tasks []task) (there []bool, err error) {
	keys := make([]string, len(tasks))
	for i, t := range tasks {
		keys[i] = queueKey(t.queue, "t:"+t.id)
	}
	for some := range slices.Chunk(keys, redisconn.AtOnce) {
		answers, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, key string) *redis.BoolCmd { return pipe.HExists(ctx, key, "msg") })
		if err != nil {
			return nil, fmt.Errorf("look for tasks: %w", err)
		}
		for i, a := range answers {
			there = append(there, a.Val())
			if redisconn.WrongType(a.Err()) {
				if err := s.rdb.Del(ctx, some[i]).Err(); err != nil {
					return nil, fmt.Errorf("delete what is no task: %w", err)
				}
			}
		}
	}
	return there, nil
}

// orphans lists the tasks in these queues that no process has or will get soon: those
// whose holder's lease has expired, and archived ones; with an error not all of them. asynq's inspector would list all
// tasks that anybody holds, with what is in them; TestOrphans compares.
func (s *Store) orphans(ctx context.Context, queues []string) (map[string]bool, error) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	var lists []*redis.StringSliceCmd
	pipe := s.rdb.Pipeline()
	for _, queue := range queues {
		lists = append(
			lists,
			pipe.ZRangeByScore(ctx, queueKey(queue, "lease"), &redis.ZRangeBy{Min: "-inf", Max: now}),
			pipe.ZRange(ctx, queueKey(queue, "archived"), 0, -1),
		)
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, fmt.Errorf("list tasks that nobody has: %w", err)
	}
	var errs []error
	ids := map[string]bool{}
	for _, list := range lists {
		if list.Err() != nil {
			errs = append(errs, fmt.Errorf("list tasks that nobody has: %w", list.Err()))
		}
		for _, id := range list.Val() {
			ids[id] = true
		}
	}
	return ids, errors.Join(errs...)
}

// queueKey is a key of asynq's.
func queueKey(queue, rest string) string { return "asynq:{" + queue + "}:" + rest }
