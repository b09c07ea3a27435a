package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestSoak runs hostile jobs in a row, four at once, on one worker that nobody
// restarts. From a tenth of them on, neither the worker nor Podman may grow.
// GLOVEBOX_SOAK_JOBS is how many (each kind once, or 2000 with `make soak`, where sandboxes go on from snapshots).
func TestSoak(t *testing.T) {
	t.Parallel()
	const atOnce = 4
	jobs := gbtest.Number(t, "GLOVEBOX_SOAK_JOBS", len(hostiles))
	preload := "GLOVEBOX_PRELOAD=0"
	if jobs > len(hostiles) {
		preload = "GLOVEBOX_SNAPSHOTS=always"
	}
	g := start(t, options{workerEnv: append(oneOfEach(t, atOnce), "GLOVEBOX_CONCURRENCY="+strconv.Itoa(atOnce), preload)})
	g.mostWarm = kinds(t)
	began := time.Now()
	turns := make(chan int)
	statuses := map[job.Status]int{}
	var mu sync.Mutex
	var figures []soakFigures
	step := max(jobs/10, len(hostiles))
	for from := 0; from < jobs; from += step {
		var running sync.WaitGroup
		for range atOnce {
			running.Go(func() {
				for n := range turns {
					h := hostiles[n%len(hostiles)]
					status := g.endure(h)
					mu.Lock()
					statuses[status]++
					mu.Unlock()
				}
			})
		}
		for n := from; n < min(from+step, jobs); n++ {
			turns <- n
		}
		close(turns)
		running.Wait()
		turns = make(chan int)
		figures = append(figures, g.soakFigures(min(from+step, jobs)))
		t.Log(figures[len(figures)-1])
	}
	t.Logf("%d jobs in %.0f s: %v", jobs, time.Since(began).Seconds(), statuses)
	g.worker.Stop()
	if c := g.ours(); len(c) > 0 {
		t.Errorf("a worker that ended has left %v", c)
	}
	var uploads []string
	if !within(patience, func() bool {
		uploads = slices.DeleteFunc(g.objects(), func(key string) bool { return !strings.HasPrefix(key, ".sgwtmp/") })
		return len(uploads) == 0
	}) {
		t.Errorf("uploads were not finished: %v", uploads)
	}
	flat(t, figures)
}

// flat fails the test where what must not grow has grown, or something is left. Fewer than three figures tell nothing of growth.
func flat(t *testing.T, figures []soakFigures) {
	t.Helper()
	first, last := figures[0], figures[len(figures)-1]
	if len(figures) < 3 {
		first = last
	}
	for _, f := range []struct {
		name             string
		first, last, fit int64
	}{
		{"memory of the worker", first.workerRSS, last.workerRSS, first.workerRSS*5/4 + 16<<20},
		{"descriptors of the worker", first.workerFDs, last.workerFDs, first.workerFDs + 8},
		{"goroutines of the worker", first.goroutines, last.goroutines, first.goroutines + 8},
		{"memory of Podman", first.podmanRSS, last.podmanRSS, first.podmanRSS*5/4 + 32<<20},
		{"descriptors of Podman", first.podmanFDs, last.podmanFDs, first.podmanFDs + 8},
		{"bytes on disk", first.diskBytes, last.diskBytes, first.diskBytes + 8<<20},
		{"files on disk", first.diskFiles, last.diskFiles, first.diskFiles + 100},
		{"containers", 0, last.containers, 0},
		{"processes", first.processes, last.processes, first.processes},
	} {
		if f.last > f.fit {
			t.Errorf("%s grew from %d to %d, tolerated are %d", f.name, f.first, f.last, f.fit)
		}
	}
}

// endure runs a hostile job and says how it ended.
func (g *glovebox) endure(h hostile) job.Status {
	ctx, cancel := context.WithTimeout(g.tb.Context(), 3*time.Minute)
	defer cancel()
	if h.spec.Limits.WallMS == 0 {
		h.spec.Limits.WallMS = 60_000 // how busy the machine is must not decide
	}
	j, err := g.client.Submit(ctx, h.spec)
	if err == nil {
		j, err = g.client.Wait(ctx, j.ID)
	}
	if err != nil {
		g.tb.Errorf("%s: %v", h.name, err)
		return ""
	}
	if r := j.Result; !slices.Contains(h.might, r.Status) {
		g.tb.Errorf("%s is %s after %d ms, want %v; exit code %v, signal %s, error %v, stderr %.300q", h.name, r.Status, r.Usage.WallMS, h.might, r.ExitCode, r.Signal, r.Error, r.Stderr)
	}
	return j.Status
}

// soakFigures is what must not grow with the number of jobs.
type soakFigures struct {
	jobs                             int
	workerRSS, workerFDs, goroutines int64
	heap                             int64
	podmanRSS, podmanFDs             int64
	diskBytes, diskFiles             int64
	containers, processes            int64
}

