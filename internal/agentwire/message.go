package agentwire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"github.com/glovebox-run/glovebox/job"
)

// MaxStart bounds the JSON of [Start].
const MaxStart = 16 << 20

// maxGrant bounds one credit frame and the credit outstanding.
const maxGrant = 1 << 30

// MaxCompileOutput is how much of a compile step's output is kept.
const MaxCompileOutput = 64 << 10

// MaxShown is how many bytes an interpreter may show in one turn: the texts of [job.InlineShownTotal], which JSON can make larger, and what is
// around them. The rest is dropped.
const MaxShown = 512 << 10

// MaxTestStderr is how much a program may say on stderr in one test, unless [Start.StderrKB] says more; the rest is dropped.
const MaxTestStderr = 64 << 10

// StderrOfTest is how many bytes of a run's stderr are sent where the start says kb.
func StderrOfTest(kb int64) int64 { return cmp.Or(kb<<10, MaxTestStderr) }

// Ready is the agent's first word.
type Ready struct {
	Protocol int    `json:"protocol"`
	Kernel   string `json:"kernel"` // /proc/version
}

// Prepare asks for a process that is started before its program is known, and that may
// become it: the command's own process, which waits for the rest of its arguments.
type Prepare struct {
	Protocol int      `json:"protocol"`
	Command  []string `json:"command"`
	// Compile: it is to become the program's compile step, and not the program.
	Compile bool              `json:"compile,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Prepared says what the prepared process uses, or why there is none.
type Prepared struct {
	CPUMS       int64  `json:"cpu_ms"`
	MemoryBytes int64  `json:"memory_bytes"`
	Failure     string `json:"failure,omitempty"`
}

// Start is everything about a run except its inputs.
type Start struct {
	Protocol int `json:"protocol"`
	// Compile is run first, if it is there, and has to succeed.
	Compile []string `json:"compile,omitempty"`
	Command []string `json:"command"`
	// Env is the job's whole environment.
	Env map[string]string `json:"env,omitempty"`
	// Limits are filled: no field is 0 but those whose 0 means none.
	Limits job.Limits `json:"limits"`
	// PreparedMB, MiB, is what the prepared process may hold when it becomes the program,
	// beside limits.memory_mb; or its compile step, beside limits.compile_memory_mb. 0: it must not.
	PreparedMB int64 `json:"prepared_mb,omitempty"`
	// MergeStderr: what the program prints on stderr is part of its stdout.
	MergeStderr bool `json:"merge_stderr,omitempty"`
	// TruncateOutput: a program that prints more than its limit goes on, and the rest is dropped.
	TruncateOutput bool `json:"truncate_output,omitempty"`
	// Interactive: the program's stdin goes on behind what comes before Go; with Tests, in each of them.
	Interactive bool `json:"interactive,omitempty"`
	// Tests: after Go the program waits to be run on tests, each of which follows it.
	Tests bool `json:"tests,omitempty"`
	// Forks, with Tests: the command is started once, and makes the process of each test. nil: each test starts it.
	Forks *Forks `json:"forks,omitempty"`
	// NoInternet, with Tests: none of them gets a socket of the internet's protocols.
	NoInternet bool `json:"no_internet,omitempty"`
	// StderrKB, with Tests, is how much of each run's stderr is sent, KiB. 0: [MaxTestStderr].
	StderrKB int64 `json:"stderr_kb,omitempty"`
	// Session: the command is an interpreter that gets code in turns, and keeps its state from one to the next.
	Session bool `json:"session,omitempty"`
	// Become is the command, in place of Command, of a prepared process that becomes a session's interpreter. Its code is in the files that follow.
	Become []string `json:"become,omitempty"`
	// Languages are the commands of a session's other interpreters, by the names by which turns ask for them.
	Languages map[string][]string `json:"languages,omitempty"`
}

// Forks is how a command is started that makes the processes of tests: runtimes/README.md says what it has to do then.
type Forks struct {
	// Words are those of the runtime's words that the program has in it.
	Words []string `json:"words,omitempty"`
	// MemoryMB, MiB, is what it may hold beside a test's limits.memory_mb.
	MemoryMB int64 `json:"memory_mb"`
}

// Test begins one run of the program. What it reads from stdin follows.
type Test struct {
	// Args are added to the start's command.
	Args []string `json:"args,omitempty"`
}

// Turn begins one execution in a session. Its code follows, as stdin data does elsewhere.
type Turn struct {
	WallMS int64 `json:"wall_ms"`
	// Context is the one whose interpreter executes it; "" is [job.MainContext].
	Context string `json:"context,omitempty"`
	// Generation is its interpreter's. Where the agent has one of another generation, that is ended, and a new one executes the turn.
	Generation int `json:"generation,omitempty"`
	// Language names the command of an interpreter that is started for the turn; "" is that of the start. [job.FilesLanguage] has none: the agent executes
	// the code, a [job.FileCommand] or nothing, itself.
	Language string `json:"language,omitempty"`
	// Directory is where such an interpreter works, below the job's directory; "" is that itself. It is made if it is not there.
	Directory string `json:"directory,omitempty"`
	// Contexts are the session's other contexts, and the generations of their interpreters. Whatever other interpreters there are, they are ended before the
	// turn.
	Contexts map[string]int `json:"contexts,omitempty"`
	// Anew has the interpreter draw anew what was random before: another session goes on from the same state.
	Anew bool `json:"anew,omitempty"`
}

func (t Turn) check(languages map[string][]string) error {
	switch {
	case t.WallMS <= 0 || t.WallMS > maxMS:
		return violation("turn with a limit of %d ms", t.WallMS)
	case t.Context != "" && !job.ValidContext(t.Context):
		return violation("turn in the context %q", Printable(t.Context, 40))
	case t.Generation < 0:
		return violation("turn of generation %d", t.Generation)
	case t.Language == job.FilesLanguage && t.Name() != job.MainContext:
		return violation("turn for files in the context %q", Printable(t.Context, 40))
	case t.Language != "" && t.Language != job.FilesLanguage && languages[t.Language] == nil:
		return violation("turn in the language %q, which the start has not", Printable(t.Language, 40))
	case t.Directory != "" && job.CheckName(t.Directory) != "":
		return violation("turn in the directory %q", Printable(t.Directory, 80))
	case len(t.Contexts) >= job.MaxContexts:
		return violation("turn beside %d contexts", len(t.Contexts))
	}
	for name := range t.Contexts {
		if !job.ValidContext(name) || name == t.Name() {
			return violation("turn beside the context %q", Printable(name, 40))
		}
	}
	return nil
}

// Name is the turn's context's.
func (t Turn) Name() string { return cmp.Or(t.Context, job.MainContext) }

// Turned is the end of a turn: nothing of the session runs until the next.
type Turned struct {
	// SkippedTotal counts what was not sent, as that of [End].
	SkippedTotal int `json:"skipped_total"`
}

// Started says that the program's first instruction is about to come.
type Started struct {
	// Preloaded: the prepared process is the program's.
	Preloaded bool `json:"preloaded,omitempty"`
}

// Refused says why nothing of the job is run: the job asks for more than its own limits allow.
type Refused struct {
	Message string `json:"message"`
}

// FileBegin announces an input file.
type FileBegin struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Compiled is how the compile step ended.
type Compiled struct {
	ExitCode int   `json:"exit_code"`
	WallMS   int64 `json:"wall_ms"`
	// Preloaded: the prepared process was the compile step's.
	Preloaded bool `json:"preloaded,omitempty"`
}

// Cause is why the job's main process ended.
type Cause string

// The causes.
const (
	Exited Cause = "exited" // by itself, or by a signal that was not ours
	Wall   Cause = "wall"   // wall_ms
	CPU    Cause = "cpu"    // cpu_ms
	Memory Cause = "memory" // memory_mb
	Output Cause = "output" // output_kb
	Killed Cause = "killed" // a Kill frame
	// Processes is far more processes than limits.processes allows.
	Processes Cause = "processes"
	// AddressSpace is a request for memory that was refused, and that the program did not go on without.
	AddressSpace Cause = "address_space" // address_space_mb
)

func (c Cause) known() bool {
	switch c {
	case Exited, Wall, CPU, Memory, Output, Killed, Processes, AddressSpace:
		return true
	}
	return false
}

// Exit is how the job ended.
type Exit struct {
	Cause    Cause     `json:"cause"`
	ExitCode int       `json:"exit_code"`
	Signal   string    `json:"signal,omitempty"`
	Usage    job.Usage `json:"usage"`
	// StdoutTruncated and StderrTruncated: the program printed more than was sent.
	StdoutTruncated bool `json:"stdout_truncated,omitempty"`
	StderrTruncated bool `json:"stderr_truncated,omitempty"`
	// Lost: what a session's interpreter knew is gone, as it ended. The next turn gets a new one, and the same files.
	Lost bool `json:"lost,omitempty"`
	// LostContexts are the session's other contexts whose interpreters ended, too.
	LostContexts []string `json:"lost_contexts,omitempty"`
	// ShownLeftOut: so much more was shown in the turn than was sent.
	ShownLeftOut int `json:"shown_left_out,omitempty"`
}

// ArtifactBegin announces a file of which exactly Size bytes follow.
type ArtifactBegin struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Skipped is something in the job's directory that is not sent, and why. The agent
// sends at most [job.MaxSkipped] of them.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Fault is the agent's own failure.
type Fault struct {
	Message string `json:"message"`
}

// End is the last frame of a session that came to its end.
type End struct {
	// SkippedTotal counts what was not sent, beyond the Skipped frames too.
	SkippedTotal int `json:"skipped_total"`
}

func unmarshal(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}
