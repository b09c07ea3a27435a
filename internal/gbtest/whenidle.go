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
	// waiting is how many tests more than there are processors may go on while most only wait. What each starts has some 500 MB.
	waiting = 6
	// look is over what time the processors are looked at, and enough the share of it for which one must have had nothing to do.
	look   = time.Second
	enough = 0.7
)

// ManyWait has tests go on as [WhenIdle] lets them, unless the command line says how many run at once: for a package whose tests call
// that, and wait for much of their time. A TestMain calls it.
func ManyWait() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		f.Value.Set("10000") //nolint:errcheck // it is a number
		running.most = runtime.GOMAXPROCS(0)
	}
}

// WhenIdle has a test go on when one of the processors has had nothing to do for most of a second, or at once where fewer tests
// of this process go on than there are processors. So a test that waits holds up no other. But where all compute, or something else on
// the machine does, there are as many at once as processors: more sandboxes than that take longer than one after the other.
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
	began := time.Now()
	<-turn
	if waited := time.Since(began); waited > look {
		tb.Logf("it waited for %s until a processor was idle", waited.Round(time.Second))
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
	looks bool
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
	p.line = append(p.line, w)
	p.letIn(false)
	if len(p.line) > 0 && !p.looks {
		p.looks = true
		go p.whenIdle()
	}
	return w.turn, true
}

func (p *places) leave(test string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tests = slices.DeleteFunc(p.tests, func(t string) bool { return t == test })
	p.letIn(false)
}

// letIn lets those go on that have a place, or else the first one in line where a processor is idle.
func (p *places) letIn(idle bool) {
	for i := 0; i < len(p.line); {
		w := p.line[i]
		if p.taken(w.test) >= p.most && !p.inherits(w.test) {
			i++
			continue
		}
		p.goesOn(i)
		idle = false
	}
	if idle && len(p.line) > 0 && p.taken("") < p.most+waiting {
		p.goesOn(0)
	}
}

func (p *places) goesOn(i int) {
	close(p.line[i].turn)
	p.tests = append(p.tests, p.line[i].test)
	p.line = slices.Delete(p.line, i, i+1)
}

// taken is how many tests go on, but for those that only wait for subtests, of which test is none yet.
func (p *places) taken(test string) (n int) {
	for _, t := range p.tests {
		if !p.waitsForSubtests(t, test) {
			n++
		}
	}
	return n
}

func (p *places) waitsForSubtests(test, but string) bool {
	of := func(name string) bool { return name != but && strings.HasPrefix(name, test+"/") }
	return slices.ContainsFunc(p.tests, of) || slices.ContainsFunc(p.line, func(w inLine) bool { return of(w.test) })
}

// inherits reports whether a test has a parent that goes on, and no other subtest.
func (p *places) inherits(test string) bool {
	return slices.ContainsFunc(p.tests, func(t string) bool { return strings.HasPrefix(test, t+"/") && !p.waitsForSubtests(t, test) })
}

// whenIdle looks at the processors, as long as somebody is in line.
func (p *places) whenIdle() {
	for {
		began, before := time.Now(), idleTime()
		time.Sleep(look)
		idle := idleTime() - before
		p.mu.Lock()
		p.letIn(idle.Seconds() >= enough*time.Since(began).Seconds())
		if len(p.line) == 0 {
			p.looks = false
			p.mu.Unlock()
			return
		}
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