func (f soakFigures) String() string {
	return fmt.Sprintf("after %4d jobs: worker %d MiB (heap %d MiB), %d descriptors, %d goroutines; Podman %d MiB, %d descriptors; disk %d KiB in %d files; %d containers, %d processes left",
		f.jobs, f.workerRSS>>20, f.heap>>20, f.workerFDs, f.goroutines, f.podmanRSS>>20, f.podmanFDs, f.diskBytes>>10, f.diskFiles, f.containers, f.processes)
}

var figuresLine = regexp.MustCompile(`msg=figures goroutines=(\d+) heap_bytes=(\d+)`)

// soakFigures waits until the last sandbox is gone, and measures.
func (g *glovebox) soakFigures(jobs int) soakFigures {
	g.tb.Helper()
	var containers, processes []string
	if !within(patience, func() bool {
		containers, processes = g.containers(), g.leftProcesses()
		return len(containers)+len(processes) == 0 && len(g.alive()) == g.mostWarm // each that waits has descriptors
	}) {
		g.tb.Errorf("after %d jobs: containers %v, processes %v are left", jobs, containers, processes)
	}
	f := soakFigures{jobs: jobs, containers: int64(len(containers)), processes: int64(len(processes))}
	asked := len(figuresLine.FindAllString(g.worker.Output(), -1))
	g.worker.Signal(syscall.SIGUSR1)
	var lines [][]string
	if !within(patience, func() bool {
		lines = figuresLine.FindAllStringSubmatch(g.worker.Output(), -1)
		return len(lines) > asked
	}) {
		g.tb.Fatal("the worker did not answer SIGUSR1")
	}
	f.goroutines, f.heap = g.parse(lines[len(lines)-1][1]), g.parse(lines[len(lines)-1][2])
	f.workerRSS, f.workerFDs = g.measure(g.worker.PID())
	f.podmanRSS, f.podmanFDs = g.measure(g.podman.PID())
	f.diskBytes, f.diskFiles = g.podmanDisk()
	return f
}

// measure sums resident memory and open descriptors over a process group.
func (g *glovebox) measure(group int) (rss, fds int64) {
	g.tb.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		g.tb.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(b), ") ") // state ppid pgrp …
		fields := strings.Fields(rest)
		if len(fields) < 22 || fields[2] != strconv.Itoa(group) {
			continue
		}
		rss += g.parse(fields[21]) * int64(os.Getpagesize())
		open, err := os.ReadDir(filepath.Join(filepath.Dir(path), "fd"))
		if err == nil {
			fds += int64(len(open))
		}
	}
	return rss, fds
}

func (g *glovebox) parse(s string) int64 {
	g.tb.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		g.tb.Fatal(err)
	}
	return n
}

// podmanDisk is what Podman keeps besides images and what containers that live use, other tests' too: its
// store without layers' contents, and its runtime directory.
func (g *glovebox) podmanDisk() (size, files int64) {
	g.tb.Helper()
	store := filepath.Join(home(g.tb), ".local/share/glovebox/storage")
	living := g.living(store)
	sizes := map[string]int64{}
	for _, root := range []string{store, os.Getenv("XDG_RUNTIME_DIR")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // others' files: gone by now, or closed to us
			}
			if gbtest.InStore(path) {
				return fs.SkipDir
			}
			sizes[path] = 0
			if info, err := d.Info(); err == nil && d.Type().IsRegular() {
				sizes[path] = info.Size()
			}
			if filepath.Dir(path) == filepath.Join(store, "overlay") && d.Name() != "l" {
				return fs.SkipDir // a layer: counted, not looked into
			}
			return nil
		})
		if err != nil {
			g.tb.Fatal(err)
		}
	}
	maps.Copy(living, g.living(store)) // those that were made meanwhile
	for path, bytes := range sizes {
		if !slices.ContainsFunc(words.FindAllString(path, -1), func(word string) bool { return living[word] }) {
			size, files = size+bytes, files+1
		}
	}
	return size, files
}

// words are what names of files in Podman's store are made of: ids, and the short names of layers.
var words = regexp.MustCompile(`[0-9a-f]{64}|[0-9A-Z]{26}`)

// living has the ids of the containers that Podman knows, of their layers, and the layers' short names.
func (g *glovebox) living(store string) map[string]bool {
	g.tb.Helper()
	ids := map[string]bool{}
	for _, c := range g.inPodman("") {
		ids[c.ID] = true
	}
	b, err := os.ReadFile(filepath.Join(store, "overlay-containers/containers.json"))
	if err != nil {
		g.tb.Fatal(err)
	}
	var stored []struct{ ID, Layer string }
	if err := json.Unmarshal(b, &stored); err != nil {
		g.tb.Fatal(err)
	}
	for _, c := range stored {
		if !ids[c.ID] {
			continue
		}
		ids[c.Layer] = true
		if link, err := os.ReadFile(filepath.Join(store, "overlay", c.Layer, "link")); err == nil {
			ids[string(link)] = true // where it can't be read, the layer has gone
		}
	}
	return ids
}
