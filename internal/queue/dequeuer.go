package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

const (
	// polled is how soon asynq asks again when nothing came of a wait.
	polled = time.Millisecond
	// refusedPause is how long Redis is asked for no task after it has refused to say: asynq would ask again at once, and a Redis that is full, or
	// knows the password no more, would answer thousands of times a second in the place of what could mend it.
	refusedPause = time.Second
)

// dequeuer is a server's connection: once asynq has found all its queues empty, it waits for
// a notification and asks all of them again before it answers. asynq itself would sleep first,
// and Go's clock knows no sleep below a millisecond.
type dequeuer struct {
	redis.UniversalClient
	notifier *notifier
	queues   int
	asked    []question // of queues that were empty, one after the other; one goroutine asks
	slots    chan struct{}
	holds    bool // a slot, for the task that is being asked for
}

type question struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs one of asynq's scripts.
func (d *dequeuer) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if err := asynqsOwn(keys); err != nil {
		return failed(ctx, err)
	}
	if !asksForTask(keys) {
		return d.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	}
	if !d.acquireSlot() {
		return none(ctx)
	}
	answer := d.UniversalClient.EvalSha(ctx, sha1, keys, args...)
	if !errors.Is(answer.Err(), redis.Nil) {
		d.asked = d.asked[:0]
		return d.took(answer)
	}
	if d.asked = append(d.asked, question{sha1, keys, args}); len(d.asked) < d.queues {
		return answer
	}
	notified := d.notifier.wait(ctx)
	for _, q := range d.asked {
		// The lease that it asks for began before the wait: the interval is far below it. And
		// a task says itself of which queue it is.
		if notified && errors.Is(answer.Err(), redis.Nil) {
			answer = d.UniversalClient.EvalSha(ctx, q.sha1, q.keys, q.args...)
		}
	}
	d.asked = d.asked[:0]
	return d.took(answer)
}

// Eval does so where Redis doesn't know the script yet.
func (d *dequeuer) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	if err := asynqsOwn(keys); err != nil {
		return failed(ctx, err)
	}
	if !asksForTask(keys) {
		return d.UniversalClient.Eval(ctx, script, keys, args...)
	}
	if !d.acquireSlot() {
		return none(ctx)
	}
	return d.took(d.UniversalClient.Eval(ctx, script, keys, args...))
}

// asynqsOwn fails for a key that is not asynq's. It takes one from the task, which a worker may
// have written, and would delete it with the rights of this process.
func asynqsOwn(keys []string) error {
	for _, key := range keys {
		if !strings.HasPrefix(key, "asynq:") {
			return fmt.Errorf("a task names the key %.100q, which is not asynq's", key)
		}
	}
	return nil
}

// asksForTask knows asynq's dequeue by its keys: no other script wants to know whether its
// queue is paused.
func asksForTask(keys []string) bool {
	return len(keys) >= 2 && strings.HasSuffix(keys[1], ":paused")
}

// none is what Redis says of a queue that is empty.
func none(ctx context.Context) *redis.Cmd {
	return failed(ctx, redis.Nil)
}

func failed(ctx context.Context, err error) *redis.Cmd {
	answer := redis.NewCmd(ctx)
	answer.SetErr(err)
	return answer
}

// acquireSlot waits for a slot for a task. It returns false when the server stops before there
// is one. A slot that no task came for is kept for the next question.
func (d *dequeuer) acquireSlot() bool {
	if d.slots == nil || d.holds {
		return true
	}
	select {
	case d.slots <- struct{}{}:
		d.holds = true
		return true
	case <-d.notifier.closed:
		return false
	}
}

// took notes whether the answer is a task, with which the slot is that task's. A refusal it holds back for a while.
func (d *dequeuer) took(answer *redis.Cmd) *redis.Cmd {
	switch err := answer.Err(); {
	case err == nil:
		d.holds = d.holds && !readable(answer)
	case refused(err):
		select {
		case <-time.After(refusedPause):
		case <-d.notifier.closed:
		}
	}
	return answer
}

// message is what a task is in Redis, as asynq itself has it: its package is internal, its type is registered.
var message, errMessage = protoregistry.GlobalTypes.FindMessageByName("asynq.TaskMessage")

// readable reports whether asynq can read the task. It calls nobody for one that it can't, which a worker may have written.
func readable(answer *redis.Cmd) bool {
	if errMessage != nil { // of another asynq, as TestNoSlotForPoison would tell
		return true
	}
	text, err := answer.Text()
	return err == nil && proto.Unmarshal([]byte(text), message.New().Interface()) == nil
}

// refused reports whether that is an answer of Redis, and neither that there is no task nor that it has to be told the script. Of a key that
// somebody has spoiled other queues know nothing. Where Redis doesn't answer, or is away, whoever opened the connection waits (record's outage).
func refused(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "NOSCRIPT") && !redisconn.WrongType(err) && !redisconn.Away(err)
}

// releaseSlot gives back the slot that no task came for. Nobody asks any more.
func (d *dequeuer) releaseSlot() {
	if d.holds {
		d.holds = false
		<-d.slots
	}
}
