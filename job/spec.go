package job

import (
	"encoding/base64"
	"errors"
	"slices"
	"time"
)

// SpecVersion is the version of [Spec] that this build writes and understands. A
// worker hands a job of a newer version back to the queue.
//
// Version 2 has files that are kept elsewhere ([File.Kept]), and a deadline; version 3 has Fresh,
// version 4 Tests, version 5 limits of the compile step, Limits.AddressSpaceMB, Limits.StackMB,
// Commands, StdinBase64, MergeStderr and TruncateOutput, version 6 checkers that are programs, version 7 Isolation, version 8 Interactive,
// version 9 checkers of kind testlib, further passes, and arguments of a test for the default checker, version 10 checkers that are interactive,
// version 11 Placement, version 12 further passes with a checker that is interactive,
// version 13 Group.CheckerScore.
const SpecVersion = 13

// Spec is what a producer submits: code, what it reads, what it may use, and where
// to post the result.
type Spec struct {
	// SpecVersion is the version of this contract that the spec was written for. What is
	// in the spec decides which version a worker has to know ([Spec.Needs]).
	SpecVersion int `json:"spec_version,omitempty" doc:"Version of this contract; may be left out." example:"1"`
	// Runtime names a language image, or one of its aliases: "python", "node", "bash".
	// Exclusive with Image.
	Runtime string `json:"runtime,omitempty" doc:"Name or alias of a runtime; GET /v1/runtimes lists them. Either this or image." example:"python"`
	// Image is an image of one's own to run in instead of a runtime's, with its digest:
	// "registry.example.com/team/tool@sha256:…". The operator's list says which.
	Image string `json:"image,omitempty" doc:"An image to run in instead of a runtime's, name@sha256:digest; GET /v1/runtimes lists those that the operator allows." example:"registry.example.com/team/tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
	// Command is what an Image runs, in the job's directory: the program, found in PATH
	// (/usr/local/bin, /usr/bin, /bin and their sbin) unless it has a slash, and its
	// arguments. Nothing of the image's own configuration has a say in it.
	Command []string `json:"command,omitempty" doc:"With image: the program to run, and its arguments. The image's own entry point, command, user, working directory and environment are not used."`
	// Source is the main file's text. With an Image, Entrypoint says what the file is called.
	Source string `json:"source,omitempty" doc:"The main file's text. Either this or files[]." example:"print('hello')"`
	// Files are written to the job's directory before it starts. Beside Source they
	// are further inputs; without Source, Entrypoint names the one to run.
	Files []File `json:"files,omitempty" doc:"Files placed in the job's directory; with no source, entrypoint names the one to run."`
	// Entrypoint names the file to run. Defaults to the runtime's own file name. With an
	// Image it only names the file that Source becomes: Command says what runs.
	Entrypoint string `json:"entrypoint,omitempty" doc:"The file to run, one of files[]; defaults to the runtime's file name (main.py). With image, the name that source gets."`
	// Args are the program's arguments, after its own name. An Image's are in Command.
	Args []string `json:"args,omitempty" doc:"The program's arguments. With image they are in command."`
	// Commands are run by a shell in the runtime's image, instead of the runtime's own commands. The
	// files need not be in its language then, and none is needed. Not with Image.
	Commands *Commands `json:"commands,omitempty" doc:"Command lines for bash in the runtime's image, in place of the runtime's own commands. source still becomes the file that entrypoint or the runtime names; no file is needed. Not with image."`
	// Env is added to the runtime's environment.
	Env map[string]string `json:"env,omitempty" doc:"Environment variables added to the runtime's own."`
	// Secrets are names of secrets that the tenant has stored. Each becomes an environment
	// variable of that name, and is masked in what the program prints.
	Secrets []string `json:"secrets,omitempty" doc:"Names of secrets that the tenant has stored (PUT /v1/secrets/{name}): each becomes an environment variable of that name, and *** in what the program prints." example:"[\"API_TOKEN\"]"`
	// Stdin is what the program reads from its standard input.
	Stdin string `json:"stdin,omitempty" doc:"What the program reads from standard input."`
	// StdinBase64 is the same as bytes, in standard base64. Exclusive with Stdin and Tests.
	StdinBase64 string `json:"stdin_base64,omitempty" doc:"Instead of stdin: bytes, in standard base64. Not with tests."`
	// Interactive keeps the program's standard input open behind Stdin: what follows is sent while it runs, as an [Input]. It ends with
	// [Input.EOF], or with the program. Not with Tests.
	Interactive bool `json:"interactive,omitempty" doc:"Keep standard input open behind stdin, for what is sent while the program runs: POST /v1/jobs/{id}/input. Not with tests."`
	// MergeStderr gives the program one pipe for stdout and stderr: what it prints is in Stdout, in the
	// order in which it was printed. Stderr has what Glovebox says of the job.
	MergeStderr bool `json:"merge_stderr,omitempty" doc:"What the program prints on stderr goes to stdout, in order; stderr then has only what Glovebox itself says."`
	// TruncateOutput lets a program that prints more than Limits.OutputKB go on. The rest is dropped, and the
	// status is that of its end.
	TruncateOutput bool `json:"truncate_output,omitempty" doc:"Beyond limits.output_kb, drop the output and let the program go on, instead of stopping it; stdout_truncated and stderr_truncated of the result say so."`
	// Limits bound the run. A field that is 0 or absent has the runtime's default.
	Limits Limits `json:"limits,omitempty" doc:"What the job may use; an absent field has the runtime's default."`
	// Callback is where the signed result is posted, if anywhere.
	Callback *Callback `json:"callback,omitempty" doc:"Where the signed result is posted."`
	// RetentionSeconds is how long the job, its result and its files are kept after its
	// end. Defaults to the tenant's retention, which is also the most.
	RetentionSeconds int64 `json:"retention_seconds,omitempty" minimum:"0" doc:"How long the job, its result and its files are kept after its end, seconds; the tenant's retention is the default and the most. A webhook that has not been delivered by then is given up." example:"86400"`
	// Metadata is carried through to the result, unread.
	Metadata map[string]string `json:"metadata,omitempty" doc:"Carried through to the result, unread."`
	// RunAt is the earliest time for the job to start, to the millisecond, up to
	// [MaxRunAhead] from now. One that has passed, or none, means at once.
	RunAt time.Time `json:"run_at,omitzero" doc:"The earliest time for the job to start, at most 30 days ahead. It starts within some 2 seconds of it if a worker is free. Absent or past: at once." example:"2026-11-20T09:00:00Z"`
	// Deadline ends the job as canceled, with an error of code [CodeDeadlineExceeded], if
	// it has not ended by then, be it queued or running. Defaults to none.
	Deadline time.Time `json:"deadline,omitzero" doc:"A job that has not ended by then ends as canceled, with error.code deadline_exceeded, whether it waits or runs." example:"2026-11-20T10:00:00Z"`
	// IdempotencyKey names the job for whoever may have to submit it again: for 24 hours the
	// same spec under the same key is the same job, another spec is a conflict. Up to
	// [MaxKeyBytes] printable ASCII characters. Not for the jobs of a batch.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. For 24 hours, the same job under the same key is answered with the first one and not run again; another job under it is a conflict (409), and once the first one is no longer kept, the answer is 410 with its id. The header Idempotency-Key means the same. Not for jobs of a batch, which has a key of its own." example:"order-1234"`
	// Priority is "high", "normal" or "low". Defaults to "normal".
	Priority Priority `json:"priority,omitempty" enum:"high,normal,low" doc:"Defaults to normal."`
	// Stream keeps events of the run from its start, for a client that watches it later, and up to a
	// minute after its end. Without it they are kept from when somebody watches on; then,
	// too, the first one sees what was printed before.
	Stream bool `json:"stream,omitempty" doc:"Keep events for watchers although nobody watches yet: GET /v1/jobs/{id}/events replays them up to a minute after the job's end."`
	// Fresh asks for a sandbox in which nothing was started before the job came: none that waited,
	// and none that goes on from a snapshot. It takes longer to start.
	Fresh bool `json:"fresh,omitempty" doc:"Start a sandbox for this job alone, from nothing: none that waited started, and none that goes on from a snapshot. It takes longer; docs/security.md says what it is for."`
	// Isolation is the least that the submitter accepts: less than gVisor has to be allowed by the operator, and such a job may still
	// run in gVisor. Defaults to [GVisor]. What it ran in is in Runtime.Isolation of its result.
	Isolation Isolation `json:"isolation,omitempty" enum:"gvisor,process" doc:"The least isolation that you accept: gvisor (the default), or process where the operator allows it, for code that you trust. A job never runs in less than it says; runtime.isolation of its result says what it ran in." example:"gvisor"`
	// Placement are labels that a worker has to have to run the job, each with that very value, up to [MaxPlacement]. What the tenant's
	// terms have is added. Defaults to none: any worker that isn't kept for others.
	Placement Labels `json:"placement,omitempty" doc:"Labels that a worker has to have to run the job, each with this very value: up to 8. Those that the operator has tied your tenant to are added. A job whose labels no worker has at the moment waits." example:"{\"zone\":\"a\"}"`
	// Problem is the digest of a stored problem that grades the program: its tests, checker, groups and limits, and what it puts over the
	// files, are taken for this job as it is submitted. The spec that is stored has both.
	Problem string `json:"problem,omitempty" minLength:"1" doc:"Instead of tests, checker and groups: the digest of a problem that you have stored (POST /v1/problems), which grades the program. The job is then as if all of that had been sent with it." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	// Tests grade the program: it is compiled once, run on each of them in one sandbox, and judged
	// outside of that. Limits hold for each test. Up to [MaxTests]. Exclusive with Stdin, Image,
	// Secrets and Stream; no artifacts are kept.
	Tests []Test `json:"tests,omitempty" minItems:"1" doc:"Grade the program: it is compiled once, run on each of these tests in one sandbox, and judged outside of that. Limits hold for each test. Up to 1000, in the order in which they are judged. Not together with stdin, image, secrets or stream; no artifacts are kept."`
	// Checker compares the outputs with the answers. Defaults to the default checker. Only with Tests.
	Checker *Checker `json:"checker,omitempty" doc:"With tests: how outputs are compared with answers; defaults to token by token."`
	// Groups say how verdicts and scores of tests add up. Defaults to one group, the root. Only with Tests.
	Groups []Group `json:"groups,omitempty" doc:"With tests: how their verdicts and scores add up; defaults to all or nothing."`
}

// RunFile has a job that names no program run the file: its only one, before others are put beside it.
func (s *Spec) RunFile(name string) {
	if s.Source == "" && s.Entrypoint == "" && s.Commands == nil && s.Image == "" {
		s.Entrypoint = name
	}
}

// Needs is the version that a worker has to know to run the job.
func (s Spec) Needs() int {
	l := s.Limits
	if slices.ContainsFunc(s.Groups, func(g Group) bool { return g.CheckerScore != "" }) {
		return 13
	}
	if s.Checker != nil && s.Checker.Interactive && s.Checker.Passes > 1 {
		return 12
	}
	if len(s.Placement) > 0 {
		return 11
	}
	if s.Checker != nil && s.Checker.Interactive {
		return 10
	}
	if c := s.Checker; c != nil && (c.Kind == CheckTestlib || c.Passes > 1) {
		return 9
	}
	if s.CheckerProgram() == nil && slices.ContainsFunc(s.Tests, func(t Test) bool { return len(t.CheckerArgs) > 0 }) {
		return 9
	}
	if s.Interactive {
		return 8
	}
	if s.Isolation.Or() != GVisor {
		return 7
	}
	if s.CheckerProgram() != nil {
		return 6
	}
	if s.Commands != nil || s.StdinBase64 != "" || s.MergeStderr || s.TruncateOutput || max(l.CompileWallMS, l.CompileMemoryMB, l.AddressSpaceMB, l.StackMB) > 0 {
		return 5
	}
	if s.Graded() {
		return 4
	}
	if s.Fresh {
		return 3
	}
	if slices.ContainsFunc(s.Files, File.Kept) || !s.Deadline.IsZero() {
		return 2
	}
	return 1
}

// StdinBytes returns what the program reads from standard input. It fails when StdinBase64 is no base64.
func (s Spec) StdinBytes() ([]byte, error) {
	return File{Content: s.Stdin, ContentBase64: s.StdinBase64}.Bytes()
}

// Graded reports whether the job has tests.
func (s Spec) Graded() bool { return len(s.Tests) > 0 }

// File is one input: its text in Content, its bytes in ContentBase64, or where it is
// kept, in Artifact or Upload.
type File struct {
	Name          string `json:"name" doc:"Relative path below the job's directory, such as data/in.csv." example:"data.csv"`
	Content       string `json:"content,omitempty" doc:"The file's text."`
	ContentBase64 string `json:"content_base64,omitempty" doc:"The file's bytes in standard base64, instead of content."`
	// Artifact is "<job id>/<name>": an artifact of a job of the same tenant that has ended.
	// It has to be there when the job is submitted, and still when it starts: else the job
	// fails, with error code input_gone.
	Artifact string `json:"artifact,omitempty" doc:"Instead of content: an artifact of another job of yours that has ended, as <job id>/<name>. Where it is gone by the time the job starts, the job fails (error code input_gone)." example:"default-abcdefghijklmnopqrstuvwxyz/plot.png"`
	// Upload is the SHA-256, in hex, of content that was uploaded: POST /v1/uploads,
	// producer.UploadFile. It has to be there when the job is submitted, and when it starts.
	Upload string `json:"upload,omitempty" doc:"Instead of content: the SHA-256, in hex, of content that you have uploaded (POST /v1/uploads)." example:"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`
	// Size and SHA256 are what a file that is kept has to have. Submitting the job fills
	// them in.
	Size   int64  `json:"size,omitempty" minimum:"0" doc:"With artifact or upload: what its size has to be, bytes; filled in if absent."`
	SHA256 string `json:"sha256,omitempty" doc:"With artifact or upload: what its SHA-256 has to be, in hex; filled in if absent."`
}

