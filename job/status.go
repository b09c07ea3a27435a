package job

// Status is where a job stands. held, queued and running change; the others are final.
type Status string

// Every status. A user's failure is a status; only InternalError is Glovebox's own.
const (
	Held                Status = "held" // a rule has it wait until somebody approves it
	Queued              Status = "queued"
	Running             Status = "running"
	Succeeded           Status = "succeeded"             // exit code 0, or graded, whatever the verdict
	Failed              Status = "failed"                // exit code ≠ 0, or killed by a signal
	TimedOut            Status = "timed_out"             // wall or CPU time; exit code 124
	OutOfMemory         Status = "out_of_memory"         // memory_mb was used up, or memory was refused and the job failed for it
	OutputLimitExceeded Status = "output_limit_exceeded" // stdout or stderr passed output_kb
	CompileFailed       Status = "compile_failed"        // the compile step failed; nothing was run
	Canceled            Status = "canceled"              // DELETE /v1/jobs/{id}, rejected, or not approved in time
	InternalError       Status = "internal_error"        // Glovebox failed, after all its attempts
)

// Statuses lists every status, in the order in which a job may pass them.
func Statuses() []Status {
	return []Status{Held, Queued, Running, Succeeded, Failed, TimedOut, OutOfMemory, OutputLimitExceeded, CompileFailed, Canceled, InternalError}
}

// Final reports whether a job in this status will never change again.
func (s Status) Final() bool { return s != Held && s != Queued && s != Running && s != "" }

// TimedOutExitCode is the exit code of a job that ran out of time, as timeout(1) has it.
const TimedOutExitCode = 124
