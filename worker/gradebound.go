package worker

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// What bounds a graded program, so that a hostile one ends with verdicts and does not come back to the
// queue as if Glovebox had failed.
const (
	// maxLost is how many sandboxes a program may end. Each costs a start and a compile step.
	maxLost = 5
	// maxRechecks is how many checks of a job are made once more by its checker's program, which the wall clock had ended.
	maxRechecks = 5
	// testOverhead is what a run may take beside the program: its copy, its wipe, the way to the worker.
	// Measured were 45 ms (ADR 30). With it 1,000 tests end within the two hours of a sandbox.
	testOverhead = 500 * time.Millisecond
	// overrun is how much later than its time the worker gives up a silent sandbox: up to 60 s for a wipe,
	// and 10 s each for what is wiped and for what is run then.
	overrun = 80 * time.Second
	// sandboxOverhead is for the start of a sandbox, 60 s, for its compile step and for keeping what that
	// made, 80 s beyond their time, and for its end.
	sandboxOverhead = 3 * time.Minute
)

// testsTime is how long all tests may take, wipes included. One pass of each may be run twice.
func testsTime(tests, passes int, l job.Limits) time.Duration {
	return time.Duration(tests) * (time.Duration(passes+1)*wallTime(l) + time.Duration(passes)*testOverhead)
}

// gradingTime is the most that a graded program can take, sandboxes that it ends included.
func gradingTime(tests, passes int, l job.Limits) time.Duration {
	return testsTime(tests, passes, l) + wallTime(l) + compileTime(l) + overrun + (1+maxLost)*(wallTime(l)+compileTime(l)+sandboxOverhead)
}

func wallTime(l job.Limits) time.Duration { return time.Duration(l.WallMS) * time.Millisecond }

func compileTime(l job.Limits) time.Duration { return wallTime(l.Compile()) }

// rerunShare: a test that the wall clock ended is run once more if it had used less than this share of
// its CPU time, in percent: it may have waited for a busy machine.
const rerunShare = 90

// cpuHeadroom is how much CPU time beyond its limit a run has before it is ended, ms. gVisor counts the
// time for which a process could have run, so on a machine that is busy a run has more of it than
// elsewhere: one that comes to its end in the headroom is run once more.
func cpuHeadroom(l job.Limits) int64 { return max(1000, l.CPUMS/2) }

// closely reports whether a test that timed out may do better when it is run once more.
func closely(o sandbox.TestOutcome, l job.Limits) bool {
	switch o.Status { //nolint:exhaustive // others ended by themselves
	case job.TimedOut:
		return o.Usage.CPUMS < l.CPUMS*rerunShare/100
	case job.OutOfMemory: // whatever time it took
		return false
	}
	return o.Usage.CPUMS > l.CPUMS
}

// spend adds the time since the last call. In between, the program had it, but for its inputs' way.
func (g *grader) spend() {
	if !g.began.IsZero() {
		g.spent += time.Since(g.began) - g.fetched
	}
	g.began, g.fetched = time.Now(), 0
}

// overdue reports whether the program's tests have had their time, and gives up those that are left.
func (g *grader) overdue() bool {
	most := testsTime(len(g.tests), g.passes, g.limits)
	if g.spent <= most {
		return false
	}
	g.giveUp(job.TestTimedOut, fmt.Sprintf("its tests and the removal of what they left took longer than %s", most))
	return true
}

// giveUp judges the tests that are left without running them; "" is a run time error.
func (g *grader) giveUp(verdict job.Verdict, why string) {
	g.rerun, g.running = false, false
	verdict = cmp.Or(verdict, job.RunTimeError)
	for i := g.wanted(); i >= 0; i = g.wanted() {
		g.set(i, verdict)
		r, again := &g.results[i], ""
		if r.Passes > 0 || r.Reruns > 0 {
			again = " again"
		}
		if r.Passes == 0 {
			r.Reruns = 0
		}
		r.Feedback = "glovebox: the program was not run" + again + " on this test: " + why
	}
}

// timedReader adds the time that reads take to sum: an input that comes slowly is not the program's fault.
type timedReader struct {
	io.ReadCloser
	sum *time.Duration
}

func (r timedReader) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := r.ReadCloser.Read(p)
	*r.sum += time.Since(began)
	return n, err
}

// counted returns what the result shows of a run: all of it, or only a part once a hidden test has begun.
// A hidden test's input must not be read off its last digits. Times are cut to 10 ms, memory is rounded
// up to a MiB.
func (g *grader) counted(u job.Usage) job.Usage {
	if g.concealed {
		const step, mib = 10, 1 << 20
		u.WallMS -= u.WallMS % step
		u.CPUMS -= u.CPUMS % step
		u.MemoryPeakBytes = (u.MemoryPeakBytes + mib - 1) / mib * mib
	}
	return u
}
