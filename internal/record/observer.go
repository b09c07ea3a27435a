package record

import (
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Observer is told of each transition that this process made, once Redis has said that
// it is made: one whose answer got lost is not told. Its methods are called side by side
// and must not wait for anything.
type Observer interface {
	Accepted(runtime string, priority job.Priority)
	Started(j Record)
	Requeued(cost Cost)
	// TakenBack is told of a job that was taken from a lost worker.
	TakenBack()
	Ended(runtime string, status job.Status)
	// Attempted is told of an attempt at a delivery and of the state that followed.
	Attempted(d Delivery, state DeliveryState, now time.Time)
	// PassEnded is told how long a pass of the sweeper took, 0 where another process made it.
	PassEnded(pass string, took time.Duration)
	// PassFailed is told of a pass of the sweeper that is to be tried again.
	PassFailed(pass string)
}

// unobserved is the Observer of a Store that nobody observes.
type unobserved struct{}

func (unobserved) Accepted(string, job.Priority)                {}
func (unobserved) Started(Record)                               {}
func (unobserved) Requeued(Cost)                                {}
func (unobserved) TakenBack()                                   {}
func (unobserved) Ended(string, job.Status)                     {}
func (unobserved) Attempted(Delivery, DeliveryState, time.Time) {}
func (unobserved) PassEnded(string, time.Duration)              {}
func (unobserved) PassFailed(string)                            {}
