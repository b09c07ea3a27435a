package producer

import (
	"context"
	"net/http"
)

// MaxCodeBytes is how much code an [ExecuteRequest] may hold.
const MaxCodeBytes = 100 << 10

const executePath = "/v1/code-sandbox/execute"

// ExecuteRequest is what POST /v1/code-sandbox/execute takes.
type ExecuteRequest struct {
	Code     string `json:"code" minLength:"1" doc:"The program's text: 1 to 102,400 bytes of UTF-8." example:"print(6 * 7)"`
	Language string `json:"language" doc:"Name or alias of a runtime, such as python or javascript; GET /v1/runtimes lists them." example:"python"`
}

// Execution is what POST /v1/code-sandbox/execute answers, whatever the code did. Its names
// are that endpoint's own.
type Execution struct {
	// Stdout and Stderr are the first 64 KiB, as in job.Result. Where the code does not compile,
	// Stderr is what the compiler said.
	Stdout string `json:"stdout" doc:"What the program printed, the first 64 KiB."`
	Stderr string `json:"stderr" doc:"What it printed as errors, the first 64 KiB; where it does not compile, what the compiler said."`
	// ExitCode is the program's own, 124 after a time-out, 128 + n after signal n, the compiler's
	// where the code does not compile, and nil where nothing ran to an end.
	ExitCode        *int    `json:"exitCode" doc:"The program's exit code: 124 after a time-out, 128 + n after signal n, the compiler's where the code does not compile; null where nothing ran to an end (the job was canceled)."`
	ExecutionTimeMS int64   `json:"executionTimeMs" doc:"Wall-clock time of the program, milliseconds; a compile step is not counted."`
	MemoryUsageMB   float64 `json:"memoryUsageMb" doc:"The most memory that was seen in use, MiB, to a tenth."`
	TimedOut        bool    `json:"timedOut" doc:"The program ran out of wall-clock or CPU time."`
	// Error is nil for a program that ended with exit code 0.
	Error *string `json:"error" doc:"One sentence on why the program did not succeed; null if its exit code is 0." example:"Execution timed out"`
	// Cost is nil where the operator has set no prices.
	Cost *float64 `json:"cost" doc:"What it cost, in the operator's currency; null where the operator has set no prices."`
}

// Execute runs code and returns what it did, in one request that takes up to half a minute.
// [Client.Run] does more: it takes a whole spec, waits for as long as it takes, and returns a
// job's whole result.
//
// It fails with job.Invalid where the request is wrong, and with a *job.WaitOverError where the
// code has not ended by then. That goes on, as a job, for which [Client.Wait] waits.
func (c *Client) Execute(ctx context.Context, request ExecuteRequest) (Execution, error) {
	var e Execution
	err := c.send(ctx, http.MethodPost, executePath, request, &e)
	return e, err
}
