package agentwire

import (
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// FromAgent checks the order, the totals and the contents of what an agent sends
// against what was asked of it. The worker passes each frame to [FromAgent.Accept]
// and believes it only when that is nil; the fields then hold what was decoded.
type FromAgent struct {
	Limits  job.Limits
	Compile bool // a compile step was asked for
	Prepare bool // a prepared process was asked for
	Preload bool // it may become the program

	Ready    Ready
	Prepared Prepared
	Started  Started
	Compiled Compiled
	Refused  Refused
	Exit     Exit
	Artifact ArtifactBegin
	Skipped  Skipped
	Fault    Fault
	End      End

	state        agentState
	prepared     bool
	outstanding  int64
	stdout       int64
	stderr       int64
	compiled     int64
	artifacts    int64
	artifactSum  int64
	artifactLeft int64
	skips        int
	names        map[string]bool
}

type agentState int

const (
	wantReady agentState = iota
	wantStarted
	compiling
	inProgram
	collecting
	inArtifact
	wantEnd
	over
)

// Granted tells the checker that n more bulk bytes were granted.
func (a *FromAgent) Granted(n int64) { a.outstanding += n }

// Over reports whether End or Fault has come.
func (a *FromAgent) Over() bool { return a.state == over }

// Accept checks the next frame.
func (a *FromAgent) Accept(f Frame) error {
	if f.Type.Bulk() {
		if a.outstanding -= f.Cost(); a.outstanding < 0 {
			return violation("%s beyond the credit", f.Type)
		}
	}
	switch {
	case a.state == over:
		return violation("%s after the end", f.Type)
	case f.Type == TypeFault:
		a.state = over
		if err := f.Decode(&a.Fault); err != nil {
			return err
		}
		a.Fault.Message = Printable(a.Fault.Message, 1024)
		return nil
	case f.Type == TypeReady && a.state == wantReady:
		return a.acceptReady(f)
	case f.Type == TypePrepared && a.Prepare && a.state == wantStarted:
		return a.acceptPrepared(f)
	case f.Type == TypeRefused && a.state == wantStarted:
		return a.acceptRefused(f)
	case f.Type == TypeCompileOutput && a.Compile && (a.state == wantStarted || a.state == compiling):
		a.state = compiling
		return addWithin(f, &a.compiled, MaxCompileOutput)
	case f.Type == TypeCompiled && a.Compile && (a.state == wantStarted || a.state == compiling):
		return a.acceptCompiled(f)
	case f.Type == TypeStarted && a.state == wantStarted && !a.Compile:
		return a.acceptStarted(f)
	case f.Type == TypeStdout && a.state == inProgram:
		return addWithin(f, &a.stdout, a.Limits.OutputKB<<10)
	case f.Type == TypeStderr && a.state == inProgram:
		return addWithin(f, &a.stderr, a.Limits.OutputKB<<10)
	case f.Type == TypeExit && a.state == inProgram:
		return a.acceptExit(f)
	case f.Type == TypeArtifactBegin && a.state == collecting:
		return a.acceptArtifact(f)
	case f.Type == TypeArtifactData && a.state == inArtifact:
		if a.artifactLeft -= int64(len(f.Payload)); a.artifactLeft < 0 {
			return violation("artifact is longer than announced")
		}
	case f.Type == TypeArtifactEnd && a.state == inArtifact:
		if a.artifactLeft != 0 {
			return violation("artifact is shorter than announced")
		}
		a.state = collecting
	case f.Type == TypeSkipped && a.state == collecting:
		return a.acceptSkipped(f)
	case f.Type == TypeEnd && (a.state == collecting || a.state == wantEnd):
		return a.acceptEnd(f)
	default:
		return violation("%s is out of order", f.Type)
	}
	return nil
}

func (a *FromAgent) acceptReady(f Frame) error {
	if err := f.Decode(&a.Ready); err != nil {
		return err
	}
	if a.Ready.Protocol != Version {
		return violation("agent has protocol %d, this is %d", a.Ready.Protocol, Version)
	}
	a.Ready.Kernel = Printable(a.Ready.Kernel, 256)
	a.state = wantStarted
	return nil
}

func (a *FromAgent) acceptPrepared(f Frame) error {
	if err := f.Decode(&a.Prepared); err != nil {
		return err
	}
	if !plausible(job.Usage{CPUMS: a.Prepared.CPUMS, MemoryPeakBytes: a.Prepared.MemoryBytes}) {
		return violation("prepared with %d ms and %d bytes", a.Prepared.CPUMS, a.Prepared.MemoryBytes)
	}
	a.Prepared.Failure = Printable(a.Prepared.Failure, 1024)
	a.Prepare = false // it comes once
	a.prepared = a.Prepared.Failure == ""
	return nil
}

func (a *FromAgent) acceptStarted(f Frame) error {
	if err := f.Decode(&a.Started); err != nil {
		return err
	}
	if a.Started.Preloaded && (!a.prepared || !a.Preload) {
		return violation("started is of a process that is not prepared")
	}
	a.state = inProgram
	return nil
}

func (a *FromAgent) acceptRefused(f Frame) error {
	if err := f.Decode(&a.Refused); err != nil {
		return err
	}
	a.Refused.Message = Printable(a.Refused.Message, 1024)
	a.state = wantEnd
	return nil
}

func (a *FromAgent) acceptCompiled(f Frame) error {
	if err := f.Decode(&a.Compiled); err != nil {
		return err
	}
	if a.Compiled.ExitCode < 0 || a.Compiled.ExitCode > 255 ||
		!plausible(job.Usage{WallMS: a.Compiled.WallMS}) {
		return violation("compiled with exit code %d", a.Compiled.ExitCode)
	}
	a.Compile = false // it comes once
	a.state = wantStarted
	if a.Compiled.ExitCode != 0 {
		a.state = wantEnd
	}
	return nil
}

func (a *FromAgent) acceptExit(f Frame) error {
	if err := f.Decode(&a.Exit); err != nil {
		return err
	}
	e := &a.Exit
	if !e.Cause.known() || e.ExitCode < 0 || e.ExitCode > 255 || len(e.Signal) > 16 || !plausible(e.Usage) {
		return violation("exit with cause %q and code %d", Printable(string(e.Cause), 16), e.ExitCode)
	}
	for _, r := range e.Signal {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return violation("exit with signal %q", Printable(e.Signal, 16))
		}
	}
	a.state = collecting
	return nil
}

