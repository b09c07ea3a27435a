package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// usage is what a process has in memory, and what of it is its own share, bytes.
type usage struct{ rss, pss int64 }

func (u usage) most(other usage) usage {
	return usage{rss: max(u.rss, other.rss), pss: max(u.pss, other.pss)}
}

// memory is what the processes of an installation hold.
type memory struct{ api, worker usage }

func (m memory) most(other memory) memory {
	return memory{api: m.api.most(other.api), worker: m.worker.most(other.worker)}
}

// memory is what api and worker hold now.
func (i *installation) memory() (m memory, err error) {
	for _, p := range []struct {
		pid  int
		into *usage
	}{{i.api.PID(), &m.api}, {i.worker.PID(), &m.worker}} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		if err != nil {
			return m, err
		}
		rss, noRss := kilobytes(text, "Rss")
		pss, noPss := kilobytes(text, "Pss")
		if err := errors.Join(noRss, noPss); err != nil {
			return m, err
		}
		*p.into = usage{rss, pss}
	}
	return m, nil
}

// kilobytes reads a line of a file of /proc that counts in them, as bytes.
func kilobytes(text []byte, name string) (int64, error) {
	found := regexp.MustCompile(`(?m)^` + name + `:\s+(\d+) kB$`).FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no %s in:\n%s", name, text)
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	return n << 10, err
}

// watchMemory looks at an installation every half second; what it returns stops that, and
// tells the most that was held.
func (b *bench) watchMemory() (stop func() memory) {
	b.t.Helper()
	var most memory
	var failed error
	var looks sync.WaitGroup
	ended := make(chan struct{})
	looks.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for failed == nil {
			var now memory
			now, failed = b.warm.memory()
			most = most.most(now)
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	})
	end := sync.OnceFunc(func() { close(ended); looks.Wait() })
	b.t.Cleanup(end)
	return func() memory {
		end()
		b.must(failed)
		return most
	}
}

// memories measures idle processes, and those that work: do.
func (b *bench) memories(work func()) {
	b.t.Helper()
	b.refilled(hello.runtime)
	idle, err := b.warm.memory()
	b.must(err)
	stop := b.watchMemory()
	work()
	load := stop()
	s := b.table.section("Memory of Glovebox's processes",
		"process", "under load ÷ idle", "idle MiB", "of it its own (Pss)", "under load MiB", "of it its own (Pss)")
	s.notef("Idle: started, sandboxes waiting, before the first job. Under load: the most that was seen, every 500 ms, in all of the above. " +
		"Sandboxes are processes of their own.")
	for _, p := range []struct {
		name       string
		idle, load usage
	}{{"worker", idle.worker, load.worker}, {"api", idle.api, load.api}} {
		s.row(p.name, number2(float64(p.load.rss)/float64(p.idle.rss)), megabytes(p.idle.rss), megabytes(p.idle.pss), megabytes(p.load.rss), megabytes(p.load.pss))
	}
}

// peak is the most that a process held while do ran.
func (b *bench) peak(pid int, do func()) int64 {
	b.t.Helper()
	b.must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)) // forget the peak there was
	do()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	b.must(err)
	most, err := kilobytes(text, "VmHWM")
	b.must(err)
	return most
}