// Kept reports whether the file's content is not in the spec.
func (f File) Kept() bool { return f.Artifact != "" || f.Upload != "" }

// ErrKept is what Bytes answers for a file whose content is kept elsewhere.
var ErrKept = errors.New("its content is not in the spec")

// Bytes returns what the file holds. It fails when ContentBase64 is no base64, and with
// ErrKept.
func (f File) Bytes() ([]byte, error) {
	if f.Kept() {
		return nil, ErrKept
	}
	if f.ContentBase64 == "" {
		return []byte(f.Content), nil
	}
	return base64.StdEncoding.DecodeString(f.ContentBase64)
}

// Callback is where events of a job are posted, signed per Standard Webhooks.
type Callback struct {
	URL string `json:"url" doc:"An http or https URL. One whose host is an address that no webhook may reach (loopback, private, link-local, another port than 80 and 443…) is refused, unless the operator allows it; where a name leads is looked at as each attempt is made." example:"https://example.com/hook"`
	// Events defaults to ["job.completed"], the only event there is today.
	Events []string `json:"events,omitempty" doc:"Events to post; defaults to [\"job.completed\"]."`
}

// EventCompleted is posted once, when a job has reached its final status.
const EventCompleted = "job.completed"

// Priority orders jobs between queues. No priority starves another.
type Priority string

// The priorities; the zero value means [Normal].
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

// Summary is the state of a job that has no result yet, as GET answers it. Once the
// job has ended, GET answers its [Result], which has all of these fields too but priority.
type Summary struct {
	ID       string   `json:"id"`
	Status   Status   `json:"status"`
	Runtime  Runtime  `json:"runtime"`
	Priority Priority `json:"priority"`
	Timing   Timing   `json:"timing"`
	Attempt  int      `json:"attempt"`
	// Problem is the digest of the stored problem that it is graded by; "" for any other job.
	Problem  string            `json:"problem,omitempty" doc:"The digest of the stored problem that it is graded by."`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Placement are the labels that its worker has to have, those of the tenant's terms among them.
	Placement Labels `json:"placement,omitempty" doc:"Labels that its worker has to have."`
	// Waits is why a queued job waits, where it is not only for its turn; "" otherwise.
	Waits string `json:"waits,omitempty" doc:"Of a queued job: what it waits for, where that is not only its turn." example:"no worker that takes jobs has the labels gpu=yes"`
	// Hold says why the job is [Held]; nil of any other.
	Hold *Hold `json:"hold,omitempty" doc:"Of a job that is held: why, and until when."`
}
