package podman

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Preload is a process that is started in an idle sandbox, and that a program can become later
// if its command begins with the same words; or its compile step.
type Preload struct {
	// Command starts the process.
	Command []string
	// Compile: it becomes a program's compile step.
	Compile bool
	// Env is the process's environment, as Program.Env.
	Env map[string]string
	// MemoryMB is the most that the process may hold as it waits. A preloaded program may
	// hold that beside its memory_mb: a job must not run out of memory for what it didn't
	// import.
	MemoryMB int64
	// SavesMS is how much sooner programs end by it, so how much it is missed.
	SavesMS int64
	// Words are those of which a program has one, for which it pays to have the process. None: any
	// program.
	Words []string
	// SnapshotEnv is the environment of a process that becomes a snapshot, nil for Env, and SnapshotWords are words
	// of programs for which it pays to go on from that, not from a process that was started in Env.
	SnapshotEnv   map[string]string
	SnapshotWords []string
	// Forks: where a program has tests, the command can make the process of each.
	Forks bool
	// NoSnapshot lets no snapshot be made of it: there is no room for that.
	NoSnapshot bool
}

// request asks an agent for the process, or for the one that becomes a snapshot.
func (p Preload) request(snapshot bool) agentwire.Prepare {
	env := p.Env
	if snapshot && p.SnapshotEnv != nil {
		env = p.SnapshotEnv
	}
	return agentwire.Prepare{Protocol: agentwire.Version, Command: p.Command, Compile: p.Compile, Env: sandbox.Program{Env: env}.Environment()}
}

const (
	// preloadQuiet is how long no program must have come before one is preloaded: a preload
	// costs more CPU time than ten starts, and under load the processors are for starts.
	preloadQuiet = time.Second
	// preloadTimeout is how long a preload may take: nobody waits for it, and a slow machine, or one that has much to do, takes minutes for what R loads.
	preloadTimeout = 5 * time.Minute
)

// preloadState is how far the preload in an idle sandbox has come.
type preloadState int

const (
	preloadNone preloadState = iota
	preloadRunning
	preloadReady
	preloadFailed
)

// idleMB returns what an idle sandbox of the plan may take, MiB.
func (p plan) idleMB() int64 { return IdleMB + p.preloadMB() }

func (p plan) preloadMB() int64 {
	if p.preload == nil {
		return 0
	}
	return p.preload.MemoryMB
}

// preloads reports whether the program can be the process that sandboxes of the plan preload.
func (p plan) preloads(program sandbox.Program) bool {
	if p.preload == nil || p.preload.Compile != (len(program.Compile) > 0) {
		return false
	}
	if p.preload.Compile {
		return begins(program.Compile, p.preload.Command)
	}
	if program.Tests != nil {
		return false
	}
	if program.MergeStderr || program.Limits.AddressSpaceMB > 0 || program.Limits.StackMB > 0 {
		return false // a process can be given these only before it starts
	}
	if program.Input != nil {
		return false // its signals would end the process that holds its memory
	}
	if program.Turns != nil {
		return program.Interpreter != nil && slices.Contains(p.preload.Command, program.Interpreter.Name)
	}
	return begins(program.Command, p.preload.Command)
}

func begins(command, words []string) bool {
	return len(command) >= len(words) && slices.Equal(command[:len(words)], words)
}

// forks is how the program's command is started once for all its tests; nil where each has to start it: so it is for a job with an
// environment of its own, by which an interpreter can be made to execute what it says. The file that is run may have any name: unlike a
// preloaded process, it is started for the program.
func (p plan) forks(program sandbox.Program) *agentwire.Forks {
	if p.preload == nil || !p.preload.Forks || !program.ForkTests || program.Tests == nil || len(program.Compile) > 0 {
		return nil
	}
	before := len(p.preload.Command) - 1 // what is before the file
	if len(program.Command) <= before || !begins(program.Command, p.preload.Command[:before]) || !maps.Equal(program.Env, p.preload.Env) {
		return nil
	}
	f := agentwire.Forks{MemoryMB: p.preload.MemoryMB}
	for _, word := range slices.Concat(p.preload.Words, p.preload.SnapshotWords) {
		if mentions(program, []string{word}) {
			f.Words = append(f.Words, word)
		}
	}
	return &f
}

// maxWordsIn is how much of a file is looked through for words, bytes: imports come first.
const maxWordsIn = 64 << 10

// pays reports whether the program gains by a preloaded process more than that costs.
func (p plan) pays(program sandbox.Program) bool {
	if !p.preloads(program) {
		return false
	}
	if program.Turns != nil {
		return true // what it will import nobody knows yet
	}
	return len(p.preload.Words) == 0 || mentions(program, p.preload.Words) || p.needsSnapshot(program)
}

