package record

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/internal/queue"
)

// offers are the runtimes of a worker: half of them have no node, and none is told of a job
// that wants it. At the end of a schedule all have both.
func (p *process) offers() []string {
	if p.narrow && !p.w.free {
		return []string{"python"}
	}
	return []string{"node", "python"}
}

// task of asynq's that a process has taken.
type simTask struct {
	queue, id string
	payload   []byte
}

// take dequeues from the first of these queues that has a task, and reads what is in it.
func (p *process) take(ctx context.Context, payload any, queues ...string) (task simTask, ok bool) {
	for _, queue := range queues {
		if task, ok = p.dequeue(ctx, queue); ok || p.dead {
			break
		}
	}
	if !ok {
		return task, false
	}
	if err := json.Unmarshal(task.payload, payload); err != nil {
		p.w.fail("task %s: %w", task.id, err)
		return task, false
	}
	return task, true
}

// dequeue does in one step what asynq does when it takes a task (asynq v0.26, rdb.Dequeue):
// from pending to active, with a lease of 30 s.
func (p *process) dequeue(ctx context.Context, queue string) (simTask, bool) {
	if n, err := p.w.rdb.LLen(ctx, "asynq:{"+queue+"}:pending").Result(); err == nil && n == 0 {
		return simTask{}, false // no step of the schedule is spent on it
	}
	q := "asynq:{" + queue + "}:"
	id, err := dequeueScript.Run(ctx, p.store.rdb, []string{q + "pending", q + "active", q + "lease", q + "t:"}, time.Now().Add(30*time.Second).Unix()).Text()
	if err != nil {
		return simTask{}, false
	}
	info, err := p.w.inspector().GetTaskInfo(queue, id)
	if err != nil {
		p.w.fail("task %s of queue %s can't be read: %w", id, queue, err)
		return simTask{}, false
	}
	return simTask{queue, id, info.Payload}, true
}

// finishTask is asynq's end of a task: done, or put off for 2 s after an error.
func (p *process) finishTask(ctx context.Context, t simTask, failed error) {
	q := "asynq:{" + t.queue + "}:"
	retry := ""
	if failed != nil {
		retry = strconv.FormatInt(p.store.now().Add(2*time.Second).Unix(), 10)
	}
	_ = finishScript.Run(ctx, p.store.rdb, []string{q + "active", q + "lease", q + "t:" + t.id, q + "retry"}, t.id, retry).Err()
}

// asynq does what servers of it do beside tasks: what is due goes to pending, and so do tasks
// whose lease has expired, those some of the time: it takes asynq up to two minutes.
func (p *process) asynq(ctx context.Context) {
	expiring := p.w.free || p.w.chance(3)
	for _, queue := range []string{"high", "normal", "low", queue.Delivery, queue.DeliveryBacklog} {
		q := "asynq:{" + queue + "}:"
		expired := time.Now().Unix()
		if !expiring {
			expired = 0
		}
		_ = forwardScript.Run(ctx, p.store.rdb, []string{q + "scheduled", q + "retry", q + "pending", q + "active", q + "lease", q + "t:"},
			p.store.now().Unix(), expired).Err()
	}
}