// plausible refuses figures that would spoil every sum that they are added to.
func plausible(u job.Usage) bool {
	const maxCPUs = 1 << 10
	return u.WallMS >= 0 && u.WallMS <= maxMS && u.CPUMS >= 0 && u.CPUMS <= maxMS*maxCPUs &&
		u.MemoryPeakBytes >= 0 && u.MemoryPeakBytes <= maxMB<<20
}

func (a *FromAgent) acceptArtifact(f Frame) error {
	a.Artifact = ArtifactBegin{}
	if err := f.Decode(&a.Artifact); err != nil {
		return err
	}
	if problem := job.CheckName(a.Artifact.Name); problem != "" {
		return violation("artifact name %s", problem)
	}
	if a.names == nil {
		a.names = map[string]bool{}
	}
	a.artifacts++
	switch {
	case a.names[a.Artifact.Name]:
		return violation("artifact %q comes twice", a.Artifact.Name)
	case a.artifacts > a.Limits.Artifacts:
		return violation("more than %d artifacts", a.Limits.Artifacts)
	case a.Artifact.Size < 0 || a.Artifact.Size > a.Limits.ArtifactMB<<20:
		return violation("artifact of %d bytes", a.Artifact.Size)
	}
	if a.artifactSum += a.Artifact.Size; a.artifactSum > a.Limits.DiskMB<<20 {
		return violation("artifacts of more than %d MiB", a.Limits.DiskMB)
	}
	a.names[a.Artifact.Name] = true
	a.artifactLeft, a.state = a.Artifact.Size, inArtifact
	return nil
}

func (a *FromAgent) acceptSkipped(f Frame) error {
	if a.skips++; a.skips > job.MaxSkipped {
		return violation("more than %d skipped files are named", job.MaxSkipped)
	}
	a.Skipped = Skipped{}
	if err := f.Decode(&a.Skipped); err != nil {
		return err
	}
	a.Skipped.Name = Printable(a.Skipped.Name, job.MaxName)
	a.Skipped.Reason = Printable(a.Skipped.Reason, 200)
	return nil
}

func (a *FromAgent) acceptEnd(f Frame) error {
	if err := f.Decode(&a.End); err != nil {
		return err
	}
	if a.End.SkippedTotal < a.skips || a.End.SkippedTotal > 1<<30 {
		return violation("end counts %d skipped files", a.End.SkippedTotal)
	}
	a.state = over
	return nil
}

// addWithin counts the frame's payload and refuses it beyond most.
func addWithin(f Frame, sum *int64, most int64) error {
	if *sum += int64(len(f.Payload)); *sum > most {
		return violation("more than %d bytes of %s", most, f.Type)
	}
	return nil
}

// Printable returns s as valid UTF-8 of at most about most bytes, with U+FFFD for
// what is not, and for control and format characters, which could make a log line or
// a terminal show something else.
func Printable(s string, most int) string {
	out := make([]byte, 0, min(len(s), most)+utf8.UTFMax)
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			r = utf8.RuneError
		}
		if len(out)+utf8.RuneLen(r) > most {
			return string(append(out, "…"...))
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}
