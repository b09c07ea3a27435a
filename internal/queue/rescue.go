package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// Rescue makes sure that there is a task for each of these that some process has or will get. A task
// whose holder died is asynq's to recover, but that takes it one to two minutes: until
// then it is enqueued anew under another id, and what asynq recovers finds a record
// that has moved on. The same goes for one that an operator has archived, which nobody
// will ever get. orphans are the ids of such tasks.
func (c *Client) Rescue(ctx context.Context, tasks []Task, orphans map[string]bool) error {
	var errs []error
	for range mostOrphans {
		if len(tasks) == 0 {
			return errors.Join(errs...)
		}
		there, err := c.haveTasks(ctx, tasks)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		var missing, orphaned []Task
		for i, t := range tasks {
			switch {
			case !there[i]:
				missing = append(missing, t)
			case orphans[t.id]:
				t.id += "r"
				orphaned = append(orphaned, t)
			}
		}
		errs = append(errs, c.EnqueueAll(ctx, missing))
		tasks = orphaned
	}
	return errors.Join(append(errs, fmt.Errorf("enqueue %d tasks: each had %d holders that died", len(tasks), mostOrphans))...)
}

// mostOrphans is how many tasks of one try at a job or delivery may have lost their holder.
const mostOrphans = 100

// haveTasks reports which of these tasks asynq has, in whatever state. What is no task but has
// the place of one is deleted: asynq would put off all others of its queue for it.
func (c *Client) haveTasks(ctx context.Context, tasks []Task) (there []bool, err error) {
	keys := make([]string, len(tasks))
	for i, t := range tasks {
		keys[i] = key(t.queue, "t:"+t.id)
	}
	for some := range slices.Chunk(keys, redisconn.AtOnce) {
		answers, err := redisconn.Ask(ctx, c.rdb, some, func(pipe redis.Pipeliner, key string) *redis.BoolCmd { return pipe.HExists(ctx, key, "msg") })
		if err != nil {
			return nil, fmt.Errorf("look for tasks: %w", err)
		}
		for i, a := range answers {
			there = append(there, a.Val())
			if redisconn.WrongType(a.Err()) {
				if err := c.rdb.Del(ctx, some[i]).Err(); err != nil {
					return nil, fmt.Errorf("delete what is no task: %w", err)
				}
			}
		}
	}
	return there, nil
}

// Orphans lists the tasks in these queues that no process has or will get soon: those
// whose holder's lease has expired, and archived ones; with an error not all of them. asynq's inspector would list all
// tasks that anybody holds, with what is in them; TestOrphans compares.
func (c *Client) Orphans(ctx context.Context, queues []string) (map[string]bool, error) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	var lists []*redis.StringSliceCmd
	pipe := c.rdb.Pipeline()
	for _, queue := range queues {
		lists = append(
			lists,
			pipe.ZRangeByScore(ctx, key(queue, "lease"), &redis.ZRangeBy{Min: "-inf", Max: now}),
			pipe.ZRange(ctx, key(queue, "archived"), 0, -1),
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
