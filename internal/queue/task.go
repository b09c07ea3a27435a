package queue

import (
	"cmp"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// The types of tasks.
const (
	TypeRun     = "glovebox:run"
	TypeSession = "glovebox:session"
	TypeDeliver = "glovebox:deliver"
)

// Run is the payload of a run task.
type Run struct {
	ID    string `json:"id"`
	Epoch int    `json:"epoch"`
}

// Deliver is the payload of a delivery task.
type Deliver struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
	Turn
}

// Turn is which of a delivery's tasks one is.
type Turn struct {
	Attempt int `json:"attempt"`
	// Waits is how often the delivery had to wait for its endpoint before: each time it gets another task.
	Waits int `json:"waits,omitempty"`
}

func (t Turn) String() string {
	if t.Waits == 0 {
		return strconv.Itoa(t.Attempt)
	}
	return strconv.Itoa(t.Attempt) + "-" + strconv.Itoa(t.Waits)
}

// Task is one to enqueue.
type Task struct {
	kind, id, queue string
	payload         any
	at              time.Time // not before; zero for at once
}

// ID is the task's id in its queue, where no other task can have it.
func (t Task) ID() string { return t.id }

// RunTask is the task for this epoch of a job, to be taken at at, or at once where that is zero.
func RunTask(id string, epoch int, priority job.Priority, at time.Time) Task {
	return Task{TypeRun, id + "." + strconv.Itoa(epoch), string(cmp.Or(priority, job.Normal)), Run{id, epoch}, at}
}

// SessionTask is the task by which a worker comes to hold a session, one that has that placement, "" for any.
func SessionTask(id, runtime, placement string) Task {
	return Task{TypeSession, id + ".1", Sessions(runtime, placement), Run{id, 1}, time.Time{}}
}

// InPool is the task in the queue of the workers that serve jobs of that placement, where it isn't "".
func (t Task) InPool(placement string) Task {
	if placement == "" {
		return t
	}
	return t.HandedOver(Pool(placement))
}

// Queue is the one that the task goes into.
func (t Task) Queue() string { return t.queue }

// HandedOver is the task in the queue of the workers that offer the runtime or image of that name.
func (t Task) HandedOver(name string) Task {
	t.queue = handedOver(t.queue, name)
	return t
}

// DeliverTask is the task for this turn of a delivery. backlog is what the delivery's record says:
// a delivery stays in one queue, where one turn has one task.
func DeliverTask(tenant, delivery string, turn Turn, backlog bool, at time.Time) Task {
	queue := Delivery
	if backlog {
		queue = DeliveryBacklog
	}
	return Task{TypeDeliver, tenant + "/" + delivery + "." + turn.String(), queue, Deliver{tenant, delivery, turn}, at}
}
