package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// contexts are a session's interpreters, by the names of their contexts. They have the same user, files and limits, and one stands still when the others do.
type contexts struct {
	start  agentwire.Start
	group  group // of all of them, which counts what they use
	reaper *reaper
	all    map[string]*interpreter
	// lost are those whose interpreters ended otherwise than a turn wanted it, and of which the worker wasn't told yet, with the generations of these.
	lost map[string]int
	// marked counts the cgroups that were made to tell interpreters apart.
	marked int
	// began says that a turn was executed, and cpu what the session had used when the last ended. stirred says that it ran after that, and
	// stirredFor what it used.
	began      bool
	cpu        time.Duration
	stirred    bool
	stirredFor time.Duration
}

// newContexts has the prepared process, if there is one, as the interpreter of the main context.
func newContexts(start agentwire.Start, process *process) (*contexts, error) {
	c := &contexts{start: start, reaper: newReaper(), all: map[string]*interpreter{}, lost: map[string]int{}}
	if process == nil {
		var err error
		if c.group, err = newGroup("program"); err != nil {
			return nil, err
		}
		c.cpu, err = c.group.cpu()
		return c, err
	}
	c.group = process.group
	var err error
	if c.cpu, err = c.group.cpu(); err != nil {
		return nil, err
	}
	i := preparedInterpreter(process, start)
	c.all[job.MainContext] = i
	return c, c.reaper.start(i.main, func() (int, error) { return i.pid, nil })
}

// keep ends the interpreters that are not to be there in the turn, and reports whether the turn's own state is still what it was.
func (c *contexts) keep(t turn) (same bool) {
	present := maps.Clone(c.all)
	for name, i := range present {
		generation, kept := t.contexts[name]
		if name == t.context {
			generation, kept = t.generation, true
		}
		if i.generation == anyGeneration && name == t.context {
			i.generation = generation
		}
		if kept && (generation == i.generation || i.generation == anyGeneration) || c.all[name] != i {
			continue
		}
		c.end(name)
	}
	if len(c.all) < len(present) { // to end a large one takes time, which is no turn's
		if used, err := c.group.cpu(); err == nil {
			c.cpu = used
		}
	}
	c.finish(present)
	return !c.isLost(t.context, t.generation)
}

// isLost reports whether the interpreter of that generation is lost, and not one that was restarted since.
func (c *contexts) isLost(name string, generation int) bool {
	lost, ok := c.lost[name]
	return ok && (lost == generation || lost == anyGeneration)
}

// anyGeneration is that of an interpreter that was there before the first turn.
const anyGeneration = -1

// preloaded reports whether the context's interpreter was prepared.
func (c *contexts) preloaded(name string) bool {
	i := c.all[name]
	return i != nil && i.extraMemory > 0
}

// memoryLimit is what all may hold, bytes.
func (c *contexts) memoryLimit() int64 {
	limit := c.start.Limits.MemoryMB << 20
	for _, i := range c.all {
		limit += i.extraMemory
	}
	return limit
}

// open returns the interpreter of the turn's context. It is started if there is none. problem, if set, says why the turn can't have one, which is its own fault.
func (c *contexts) open(t turn) (i *interpreter, problem string, err error) {
	if i = c.all[t.context]; i != nil {
		return i, "", nil
	}
	dir := workDir
	if t.directory != "" {
		opened, err := makeDirectory(t.directory)
		if err != nil {
			return nil, fmt.Sprintf("glovebox: the context's directory can't be made: %v", err), nil
		}
		defer opened.Close()
		dir = fmt.Sprintf("/proc/self/fd/%d", opened.Fd())
	}
	mark := ""
	if t.context != job.MainContext {
		if mark, err = c.mark(); err != nil {
			return nil, "", err
		}
	}
	command := c.start.Command
	if t.language != "" {
		command = c.start.Languages[t.language]
	}
	if i, err = c.launch(command, dir, mark); err != nil {
		return nil, "", fmt.Errorf("start interpreter: %w", err)
	}
	i.generation = t.generation
	c.all[t.context] = i
	return i, "", nil
}

// makeDirectory makes a directory below the job's, with the job's rights, and opens it: code of the session may have put links into the path.
func makeDirectory(name string) (dir *os.File, err error) {
	path := filepath.Join(workDir, name)
	err = asJob(func() error {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		dir, err = os.Open(path)
		return err
	})
	return dir, err
}

