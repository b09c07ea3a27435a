package e2e

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// throughputs measures how many programs a second get a sandbox of their own, where so many
// callers each ask for the next one as soon as they have the last.
func (b *bench) throughputs() {
	b.t.Helper()
	const lanes = 8
	turns, window := b.times(2), max(b.scaled(5*time.Second), 100*time.Millisecond)
	before := min(window/2, 1500*time.Millisecond)
	all := append([]way{hello.on(warmWay, b.warm, nobody)}, hello.elsewhere(b.t, lanes)[:2]...)
	s := b.table.section("Throughput: hello (Python), each in a fresh sandbox",
		"at once", "n", "Glovebox ÷ `podman run --rm`", "Glovebox ÷ bare `runsc run`", "Glovebox /s", "`podman run --rm` /s", "bare `runsc run` /s")
	s.notef("At once: callers, each of whom asks for the next program when it has the last one's output. Glovebox's worker runs as many jobs at once as there are processors, whatever comes. " +
		"Its sandboxes have the image as one file (root images, ADR 18), the others as directories. " +
		"n: programs of Glovebox that ended while it was measured, the pool's first ones left out.")
	var worstPodman, worstRunsc float64
	for _, callers := range []int{1, 2, 4, lanes} {
		b.says(fmt.Sprintf("throughput at %d at once", callers), time.Duration(turns*len(all))*(before+window+time.Second))
		ended, measured := make([]int, len(all)), make([]time.Duration, len(all))
		for range turns {
			for n, w := range all {
				b.settle()
				count, over, err := closedLoop(w, callers, before, window)
				b.must(err)
				ended[n] += count
				measured[n] += over
			}
		}
		perSecond := make([]float64, len(all))
		for n := range all {
			perSecond[n] = float64(ended[n]) / measured[n].Seconds()
		}
		toPodman, toRunsc := perSecond[0]/perSecond[1], perSecond[0]/perSecond[2]
		s.row(fmt.Sprint(callers), fmt.Sprint(ended[0]), number2(toPodman), number2(toRunsc), number1(perSecond[0]), number1(perSecond[1]), number1(perSecond[2]))
		if callers == 1 {
			worstPodman, worstRunsc = toPodman, toRunsc
		}
		worstPodman, worstRunsc = min(worstPodman, toPodman), min(worstRunsc, toRunsc)
	}
	b.table.check("fresh sandboxes a second ÷ a loop of `podman run --rm`, the least of 1 to 8 at once", "≥ 1.5", number2(worstPodman), holds(worstPodman >= 1.5))
	b.table.check("fresh sandboxes a second ÷ a loop of bare `runsc run`, the least of 1 to 8 at once", "≥ 0.7", number2(worstRunsc), holds(worstRunsc >= 0.7))
}

// closedLoop has callers run w again and again, and counts what ends within the window,
// which begins when they have run for a while. over is the window's length.
func closedLoop(w way, callers int, before, window time.Duration) (ended int, over time.Duration, err error) {
	var all sync.WaitGroup
	var count atomic.Int64
	failed := make([]error, callers)
	stop := make(chan struct{})
	for lane := range callers {
		all.Go(func() {
			for failed[lane] == nil {
				select {
				case <-stop:
					return
				default:
				}
				failed[lane] = w.run(lane)
				count.Add(1)
			}
		})
	}
	time.Sleep(before)
	from, first := time.Now(), count.Load()
	time.Sleep(window)
	ended, over = int(count.Load()-first), time.Since(from)
	close(stop)
	all.Wait()
	return ended, over, errors.Join(failed...)
}
