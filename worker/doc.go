// Package worker takes jobs from the queue, runs each in a sandbox of its own, stores
// what it made and ends its record.
//
// The path of a job reads downward in [Worker.execute]. A user's failure is a status
// of the result. A Go error means that Glovebox failed, and only that is tried again,
// in a new epoch. The worker never opens a path that a job named: it gets bytes and
// checked names only, from package sandbox.
package worker
