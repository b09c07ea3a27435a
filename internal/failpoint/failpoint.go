// Package failpoint stops the process at a named step of a job, so that tests can
// show what a kill -9, or the loss of something else, leaves behind just there. It
// does so only in binaries built with the tag `failpoint`; in all others [Hit] is an
// empty function.
//
// GLOVEBOX_FAILPOINT is `kill:<name>:<file>` or `pause:<name>:<file>`. The first
// process that reaches the step while file does not exist creates it, and dies by
// SIGKILL, or waits until the file has gone.
package failpoint

// The named steps of a job.
const (
	BeforeStart    = "before-start"    // the worker has the task, the record is still queued; an execution of a session has just been taken
	Running        = "running"         // the program has printed something
	Uploading      = "uploading"       // an artifact is on its way to S3
	ResultWritten  = "result-written"  // the result is stored, the record still runs
	RecordEnded    = "record-ended"    // the record has ended, its task is not done
	DeliveryTaken  = "delivery-taken"  // the message is written, nothing of it is sent
	DeliverySent   = "delivery-sent"   // the endpoint has answered, nobody has noted it
	RecordCreated  = "record-created"  // the api wrote the record, its client has no answer
	Released       = "released"        // a script has released jobs, which have no task yet
	FireClaimed    = "fire-claimed"    // a fire of a schedule is decided, its job not created
	SessionClaimed = "session-claimed" // a worker has a session, which has no sandbox yet
	SessionHeld    = "session-held"    // its sandbox asks for an execution, which is not taken yet
	ForkTaken      = "fork-taken"      // a worker has a fork, of which nothing is written yet
	ForkWritten    = "fork-written"    // what it goes on from is on the disk, nothing of it has begun
	BatchReceived  = "batch-received"  // the api has added all jobs of a batch, which is not sealed
)
