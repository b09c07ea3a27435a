// Package worker takes jobs from the queue, runs each in a sandbox of its own, stores
// what it made and ends its record.
//
// The path of a job reads downward in [Worker.execute]. A user's failure is a status
// of the result; a Go error means that Glovebox failed, and only that is tried again,
// in a new epoch. The worker never opens a path that a job named: it sees bytes and
// checked names only, from worker/sandbox.
package worker
