package sandbox

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Program is what to run.
type Program struct {
	JobID string // for the container's labels
	Epoch int
	// Image names an image in the host's store. A name with a digest ("name@sha256:…") means
	// the image with that digest, or none.
	Image string
	// Compile, if set, is run first, and has to succeed.
	Compile []string
	Command []string
	// Env is added to PATH, HOME, TMPDIR and LANG, and may replace them. The image's own
	// environment is not used.
	Env map[string]string
	// Files are written to /work, where the program starts.
	Files []File
	Stdin []byte
	// Input, if set, is what the program is sent while it runs: its standard input goes on behind Stdin. Neither Tests nor Turns have it.
	Input Input
	// Interactive, with Tests, gives each of them an Input of its own.
	Interactive bool
	// MergeStderr gives the program one stream for both its outputs, its stdout. What Glovebox itself says
	// of it still comes on stderr.
	MergeStderr bool
	// TruncateOutput lets a program that prints more than its limit go on; the rest is dropped.
	TruncateOutput bool
	// Limits must be filled (job.Limits.Filled).
	Limits job.Limits
	// Isolation is the least that the program may be run in: a sandbox that gives less must refuse it. "" is gVisor.
	Isolation job.Isolation
	// Fresh asks for a sandbox that is started for the program, from nothing: neither a warm one nor
	// one that goes on from a snapshot.
	Fresh bool
	// Tests, if set, are what the program is run on, one after another, in the place of one run with
	// Stdin: each run has Files and what Compile made, and nothing of the runs before it. Limits hold
	// for each run. There are no artifacts, and of stderr at most StderrKB of each run.
	Tests Tests
	// ForkTests lets the sandbox start Command once, and have it make the process of each of Tests: it is the runtime's own, for any file.
	ForkTests bool
	// NoInternet refuses sockets of the internet's protocols to each of Tests, also between its own processes: the ports that one has used are
	// seen by the next for a minute.
	NoInternet bool
	// StderrKB, KiB, bounds what comes of stderr in each of Tests; the rest is dropped. 0: 64.
	StderrKB int64
	// Turns, if set, make Command an interpreter that executes what they give it, and keeps its state from one to the
	// next (runtimes.Runtime.Session). There is neither a Compile step nor Stdin, and no process runs between two turns.
	// Limits hold for each turn, but those of memory, processes and disk for the session as a whole.
	Turns Turns
	// Languages, with Turns, are the commands of further interpreters, by the names by which turns ask for them.
	Languages map[string][]string
	// Interpreter, with Turns, is what a preloaded process becomes that would run a file of that name. nil: none does, and Command is
	// started.
	Interpreter *File
	// From, with Turns, is where the program goes on: it has the sandbox's files, its interpreters and all that they know. Command, Image, Env and Languages are those of the program that it was,
	// and so are the limits of memory, processes and disk. Run closes it.
	From Fork
}

// Input is what a program is sent while it runs. Its method is called from one goroutine, for each sandbox that is tried.
type Input interface {
	// Next waits for the inputs behind the first n, and returns at least one. An error means that none will come any more; ctx ends
	// with the program.
	Next(ctx context.Context, n int) ([]job.Input, error)
}

// Turns are a session's executions. Its methods are called in turn, from one goroutine.
type Turns interface {
	// Next waits for the next turn; ok is false when none will come any more. ctx ends with the sandbox, too.
	Next(ctx context.Context) (t Turn, ok bool, err error)
	// Ended takes what became of it. It isn't called for a turn that the sandbox did not survive: then Run returns
	// an error, or an [Outcome] that is the turn's and whose Lost is set.
	Ended(ctx context.Context, o TurnOutcome) error
}

// Turn is one execution of a session.
type Turn struct {
	// Files are put there before Code is executed, in the place of what has their names.
	Files []File
	// Code has no NUL, and at most limits.source_kb.
	Code []byte
	// Wall is how long it may take; the first has the start of its interpreter in it.
	Wall time.Duration
	// Interrupt ends it when it is closed, and keeps the state if the interpreter can. nil: nothing does.
	Interrupt <-chan struct{}
	// Restart ends it when it is closed, and its interpreter with it. nil: nothing does.
	Restart <-chan struct{}
	// Context is the one whose interpreter executes it, and Contexts are the session's others, each with the generation of its interpreter. Interpreters of
	// any other context or generation are ended before it, and its own is started where there is none. The zero Context is job.MainContext.
	Context  Context
	Contexts map[string]int
	// Anew has the interpreter draw its random numbers anew: it goes on from a fork, and so does another with the same ones.
	Anew bool
	// Sink takes what the turn makes: of files, those that have changed since the turn before.
	Sink Sink
	// Pause makes it no turn: the sandbox is to be given up until the next one, which goes on from where this one is. Interrupt ends the attempt.
	Pause bool
	// Fork makes it no turn: what the sandbox is, is written to the disk for another program to go on from, and given to [Forks]. The sandbox goes on.
	Fork bool
}

