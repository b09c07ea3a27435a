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
	// Image is an image in Podman's store. A name with a digest ("name@sha256:…") is that
	// image or none.
	Image string
	// Compile is run first, if there is one, and has to succeed.
	Compile []string
	Command []string
	// Env is added to PATH, HOME, TMPDIR and LANG, and may replace them. Nothing of the
	// image's environment is there.
	Env map[string]string
	// Files are written to /work, where the program starts.
	Files []File
	Stdin []byte
	// Limits must be filled (job.Limits.Filled).
	Limits job.Limits
	// Fresh asks for a sandbox that is made for the program, and no warm one.
	Fresh bool
}

// File is one input: its Content, or where that is read from.
type File struct {
	Name    string
	Content []byte
	// Open, if it is set, is called once, when it is the file's turn, for Size bytes. What
	// it or a Read fails with is wrapped by what Run fails with.
	Open func(ctx context.Context) (io.ReadCloser, error)
	Size int64
}

// Sink takes what a program makes, in order, from one goroutine. A method that blocks
// holds the program back, not the worker; an error ends the run and is returned by it.
type Sink interface {
	// Stdout and Stderr are given what was printed. They must not keep p.
	Stdout(p []byte) error
	Stderr(p []byte) error
	// Artifact is given a file of exactly size bytes. It may read less, or nothing. A
	// file that breaks off is a read error, never an early io.EOF. ctx ends with the
	// run's.
	Artifact(ctx context.Context, name string, size int64, r io.Reader) error
}

// Outcome is what became of a program.
type Outcome struct {
	Status job.Status
	// ExitCode is the program's, 124 after a time-out, 128 + n after signal n; the
	// compile step's where that failed.
	ExitCode int
	Signal   string
	Usage    job.Usage
	// Startup is from the call of Run to the program's first instruction.
	Startup time.Duration
	Compile *job.Compile
	// Skipped accounts for what the program left that is no artifact, at most
	// job.MaxSkipped entries; SkippedTotal counts all.
	Skipped      []job.Skipped
	SkippedTotal int
	// LimitsEnforced is "hard" or "soft".
	LimitsEnforced string
	OCIRuntime     string
	// ImageDigest is that of the image that was run, as Podman's store has it: "sha256:…".
	ImageDigest string
	// Kernel is what the sandbox's /proc/version says.
	Kernel string
	// Warm says that the sandbox was started before the call of Run.
	Warm bool
	// Preloaded says that the program's process was, too: see [Preload].
	Preloaded bool
	// Timing says where the time before the program went.
	Timing Timing
}

// Start is how the program was started: "cold", "warm", in a sandbox that waited, or
// "preloaded", if its process did, too.
func (o Outcome) Start() string {
	switch {
	case o.Preloaded:
		return "preloaded"
	case o.Warm:
		return "warm"
	}
	return "cold"
}

// Timing is when, from the call of Run, a step was done.
type Timing struct {
	Created, Running, Ready, Started, Exited, Ended time.Duration
}

// defaultEnv is what a program has, unless its runtime or its job says otherwise.
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

// argBytes is what execve counts, arguments and environment together, the compile
// step's too, so that they fit into the protocol's start.
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
