package gbtest

import (
	"bufio"
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// waiting is how many tests more than always may go on while most only wait. What each starts has some 500 MB.
	waiting = 10
	// look is over what time the processors are looked at, and enough for what share of it they must have had nothing to do, all in all.
	look   = time.Second
	enough = 0.4
	// spareMB is how much memory has to be available, in MiB, for one more than always: a machine that swaps has idle processors, too.
	spareMB = 2048
)

// ManyWait has tests go on as [WhenIdle] lets them, always as many as there are processors and beyond more, unless the command
// line says how many run at once: for a package whose tests call that, and wait for much of their time. A TestMain calls it.
func ManyWait(beyond int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set("10000") //nolint:errcheck // it is a number
		running.most = runtime.GOMAXPROCS(0) + beyond
	}
}

// WhenIdle has a test go on when a processor has had nothing to do for a good part of a second and there is memory, or at once where fewer tests
// of this process go on than always may. So a test that waits holds up no other. But where all compute, or something else on
// the machine does, there are no more than that: more sandboxes than processors take longer than one after the other.
// It is to be called before the test starts anything. A subtest has its parent's place, unless another subtest has it.
func WhenIdle(tb testing.TB) {
	tb.Helper()
	if running.most == 0 {
		return
	}
	turn, first := running.enter(tb.Name())
	if !first {
		return
	}
	running.look()
	began := time.Now()
	<-turn
	if waited := time.Since(began); waited > look {
		tb.Logf("it waited for its turn for %s", waited.Round(time.Second))
	}
	tb.Cleanup(func() { running.leave(tb.Name()) })
}

// running are the tests of this process.
var running places

// places are those of tests that go on beside each other.
type places struct {
	most int // that always may go on; 0: nobody waits

	mu    sync.Mutex
	tests []string // that go on
	line  []inLine // behind them, the first one first
	// nobody is closed when nobody is in line any more; nil where nobody looks at the processors.
	nobody chan struct{}
}

type inLine struct {
	test string
	turn chan struct{} // closed when it may go on
}

// enter puts a test into the line, unless it is known.
func (p *places) enter(test string) (turn <-chan struct{}, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.tests, test) {
		return nil, false
	}
	w := inLine{test, make(chan struct{})}
	if p.taken() < p.most || p.inherits(test) {
		p.goesOn(w)
		return w.turn, true
	}
	p.line = append(p.line, w)
	p.letIn(false) // its parent may wait for it alone
	return w.turn, true
}

func (p *places) leave(test string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tests = slices.DeleteFunc(p.tests, func(t string) bool { return t == test })
	p.letIn(false)
}

// letIn lets those go on for whom there is a place, and, where a processor is idle, one more.
func (p *places) letIn(idle bool) {
	for len(p.line) > 0 && (p.taken() < p.most || idle && p.taken() < p.most+waiting) {
		idle = idle && p.taken() < p.most
		p.goesOn(p.line[0])
		p.line = slices.Delete(p.line, 0, 1)
	}
	if len(p.line) == 0 && p.nobody != nil {
		close(p.nobody)
		p.nobody = nil
	}
}

func (p *places) goesOn(w inLine) {
	close(w.turn)
	p.tests = append(p.tests, w.test)
}

// taken is how many tests go on, except for those that only wait for subtests.
func (p *places) taken() (n int) {
	for _, t := range p.tests {
		if !p.waitsForSubtests(t) {
			n++
		}
	}
	return n
}

func (p *places) waitsForSubtests(test string) bool {
	of := func(name string) bool { return strings.HasPrefix(name, test+"/") }
	return slices.ContainsFunc(p.tests, of) || slices.ContainsFunc(p.line, func(w inLine) bool { return of(w.test) })
}

// inherits reports whether a test has a parent that goes on, and no other subtest.
func (p *places) inherits(test string) bool {
	return slices.ContainsFunc(p.tests, func(t string) bool { return strings.HasPrefix(test, t+"/") && !p.waitsForSubtests(t) })
}

// look has the processors looked at, as long as somebody is in line.
func (p *places) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) > 0 && p.nobody == nil {
		p.nobody = make(chan struct{})
		go p.whenIdle(p.nobody)
	}
}

func (p *places) whenIdle(nobody <-chan struct{}) {
	for {
		began, before := time.Now(), idleTime()
		select {
		case <-nobody:
			return
		case <-time.After(look):
		}
		idle := idleTime() - before
		p.mu.Lock()
		p.letIn(idle.Seconds() >= enough*time.Since(began).Seconds() && availableMB() >= spareMB)
		p.mu.Unlock()
	}
}

// idleTime is for how long the processors of this machine have had nothing to do, in all; 0 where it does not say.
func idleTime() time.Duration {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0
	}
	defer f.Close()
	line := bufio.NewScanner(f)
	line.Scan()
	fields := strings.Fields(line.Text()) // cpu user nice system idle …, in hundredths of a second
	if len(fields) < 5 {
		return 0
	}
	n, err := strconv.ParseInt(fields[4], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * 10 * time.Millisecond
}

// availableMB is how much memory of this machine, in MiB, is available; 0 where it does not say.
func availableMB() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, of, _ := strings.Cut(string(b), "\nMemAvailable:")
	kB, _, _ := strings.Cut(strings.TrimSpace(of), " ")
	n, err := strconv.ParseInt(kB, 10, 64)
	if err != nil {
		return 0
	}
	return n >> 10
}
