package agentwire

import (
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// FromAgent checks the order, the totals and the contents of what an agent sends
// against what was asked of it. The worker passes each frame to [FromAgent.Accept],
// and believes only what that returns.
type FromAgent struct {
	Limits job.Limits
	// StderrKB is [Start.StderrKB].
	StderrKB int64
	Compile  bool // a compile step was asked for
	Prepare  bool // a prepared process was asked for
	Preload  bool // it may become the program, or with Compile its compile step
	Tests    bool // the program is run on tests, each of which NextTest announces
	Session  bool // it is an interpreter, which gets code in turns, each of which NextTurn announces

	state        agentState
	prepared     bool
	cleared      bool // a test may be announced
	test         bool // one was announced, or a turn, and has not started
	tested       bool // one has started
	done         bool // none follows
	outstanding  int64
	stdout       int64
	stderr       int64
	shown        int64
	compiled     int64
	artifacts    int64
	artifactSum  int64
	artifactLeft int64
	skips        int
	names        map[string]bool
	contexts     map[string]int // beside that of the turn
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

// NextTest tells the checker that the agent is told to run the program once more. Cleared has come.
func (a *FromAgent) NextTest() { a.test, a.stdout, a.stderr = true, 0, 0 }

// NextTurn tells the checker that the agent is told to execute more code, beside these contexts. The turn before it has ended.
func (a *FromAgent) NextTurn(contexts map[string]int) {
	a.NextTest()
	a.contexts = contexts
	a.artifacts, a.artifactSum, a.skips, a.names, a.shown = 0, 0, 0, nil, 0
}

// Asked tells the checker that the agent of a session is asked, between two turns, whether it is there: it is to say Ready.
func (a *FromAgent) Asked() {
	if a.Session && a.state == wantStarted && !a.test && !a.done {
		a.state = wantReady
	}
}

// GoOn makes the checker that of an agent which goes on where another was: it has said Ready, and nothing else.
func (a *FromAgent) GoOn(before FromAgent) {
	if a.state == wantStarted && before.state == wantStarted {
		*a = before
	}
}

// Done tells the checker that the agent is told that no test or turn follows.
func (a *FromAgent) Done() { a.done = true }

// Granted tells the checker that n more bulk bytes were granted.
func (a *FromAgent) Granted(n int64) { a.outstanding += n }

// Over reports whether End or Fault has come.
func (a *FromAgent) Over() bool { return a.state == over }

// Accept checks the next frame and returns what it says: a [Ready], [Prepared], [Started],
// [Compiled], [Refused], [Exit], [ArtifactBegin], [Skipped], [Turned], [Fault] or [End], and nil
// for a frame whose type, or payload, says all.
func (a *FromAgent) Accept(f Frame) (message any, err error) {
	if f.Type.Bulk() {
		if a.outstanding -= f.Cost(); a.outstanding < 0 {
			return nil, violation("%s beyond the credit", f.Type)
		}
	}
	switch {
	case a.state == over:
		return nil, violation("%s after the end", f.Type)
	case f.Type == TypeFault:
		return a.acceptFault(f)
	case f.Type == TypeReady && a.state == wantReady:
		return a.acceptReady(f)
	case f.Type == TypePrepared && a.Prepare && a.state == wantStarted:
		return a.acceptPrepared(f)
	case f.Type == TypeRefused && a.state == wantStarted && !a.cleared && !a.tested:
		return a.acceptRefused(f)
	case f.Type == TypeCompileOutput && a.Compile && (a.state == wantStarted || a.state == compiling):
		a.state = compiling
		return nil, addWithin(f, &a.compiled, MaxCompileOutput)
	case f.Type == TypeCompiled && a.Compile && (a.state == wantStarted || a.state == compiling):
		return a.acceptCompiled(f)
	case f.Type == TypeCleared && a.Tests && a.state == wantStarted && !a.Compile && !a.cleared:
		a.cleared = true
	case f.Type == TypeStarted && a.state == wantStarted && !a.Compile && a.test == (a.Tests || a.Session):
		return a.acceptStarted(f)
	case f.Type == TypeStdout && a.state == inProgram:
		return nil, addWithin(f, &a.stdout, a.Limits.OutputKB<<10)
	case f.Type == TypeStderr && a.state == inProgram:
		return nil, addWithin(f, &a.stderr, a.maxStderr())
	case f.Type == TypeShown && a.Session && a.state == inProgram:
		return nil, addWithin(f, &a.shown, MaxShown)
	case f.Type == TypeExit && a.state == inProgram:
		return a.acceptExit(f)
	case f.Type == TypeArtifactBegin && a.state == collecting:
		return a.acceptArtifact(f)
	case f.Type == TypeArtifactData && a.state == inArtifact:
		if a.artifactLeft -= int64(len(f.Payload)); a.artifactLeft < 0 {
			return nil, violation("artifact is longer than announced")
		}
	case f.Type == TypeArtifactEnd && a.state == inArtifact:
		if a.artifactLeft != 0 {
			return nil, violation("artifact is shorter than announced")
		}
		a.state = collecting
	case f.Type == TypeSkipped && a.state == collecting:
		return a.acceptSkipped(f)
	case f.Type == TypeTurned && a.Session && a.state == collecting:
		return a.acceptTurned(f)
	case f.Type == TypeEnd && (a.state == collecting && !a.Session || a.state == wantEnd || a.state == wantStarted && (a.done || a.Tests && a.tested && !a.cleared)):
		return a.acceptEnd(f)
	default:
		return nil, violation("%s is out of order", f.Type)
	}
	return nil, nil
}

func (a *FromAgent) maxStderr() int64 {
	if a.Tests {
		return StderrOfTest(a.StderrKB)
	}
	return a.Limits.OutputKB << 10
}

func (a *FromAgent) acceptFault(f Frame) (any, error) {
	a.state = over
	var fault Fault
	if err := f.Decode(&fault); err != nil {
		return nil, err
	}
	fault.Message = Printable(fault.Message, 1024)
	return fault, nil
}

func (a *FromAgent) acceptReady(f Frame) (any, error) {
	var ready Ready
	if err := f.Decode(&ready); err != nil {
		return nil, err
	}
	if ready.Protocol != Version {
		return nil, violation("agent has protocol %d, this is %d", ready.Protocol, Version)
	}
	ready.Kernel = Printable(ready.Kernel, 256)
	a.state = wantStarted
	return ready, nil
}

func (a *FromAgent) acceptPrepared(f Frame) (any, error) {
	var prepared Prepared
	if err := f.Decode(&prepared); err != nil {
		return nil, err
	}
	if !plausible(job.Usage{CPUMS: prepared.CPUMS, MemoryPeakBytes: prepared.MemoryBytes}) {
		return nil, violation("prepared with %d ms and %d bytes", prepared.CPUMS, prepared.MemoryBytes)
	}
	prepared.Failure = Printable(prepared.Failure, 1024)
	a.Prepare = false // it comes once
	a.prepared = prepared.Failure == ""
	return prepared, nil
}

func (a *FromAgent) acceptStarted(f Frame) (any, error) {
	var started Started
	if err := f.Decode(&started); err != nil {
		return nil, err
	}
	if started.Preloaded && !a.preloads() {
		return nil, violation("started is of a process that is not prepared")
	}
	a.state = inProgram
	a.cleared, a.test, a.tested = false, false, a.Tests || a.Session
	return started, nil
}

// preloads reports whether the prepared process may become what was asked for.
func (a *FromAgent) preloads() bool { return a.prepared && a.Preload }

func (a *FromAgent) acceptRefused(f Frame) (any, error) {
	var refused Refused
	if err := f.Decode(&refused); err != nil {
		return nil, err
	}
	refused.Message = Printable(refused.Message, 1024)
	a.state = wantEnd
	return refused, nil
}

func (a *FromAgent) acceptCompiled(f Frame) (any, error) {
	var compiled Compiled
	if err := f.Decode(&compiled); err != nil {
		return nil, err
	}
	if compiled.ExitCode < 0 || compiled.ExitCode > 255 || !plausible(job.Usage{WallMS: compiled.WallMS}) {
		return nil, violation("compiled with exit code %d", compiled.ExitCode)
	}
	if compiled.Preloaded && !a.preloads() {
		return nil, violation("compiled is of a process that is not prepared")
	}
	a.Compile, a.Preload = false, false // it comes once
	a.state = wantStarted
	if compiled.ExitCode != 0 {
		a.state = wantEnd
	}
	return compiled, nil
}

func (a *FromAgent) acceptExit(f Frame) (any, error) {
	var e Exit
	if err := f.Decode(&e); err != nil {
		return nil, err
	}
	if !e.Cause.known() || e.ExitCode < 0 || e.ExitCode > 255 || len(e.Signal) > 16 || !plausible(e.Usage) {
		return nil, violation("exit with cause %q and code %d", Printable(string(e.Cause), 16), e.ExitCode)
	}
	for _, r := range e.Signal {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			return nil, violation("exit with signal %q", Printable(e.Signal, 16))
		}
	}
	if e.Lost && !a.Session {
		return nil, violation("exit of a program that has lost a session's state")
	}
	for i, name := range e.LostContexts {
		if _, known := a.contexts[name]; !known || slices.Contains(e.LostContexts[:i], name) {
			return nil, violation("exit of a turn that has lost the context %q", Printable(name, 40))
		}
	}
	if e.ShownLeftOut < 0 || e.ShownLeftOut > 1<<30 || e.ShownLeftOut > 0 && !a.Session {
		return nil, violation("exit counts %d results that were left out", e.ShownLeftOut)
	}
	a.state = collecting
	if a.Tests {
		a.state = wantStarted
	}
	return e, nil
}

// plausible reports whether figures are such that sums of them make sense.
func plausible(u job.Usage) bool {
	const maxCPUs = 1 << 10
	return u.WallMS >= 0 && u.WallMS <= maxMS && u.CPUMS >= 0 && u.CPUMS <= maxMS*maxCPUs &&
		u.MemoryPeakBytes >= 0 && u.MemoryPeakBytes <= maxMB<<20
}

func (a *FromAgent) acceptArtifact(f Frame) (any, error) {
	var artifact ArtifactBegin
	if err := f.Decode(&artifact); err != nil {
		return nil, err
	}
	if problem := job.CheckName(artifact.Name); problem != "" {
		return nil, violation("artifact name %s", problem)
	}
	if a.names == nil {
		a.names = map[string]bool{}
	}
	a.artifacts++
	switch {
	case a.names[artifact.Name]:
		return nil, violation("artifact %q comes twice", artifact.Name)
	case a.artifacts > a.Limits.Artifacts:
		return nil, violation("more than %d artifacts", a.Limits.Artifacts)
	case artifact.Size < 0 || artifact.Size > a.Limits.ArtifactMB<<20:
		return nil, violation("artifact of %d bytes", artifact.Size)
	}
	if a.artifactSum += artifact.Size; a.artifactSum > a.Limits.DiskMB<<20 {
		return nil, violation("artifacts of more than %d MiB", a.Limits.DiskMB)
	}
	a.names[artifact.Name] = true
	a.artifactLeft, a.state = artifact.Size, inArtifact
	return artifact, nil
}

func (a *FromAgent) acceptSkipped(f Frame) (any, error) {
	if a.skips++; a.skips > job.MaxSkipped {
		return nil, violation("more than %d skipped files are named", job.MaxSkipped)
	}
	var skipped Skipped
	if err := f.Decode(&skipped); err != nil {
		return nil, err
	}
	skipped.Name = Printable(skipped.Name, job.MaxName)
	skipped.Reason = Printable(skipped.Reason, 200)
	return skipped, nil
}

func (a *FromAgent) acceptTurned(f Frame) (any, error) {
	var turned Turned
	if err := f.Decode(&turned); err != nil {
		return nil, err
	}
	if turned.SkippedTotal < a.skips || turned.SkippedTotal > 1<<30 {
		return nil, violation("turned counts %d skipped files", turned.SkippedTotal)
	}
	a.state, a.skips = wantStarted, 0 // End counts none of them
	return turned, nil
}

func (a *FromAgent) acceptEnd(f Frame) (any, error) {
	var end End
	if err := f.Decode(&end); err != nil {
		return nil, err
	}
	if end.SkippedTotal < a.skips || end.SkippedTotal > 1<<30 {
		return nil, violation("end counts %d skipped files", end.SkippedTotal)
	}
	a.state = over
	return end, nil
}

// addWithin counts the frame's payload and refuses it beyond most.
func addWithin(f Frame, sum *int64, most int64) error {
	if *sum += int64(len(f.Payload)); *sum > most {
		return violation("more than %d bytes of %s", most, f.Type)
	}
	return nil
}