// needsSnapshot reports whether the program gains by what is preloaded in snapshots only.
func (p plan) needsSnapshot(program sandbox.Program) bool {
	return p.preloads(program) && program.Turns == nil && mentions(program, p.preload.SnapshotWords)
}

// mentions reports whether a program has one of the words in its files.
func mentions(program sandbox.Program, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(program.Files, func(f sandbox.File) bool {
			return bytes.Contains(f.Content[:min(len(f.Content), maxWordsIn)], []byte(word))
		})
	})
}

// rank says how good a choice the sandbox is for a program: the highest is the best.
func (w *instance) rank(program sandbox.Program) int {
	switch w.preload {
	case preloadReady:
		switch {
		case w.snapshot != nil && w.plan.needsSnapshot(program):
			return 7
		case w.plan.pays(program) && w.snapshot == nil:
			return 6 // its memory is mapped already
		case w.plan.pays(program):
			return 5
		case w.plan.preloads(program) && w.snapshot == nil:
			return 4 // it has cost what it cost
		case w.plan.preloads(program):
			return 2 // a plain one is as good, and cheaper to replace
		}
		return 0
	case preloadRunning:
		return 1
	case preloadNone, preloadFailed:
	}
	return 3
}

// PreloadedOf counts the idle sandboxes of an image that have a preloaded process.
func (p *Sandboxes) PreloadedOf(image string) int {
	return p.pool.count(image, func(w *instance) bool { return w.preload == preloadReady })
}

// nextPreload takes a sandbox out of the pool for a preload, if now is the time. Otherwise wait
// says how long to wait before asking again, and is 0 if nothing is to be preloaded.
func (l *pool) nextPreload() (_ *instance, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *imagePool
	at := 0
	for _, images := range l.images {
		if l.awaitsSnapshot(images) {
			continue
		}
		n := slices.IndexFunc(images.idle, func(w *instance) bool { return w.preload == preloadNone && w.plan.preload != nil })
		if n >= 0 && (found == nil || images.lastWanted.After(found.lastWanted)) {
			found, at = images, n
		}
	}
	if found == nil || l.preloading != nil || l.snapshotting != nil {
		return nil, 0 // the end of either wakes run
	}
	if wait := l.quietIn(); wait > 0 {
		return nil, wait
	}
	w := found.idle[at]
	found.idle = slices.Delete(found.idle, at, at+1)
	w.preload, l.preloading = preloadRunning, w
	return w, 0
}

// startPreload has a sandbox preload that was taken out of the pool, and puts it back: it can be claimed
// meanwhile. One that replaces another comes to the pool when it is ready, in the other's place.
func (l *pool) startPreload(ctx context.Context, w *instance, replaces bool) {
	if err := w.session.Prepare(w.plan.preload.request(false), l.sandboxes.config.StartTimeout); err != nil {
		w.session.Abort() // so that it is seen to have ended
	}
	l.mu.Lock()
	images := l.find(w.plan.image) // it is there until run, which calls this, closes the pool
	if !replaces {
		images.idle = append(images.idle, w)
	}
	l.mu.Unlock()
	l.sandboxes.background.Go(func() {
		failure := w.awaitPreload(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.wake()
		l.preloading = nil
		if !replaces && !slices.Contains(images.idle, w) {
			return // a program has it, or it was of no more use
		}
		w.preload = preloadReady
		if failure != "" {
			w.preload = preloadFailed
		}
		if failure != "" && !w.session.Ended() && ctx.Err() == nil && !images.preloadFailed {
			images.preloadFailed = true // each would say the same
			l.sandboxes.config.Log.Warn("no program could be preloaded in a warm sandbox: programs are started there as they come", "image", w.plan.image, "error", failure)
		}
		switch {
		case replaces && (failure != "" || l.closed): // or the pool is closed
			images.upgradeAt = time.Now().Add(maxRefillBackoff)
			l.sandboxes.background.Go(w.close)
		case replaces:
			l.replace(images, w)
		}
	})
}

// awaitPreload waits for the preload, and returns why it failed, or "".
func (w *instance) awaitPreload(ctx context.Context) (failure string) {
	overdue := time.NewTimer(preloadTimeout)
	defer overdue.Stop()
	select {
	case said := <-w.session.Prepared():
		if held := said.MemoryBytes >> 20; said.Failure == "" && held > w.plan.preload.MemoryMB {
			return fmt.Sprintf("it holds %d MiB, more than preload.memory_mb (%d)", held, w.plan.preload.MemoryMB)
		}
		return said.Failure
	case <-w.session.Gone():
		return "the sandbox has ended"
	case <-ctx.Done():
		return "the pool is closing"
	case <-overdue.C:
		return fmt.Sprintf("it was not ready in %v", preloadTimeout)
	}
}
