package e2e

import (
	"fmt"
	"os"
	"time"
)

// settle waits until the machine has nothing to do, so that what ran before (removing a
// sandbox, refilling a pool) is not measured with what comes next. On a machine that is never
// idle it gives up after 3 s; what is measured in turns suffers in turns.
func (b *bench) settle() {
	b.t.Helper()
	if b.trial() {
		return // other tests run beside
	}
	const look, most = 100 * time.Millisecond, 0.15
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		busyBefore, allBefore := b.processors()
		time.Sleep(look)
		busy, all := b.processors()
		if all > allBefore && (busy-busyBefore)/(all-allBefore) <= most {
			return
		}
	}
}

// processors is how long they have been busy, and how long they have been there.
func (b *bench) processors() (busy, all float64) {
	b.t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	b.must(err)
	var user, nice, system, idle, wait, irq, soft, steal float64
	_, err = fmt.Sscanf(string(stat), "cpu %g %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal)
	b.must(err)
	busy = user + nice + system + irq + soft + steal
	return busy, busy + idle + wait
}

// refilled waits until a sandbox of the runtime waits, preloaded where it can be, and nothing
// is done to have more.
func (b *bench) refilled(runtime string) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ready := b.warm.waiting(runtime) > 0
		if runtime == hello.runtime && !b.trial() {
			ready = b.warm.preloaded(runtime) > 0
		}
		if ready {
			b.settle()
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("no sandbox for %s waits after a minute; the worker's output:\n%s", runtime, b.warm.worker.Output())
		}
	}
}