// markRoot is the cgroup of all processes that are in no other of that hierarchy, which counts nothing.
const markRoot = cgroupRoot + "/job"

// mark makes a cgroup whose processes are those that one interpreter has started, however they were, wherever they went in sessions and process groups
// and whoever is their parent now: a cgroup is inherited, and only root can leave it. The interpreter of the main context needs none.
func (c *contexts) mark() (dir string, err error) {
	c.marked++
	dir = fmt.Sprintf("%s/glovebox-%d", markRoot, c.marked)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	return dir, nil
}

// processesIn are the processes of such a cgroup, without this one.
func processesIn(mark string) (pids []int, err error) {
	text, err := os.ReadFile(mark + "/cgroup.procs")
	if err != nil {
		return nil, fmt.Errorf("list processes of a context: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("list processes of a context: %w", err)
		}
		if pid != 1 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// end ends a context's interpreter and all that it has started. What others have stays, unless the processes can't be stopped: then all are lost.
func (c *contexts) end(name string) {
	i := c.all[name]
	delete(c.all, name)
	if len(c.all) == 0 {
		killEverything()
		return
	}
	if err := c.killOnly(i); err != nil {
		c.endAll()
	}
	if i.mark != "" {
		_ = os.Remove(i.mark) // one that stays costs little
	}
}

// killPatience is how long it may take until no process is left of a context that was killed.
const killPatience = 3 * time.Second

// killOnly kills the processes of one interpreter, once all of the session stand still: so none of them starts another meanwhile.
func (c *contexts) killOnly(i *interpreter) error {
	mark := i.mark
	if mark == "" {
		mark = markRoot
	}
	stopped := false
	for patience := patientFor(killPatience); !patience.isOver(); time.Sleep(time.Millisecond) {
		pids, err := processesIn(mark)
		if err != nil {
			return err
		}
		if len(pids) == 0 && stopped {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		if !stopped {
			if stopped = stopAll(nobody); !stopped {
				return errors.New("processes can't be stopped")
			}
		}
	}
	return errors.New("processes of a context can't be killed")
}

// endAll ends all interpreters, and everything that they have started.
func (c *contexts) endAll() {
	for name, i := range c.all {
		c.lost[name] = i.generation
	}
	clear(c.all)
	killEverything()
}

// killEverything kills until no process is left but this one. Once is not enough: a process may start another while the signal goes round.
func killEverything() {
	for killAll(); !alone(); time.Sleep(time.Millisecond) {
		killAll()
	}
}

// alone reports whether no other process is there, not even a dead one.
func alone() bool {
	processes, err := numbersIn("/proc")
	return err == nil && len(processes) == 1
}

// endDead ends what is left of the contexts whose interpreters have ended, while code of another one was executed.
func (c *contexts) endDead(except string) {
	for name, i := range maps.Clone(c.all) {
		if name != except && c.all[name] == i && i.dead() {
			c.lost[name] = i.generation
			c.end(name)
		}
	}
}

// finish ends what waits for answers of those that were there, and closes what the agent has of those that were ended.
func (c *contexts) finish(present map[string]*interpreter) {
	for name, i := range present {
		i.finish(c.all[name] != i)
	}
}

// freed waits until the kernel has the memory of what was ended, which takes a moment, and reports whether what is left is within the limit. What files hold stays.
func (c *contexts) freed() bool {
	limit := c.memoryLimit()
	enough := limit
	if len(c.all) == 0 {
		enough /= 2
	}
	held, err := c.group.memory()
	for range 100 {
		if err != nil || held <= enough {
			break
		}
		time.Sleep(10 * time.Millisecond)
		held, err = c.group.memory()
	}
	return err != nil || held <= limit
}

// takeLost returns the other contexts of the turn that were lost and of which nobody was told yet, and forgets all: one that was forgotten or restarted
// meanwhile has nothing to lose.
func (c *contexts) takeLost(t turn) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(c.lost)) {
		if generation, told := t.contexts[name]; told && name != t.context && c.isLost(name, generation) {
			names = append(names, name)
		}
	}
	clear(c.lost)
	return names
}
