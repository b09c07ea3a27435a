package queue

import (
	"maps"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// The queues of deliveries; jobs use one queue per priority.
const (
	Delivery = "deliveries"
	// DeliveryBacklog has the deliveries of tenants that had many pending when these
	// were made. So a tenant with thousands stands in the way of its own, not of others'.
	DeliveryBacklog = "deliveries:backlog"
)

// sessions begins the names of the queues of sessions.
const sessions = "sessions"

// Deliveries are the queues of deliveries and their weights.
func Deliveries() map[string]int { return map[string]int{Delivery: 9, DeliveryBacklog: 1} }

// Jobs are the queues of jobs and their weights: none starves another.
func Jobs() map[string]int {
	return map[string]int{string(job.High): 6, string(job.Normal): 3, string(job.Low): 1}
}

// JobsWith are the queues of jobs, and [JobsOf] these names.
func JobsWith(names []string) map[string]int {
	queues := JobsOf(names)
	maps.Copy(queues, Jobs())
	return queues
}

// JobsOf are the queues of the jobs that were handed over for want of one of these runtimes or images, or that
// are for one of these pools.
func JobsOf(names []string) map[string]int {
	queues := map[string]int{}
	for _, name := range names {
		for priority, weight := range Jobs() {
			queues[handedOver(priority, name)] = weight
		}
	}
	return queues
}

// Pool is the name, among those of runtimes and images, by which the queues of jobs of a placement are called.
func Pool(placement string) string { return "@" + placement }

// Sessions is the queue of the sessions of a runtime that have that placement, "" for any. Only workers that offer
// the runtime, and have those labels, serve it.
func Sessions(runtime, placement string) string {
	if placement != "" {
		runtime += Pool(placement)
	}
	return sessions + ":" + runtime
}

// handedOver is the queue of jobs that workers without the runtime or image of that name handed
// over. Only those that offer it serve it.
func handedOver(priority, name string) string { return priority + ":" + name }

// key is a key of asynq's.
func key(queue, rest string) string { return "asynq:{" + queue + "}:" + rest }

// queueOf is the queue that these keys of asynq's are of.
func queueOf(keys []string) string {
	// Each has its queue in braces; what follows may be a job's id, with any name.
	_, queue, _ := strings.Cut(keys[0], "{")
	queue, _, _ = strings.Cut(queue, "}")
	return queue
}
