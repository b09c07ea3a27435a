package job

import (
	"encoding/json"
	"time"
)

// InlineOutput is how many bytes of stdout and of stderr a result holds itself; the
// whole of a longer stream is behind StdoutURL or StderrURL.
const InlineOutput = 64 << 10

// Result is what a job came to: what GET answers and what a webhook receives.
type Result struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// ExitCode is the program's own, 124 after a time-out, 128 + n after signal n,
	// and absent where nothing ran to an end (canceled, internal_error, an input that was gone).
	ExitCode *int `json:"exit_code,omitempty"`
	// Signal names the signal that ended the program: "SIGSEGV".
	Signal string `json:"signal,omitempty"`
	// Limit is the name of the limit that ended the program: "wall_ms", "cpu_ms", "memory_mb", "output_kb",
	// "processes", or "address_space_mb" for a language that gave up as it was refused memory. It is "" for
	// all else, and for a compile step.
	Limit string `json:"limit,omitempty"`
	// Stdout and Stderr are the first 64 KiB, as UTF-8 (bytes that are not become
	// U+FFFD). StdoutURL and StderrURL are set when a stream was longer, or was not
	// UTF-8, and lead to every byte of it.
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	StdoutURL string `json:"stdout_url,omitempty"`
	StderrURL string `json:"stderr_url,omitempty"`
	// StdoutTruncated and StderrTruncated say that the program printed more than limits.output_kb on the
	// stream, and that the rest is nowhere.
	StdoutTruncated bool `json:"stdout_truncated,omitempty"`
	StderrTruncated bool `json:"stderr_truncated,omitempty"`
	// Error says in words what went wrong, where status and exit code don't.
	Error *Error `json:"error,omitempty"`

	Usage     Usage      `json:"usage"`
	Timing    Timing     `json:"timing"`
	Artifacts []Artifact `json:"artifacts"`
	// ArtifactsSkipped accounts for what the job left behind that was not kept, at
	// most [MaxSkipped] entries; ArtifactsSkippedTotal counts all of them.
	ArtifactsSkipped      []Skipped `json:"artifacts_skipped,omitempty"`
	ArtifactsSkippedTotal int       `json:"artifacts_skipped_total,omitempty"`
	Compile               *Compile  `json:"compile,omitempty"`
	// Cost is what the job cost by the operator's prices; nil where there are none, or nothing ran to an end.
	Cost    *Cost   `json:"cost,omitempty" doc:"By the operator's prices; absent where there are none, and where nothing ran to an end."`
	Runtime Runtime `json:"runtime"`
	// LimitsEnforced is "hard" where a cgroup bounds the sandbox, "soft" where the
	// worker watches it.
	LimitsEnforced string `json:"limits_enforced,omitempty"`
	// Problem is the digest of the stored problem that it was graded by; "" for any other job.
	Problem string `json:"problem,omitempty" doc:"The digest of the stored problem that it was graded by."`
	// Verdict is what a graded job came to, and what follows belongs to that: absent for jobs without
	// tests, and for graded ones that no worker came to judge (canceled, internal_error). Score and
	// MaxScore are absent, too, where the verdict is [JudgeError], which says nothing of the program.
	Verdict  Verdict  `json:"verdict,omitempty"`
	Score    *float64 `json:"score,omitempty"`
	MaxScore *float64 `json:"max_score,omitempty"`
	// Tests are in the order of the spec, all of them, and Groups each after those around it.
	Tests  []TestResult  `json:"tests,omitempty"`
	Groups []GroupResult `json:"groups,omitempty"`
	// Attestation is the worker's signed statement about this result, where it has a
	// signing key: package attest and "glovebox verify" check it.
	Attestation *Attestation `json:"attestation,omitempty"`
	// Results are what an execution of a session showed, in its order, at most [MaxShown]; ResultsLeftOut counts the others. Both, and
	// Exception, the error that ended the execution, are the program's word.
	Results        []Shown    `json:"results,omitempty" doc:"Of a session's execution: the value of its last expression and what it displayed, in the order in which they came, at most 64 and 256 KiB of text."`
	ResultsLeftOut int        `json:"results_left_out,omitempty" doc:"How many results more there were."`
	Exception      *Exception `json:"exception,omitempty" doc:"Of a session's execution: the error that ended its code."`
	// Session is what an execution of a session has besides; nil for any other job.
	Session *ExecutionState `json:"session,omitempty"`
	// Approval says who let the job run, where a rule held it; nil for any other.
	Approval *Approval `json:"approval,omitempty" doc:"Who let the job run, where a rule held it."`
	// Attempt counts the tries at this job: 1, or more when a worker was lost.
	Attempt int `json:"attempt"`
	// Worker is the worker that ran the job.
	Worker   string            `json:"worker,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// MaxSkipped bounds Result.ArtifactsSkipped.
const MaxSkipped = 20

// Usage is what the job's processes used, its compile step not counted.
type Usage struct {
	WallMS          int64 `json:"wall_ms"`
	CPUMS           int64 `json:"cpu_ms"`
	MemoryPeakBytes int64 `json:"memory_peak_bytes"`
}

// Timing is when a job passed its stations.
type Timing struct {
	CreatedAt time.Time `json:"created_at"`
	// RunAt and Deadline are the job's own, where it has them.
	RunAt      *time.Time `json:"run_at,omitempty"`
	Deadline   *time.Time `json:"deadline,omitempty"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// QueueMS is from accepted, or from RunAt where that is later, to taken by the worker
	// that ended it.
	QueueMS int64 `json:"queue_ms"`
	// StartupMS is from taken to the program's first instruction.
	StartupMS int64 `json:"startup_ms"`
}

// Artifact is a file that the job left in its directory, or a chart that it drew.
type Artifact struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"`
	// Kind is "chart" for an image, "file" for anything else.
	Kind string `json:"kind"`
	// URL downloads it, without a token, until it expires.
	URL string `json:"url,omitempty"`
	// Chart is what the picture shows, as JSON of a [Chart], where its file says so. It is the program's word, and is not attested: the file is.
	Chart json.RawMessage `json:"chart,omitempty" doc:"What the picture shows, where matplotlib drew it and the file says so. It is the program's word. It is not attested, but the file is, in which it stands."`
}

// The kinds of artifact.
const (
	KindChart = "chart"
	KindFile  = "file"
)

// Skipped is something the job left that was not kept, and why.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Compile is what the compile step said, for runtimes that have one.
type Compile struct {
	ExitCode int    `json:"exit_code"`
	Output   string `json:"output"`
	WallMS   int64  `json:"wall_ms"`
}

// Runtime is what the job ran on.
type Runtime struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Image       string `json:"image,omitempty"`
	ImageDigest string `json:"image_digest,omitempty"`
	OCIRuntime  string `json:"oci_runtime,omitempty"`
	// Isolation is what kept the program from the host, where that was not gVisor: [Process]; "" for gVisor.
	Isolation Isolation `json:"isolation,omitempty" doc:"What kept the program from the host, where that was not gVisor: process. Absent for gVisor."`
	// Snapshot is the SHA-256, in hexadecimal, of the snapshot from which the sandbox went on; "" if it
	// started with its first process.
	Snapshot string `json:"snapshot,omitempty"`
}