// Fork is a session as it was between two turns, on the disk. One program can go on from there.
type Fork interface {
	// Bytes is what it takes of the disk.
	Bytes() int64
	// Close frees that.
	Close()
}

// Forks is what [Turns] are, besides, that ask for forks.
type Forks interface {
	// Forked is given the fork, which is its own from then on, or why there is none. The session goes on.
	Forked(f Fork, err error)
}

// Pauses is what [Turns] are, besides, that ask for a pause. After one that came about, Next is called without a sandbox: what it
// gives then has to have its memory.
type Pauses interface {
	// Paused is told that the sandbox is gone and its memory free. Its state takes so many bytes of the disk.
	Paused(bytes int64, took time.Duration)
	// Stayed is told why there is no pause: with ErrWanted, as it was interrupted. The session goes on.
	Stayed(why error)
	// Resumed is told that a sandbox goes on with the session.
	Resumed(took time.Duration)
}

// Context is one of a session's interpreters.
type Context struct {
	Name       string
	Generation int
	// Language is one of [Program.Languages], "" for the program's Command.
	Language string
	// Directory is where it is started, below /work; "" for that itself.
	Directory string
}

// TurnOutcome is what became of a turn; other fields are as in [Outcome].
type TurnOutcome struct {
	TestOutcome
	Limit                            string
	StdoutTruncated, StderrTruncated bool
	// ShownLeftOut counts what was shown and not given to the sink.
	ShownLeftOut int
	Skipped      []job.Skipped
	SkippedTotal int
	// StateLost says that the interpreter ended with the turn. The next of its context has a new one, and the same files.
	StateLost bool
	// LostContexts are the session's other contexts whose interpreters ended, too.
	LostContexts []string
	// Interrupted says that the turn ended by its Interrupt or Restart; its Status is Canceled.
	Interrupted bool

	LimitsEnforced, OCIRuntime, Snapshot string
}

// Tests are a program's tests. Its methods are called in turn, from one goroutine, and what the program
// prints meanwhile goes to the [Sink].
type Tests interface {
	// Next returns the next test, once nothing runs any more of the one before. ok is false when there
	// is none. It wraps the error of a test that can't be had.
	Next(ctx context.Context) (t Test, ok bool, err error)
	// Ended takes what became of it. It isn't called for a test that the sandbox did not survive: that
	// one's outcome is the run's [Outcome], whose Lost is set. A sandbox can be lost after a test, too,
	// when Ended was called for all that Next gave.
	Ended(ctx context.Context, o TestOutcome) error
}

// Test is one run of a program that is to be graded.
type Test struct {
	// Args are added to the program's Command.
	Args []string
	// Stdin is what the program reads; its Name is for errors only.
	Stdin File
	// Input, where the program is Interactive, is what it is sent behind that while it runs. ctx of its Next ends with the run.
	Input Input
}

// Test returns what the outcome says of the test that the sandbox did not survive.
func (o Outcome) Test() TestOutcome { return TestOutcome{o.Status, o.ExitCode, o.Signal, o.Usage} }

// TestOutcome is what became of a program in one test; the fields are as in [Outcome].
type TestOutcome struct {
	Status   job.Status
	ExitCode int
	Signal   string
	Usage    job.Usage
}

// File is one input: its Content, or how to read that.
type File struct {
	Name string
	// Content, beside Open, is what that reads, where it is known before.
	Content []byte
	// Open, if set, is called once for each sandbox, when it is the file's turn, for Size bytes. Run
	// wraps the error of Open, or of a Read.
	Open func(ctx context.Context) (io.ReadCloser, error)
	// Size is -1 for a [Test]'s Stdin whose size shows as it is read.
	Size int64
}

// ShownSink is a [Sink] of a turn that takes what the interpreter shows, too.
type ShownSink interface {
	Sink
	// Shown takes a piece of the lines in which it says that, as the interpreter wrote them. It must not keep p. All pieces together are bounded
	// (agentwire.MaxShown).
	Shown(p []byte) error
}

// CompiledSink is a [Sink] that is told when the compile step has ended, before what the program makes.
type CompiledSink interface {
	Sink
	Compiled(c job.Compile)
}

// Sink takes what a program makes, in order, from one goroutine. A method that blocks
// holds the program back, not the worker. An error ends the run, which returns it.
type Sink interface {
	// Stdout and Stderr take what was printed. They must not keep p.
	Stdout(p []byte) error
	Stderr(p []byte) error
	// Artifact takes a file of exactly size bytes. It may read less, or nothing. A
	// file that breaks off is a read error, never an early io.EOF. ctx ends with the
	// run's.
	Artifact(ctx context.Context, name string, size int64, r io.Reader) error
}

// Outcome is what became of a program.
type Outcome struct {
	Status job.Status
	// ExitCode is the program's, 124 after a time-out, 128 + n after signal n; or the
	// compile step's, if that failed.
	ExitCode int
	Signal   string
	// Limit is the name of the limit that ended the program, as [job.Result] has it.
	Limit string
	// StdoutTruncated and StderrTruncated say that the program printed more than the sink was given.
	StdoutTruncated, StderrTruncated bool
	// ShownLeftOut counts what was shown in a turn and not given to the sink.
	ShownLeftOut int
	Usage        job.Usage
	// Startup is from the call of Run to the program's first instruction.
	Startup time.Duration
	Compile *job.Compile
	// Silent says that the end of the compile step, of the run or of a test wasn't heard of when its time was up, and for some seconds more: it may be the
	// sandbox that hangs, and not what runs in it.
	Silent bool
	// Skipped lists what the program left that is no artifact, at most job.MaxSkipped
	// entries; SkippedTotal counts all.
	Skipped      []job.Skipped
	SkippedTotal int
	// LimitsEnforced is "hard" or "soft".
	LimitsEnforced string
	OCIRuntime     string
	// Isolation is what the sandbox was; "" is gVisor.
	Isolation job.Isolation
	// ImageDigest is that of the image that was run, in the host's store: "sha256:…".
	ImageDigest string
	// Snapshot is the SHA-256, in hexadecimal, of the snapshot from which the sandbox went on;
	// "" if it started with its first process.
	Snapshot string
	// Kernel is what the sandbox's /proc/version says.
	Kernel string
	// Warm says that the sandbox was started before the call of Run.
	Warm bool
	// Preloaded says that the process of the program, or of its compile step, was, too.
	Preloaded bool
	// Lost says that the sandbox ended in a test, or before the first, with what else the outcome says;
	// or after one, which has its outcome. Tests that were not run need another sandbox.
	Lost bool
	// Timing says where the time before the program went.
	Timing Timing
}

// Start is how the program was started: "cold", "warm" (in an idle sandbox), "preloaded" (in an
// idle process of one) or "restored" (in a process of a sandbox that went on from a snapshot for it).
func (o Outcome) Start() string {
	switch {
	case o.Preloaded && !o.Warm:
		return "restored"
	case o.Preloaded:
		return "preloaded"
	case o.Warm:
		return "warm"
	}
	return "cold"
}

// Starting is Startup without the compile step.
func (o Outcome) Starting() time.Duration {
	if o.Compile == nil {
		return o.Startup
	}
	return max(o.Startup-time.Duration(o.Compile.WallMS)*time.Millisecond, 0)
}

// Timing is how long after the call of Run each step was done.
type Timing struct {
	Created, Running, Ready, Started, Exited, Ended time.Duration
}

// defaultEnv is a program's environment, unless its runtime or its job says otherwise.
var defaultEnv = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	// Not /work: what tools leave at home (caches, histories) is no artifact.
	"HOME":   "/tmp",
	"TMPDIR": "/tmp",
	"LANG":   "C.UTF-8",
}

// With returns the program with more in its environment.
func (p Program) With(env map[string]string) Program {
	all := maps.Clone(env)
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range p.Env {
		if _, given := all[k]; !given {
			all[k] = v
		}
	}
	p.Env = all
	return p
}

// Environment returns the whole environment of the program.
func (p Program) Environment() map[string]string {
	env := make(map[string]string, len(defaultEnv)+len(p.Env))
	for k, v := range defaultEnv {
		env[k] = v
	}
	for k, v := range p.Env {
		env[k] = v
	}
	return env
}

// argBytes is the size of arguments and environment as execve counts it. The compile step's
// arguments count, too, so that all fit into the protocol's Start.
func (p Program) argBytes() int {
	n := 0
	for _, a := range slices.Concat(p.Compile, p.Command) {
		n += len(a) + 1
	}
	for k, v := range p.Env {
		n += len(k) + len(v) + 2
	}
	return n
}

// maxArgBytes is what Linux allows a program's arguments and environment by default.
const maxArgBytes = 2 << 20

// Unrunnable says why no sandbox could run the program, or "".
func (p Program) Unrunnable() string {
	if p.argBytes() > maxArgBytes {
		return "glovebox: argument list too long"
	}
	return ""
}

// CostMB is what a sandbox may use beside its job, MiB: gVisor, the agent, and what the
// host's kernel keeps for them. Measured were 17 to 28 for Python and its charts, 39 for 64
// processes, 233 for 1024. With less than 48 for 64 of them the host's limit can come
// before the agent's, which knows more to say.
func CostMB(l job.Limits) int64 { return 48 + l.Processes/4 }
