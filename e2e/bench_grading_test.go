package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/runtimes"
)

// exercise is a program that doubles a number, and what runs it in a shell, from /mnt.
type exercise struct {
	name, runtime, source string
	compile, run          string
	least                 float64 // how many times as long as many submissions are to take
}

var exercises = []exercise{
	{name: "Python", runtime: "python", source: "print(int(input()) * 2)\n", compile: "true", run: "python3 /mnt/main.py", least: 4},
	{name: "C", runtime: "c", source: "#include <stdio.h>\nint main(void) { int n; if (scanf(\"%d\", &n) != 1) return 1; printf(\"%d\\n\", 2 * n); }\n", compile: "gcc -O2 -o /tmp/main /mnt/main.c -lm", run: "/tmp/main", least: 20},
}

// spec is a submission with so many tests.
func (e exercise) spec(tests int) job.Spec {
	s := job.Spec{Runtime: e.runtime, Source: e.source, Limits: job.Limits{WallMS: 5000, CPUMS: 5000}} // as many as may be: 50 minutes in all
	for i := range tests {
		s.Tests = append(s.Tests, job.Test{Name: fmt.Sprint(i), Stdin: fmt.Sprintln(i), Answer: fmt.Sprintln(2 * i)})
	}
	return s
}

// gradings measures what many tests of one submission cost, beside what else could run the program as often.
func (b *bench) gradings() {
	b.t.Helper()
	const tests, singles, rounds = 100, 30, 3
	n, m := b.times(tests), b.times(singles)
	s := b.table.section("Grading: tests of one submission", "program", "tests", "a test ms", "a submission of one test ms", "÷", "a start in a loop ms", "rate ÷ that of the loop")
	s.notef("The program reads a number and prints its double. A test: of one submission with all of them, submit → result, medians of %d. A submission of one test: the mean of %d, one after the other, each with a sandbox that waited; ÷: how many times as long as many of those take. "+
		"A start in a loop: in a shell, in one job of the same runtime. Rate: what each test adds to a submission, beside that.", b.times(rounds), m)
	for _, e := range exercises {
		b.says("tests in "+e.name, b.scaled(4*time.Minute))
		b.graded(e, 1) // the first one, which reads the compiler from disk
		var together, first, floor times
		for range b.times(rounds) {
			first = append(first, b.graded(e, 1))
			together = append(together, b.graded(e, n))
			floor = append(floor, b.looped(e, n))
		}
		var alone time.Duration
		for range m {
			alone += b.graded(e, 1)
		}
		alone /= time.Duration(m)
		all, loop := together.percentile(50), floor.percentile(50)
		many := ratio(alone*time.Duration(n), all)
		// A trial has one test, which adds nothing to itself.
		rate := ratio(loop, max((all-first.percentile(50))/time.Duration(max(n-1, 1)), time.Microsecond))
		s.row(e.name, fmt.Sprint(n), milliseconds(all/time.Duration(n)), milliseconds(alone), number1(many), milliseconds(loop), number2(rate))
		b.table.check(fmt.Sprintf("%d submissions of one test ÷ one of %d tests, %s", n, n, e.name), fmt.Sprintf("≥ %g", e.least), number1(many), holds(many >= e.least))
		if e.runtime == "c" {
			b.table.check("tests of one submission ÷ starts in a loop in one sandbox, C", "≥ 0.5", number2(rate), holds(rate >= 0.5))
		}
	}
	b.gradedBatches()
}

// graded is how long a submission takes, from submitting it until its result is there.
func (b *bench) graded(e exercise, tests int) time.Duration {
	b.t.Helper()
	b.refilled(e.runtime)
	began := time.Now()
	j, err := b.warm.client.Submit(b.t.Context(), e.spec(tests))
	b.must(err)
	j, err = b.warm.client.Wait(b.t.Context(), j.ID)
	took := time.Since(began)
	b.must(err)
	if r := j.Result; r.Verdict != job.Accepted || len(r.Tests) != tests {
		b.t.Fatalf("%s: got %s of %d tests, want accepted, of %d: %+v", e.name, r.Verdict, len(r.Tests), tests, r.Error)
	}
	return took
}

// looped is what each of n starts of the program takes in a loop inside one sandbox.
func (b *bench) looped(e exercise, n int) time.Duration {
	b.t.Helper()
	b.refilled(e.runtime)
	here := strings.NewReplacer("/mnt/", "").Replace
	loop := "echo 21 >/tmp/in; from=$(date +%s%N); i=0\n" +
		fmt.Sprintf("while [ $i -lt %d ]; do %s </tmp/in >/tmp/out || exit 1; i=$((i+1)); done\n", n, here(e.run)) +
		"to=$(date +%s%N); echo $((to - from))"
	r, err := b.warm.http.run(b.t.Context(), job.Spec{
		Runtime: e.runtime, Source: e.source, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000},
		Commands: &job.Commands{Compile: here(e.compile), Run: loop},
	})
	b.must(err)
	ns, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	b.must(err)
	return time.Duration(ns / n)
}

// class is GLOVEBOX_BENCH_CLASS, how many submissions come at once; 300 by default.
func class(tb testing.TB) int {
	tb.Helper()
	text := os.Getenv("GLOVEBOX_BENCH_CLASS")
	if text == "" {
		return 300
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 10_000 {
		tb.Fatalf("GLOVEBOX_BENCH_CLASS is %q, want 1 to 10000 submissions", text)
	}
	return n
}

// gradedBatches measures a class's submissions, as a batch and as containers that loop over the tests.
func (b *bench) gradedBatches() {
	b.t.Helper()
	const tests = 20
	n, lanes := b.times(class(b.t)), runtime.NumCPU()
	s := b.table.section("Grading: a class at once", "program", "submissions", "tests each", "Glovebox s", "`podman run --rm` s", "÷")
	s.notef("Glovebox: one batch, until the last result is there. `podman run --rm`: as many containers, %d at once, as the worker has sandboxes. Each compiles if need be, and runs a shell's loop over the tests, which compares what is printed with the answers.", lanes)
	for _, e := range exercises {
		b.says(fmt.Sprintf("%d submissions in %s", n, e.name), b.scaled(6*time.Minute))
		command := b.inContainers(e, tests)
		b.refilled(e.runtime)
		batch := b.gradedBatch(e, n, tests)
		b.settle()
		began := time.Now()
		var containers sync.WaitGroup
		failed := make([]error, lanes)
		for lane := range lanes {
			containers.Go(func() {
				for i := lane; i < n && failed[lane] == nil; i += lanes {
					failed[lane] = command()
				}
			})
		}
		containers.Wait()
		took := time.Since(began)
		for _, err := range failed {
			b.must(err)
		}
		s.row(e.name, fmt.Sprint(n), fmt.Sprint(tests), number1(batch.Seconds()), number1(took.Seconds()), number2(ratio(batch, took)))
		b.table.check(fmt.Sprintf("a batch of %d submissions of %d tests ÷ as many `podman run --rm`, %s", n, tests, e.name), "≤ 1.0", number2(ratio(batch, took)), holds(batch <= took))
	}
}

// gradedBatch is how long a batch takes until all of its results are there.
func (b *bench) gradedBatch(e exercise, n, tests int) time.Duration {
	b.t.Helper()
	began := time.Now()
	batch, err := b.warm.client.SubmitBatch(b.t.Context(), producer.BatchOptions{}, func(yield func(job.Spec, error) bool) {
		for range n {
			if !yield(e.spec(tests), nil) {
				return
			}
		}
	})
	b.must(err)
	batch, err = b.warm.client.WaitBatch(b.t.Context(), batch.ID)
	b.must(err)
	accepted := 0
	for r, err := range b.warm.client.BatchResults(b.t.Context(), batch.ID, 0) {
		b.must(err)
		if r.Result != nil && r.Result.Verdict == job.Accepted {
			accepted++
		}
	}
	took := time.Since(began)
	if accepted != n {
		b.t.Fatalf("%d of %d submissions were accepted: %+v", accepted, n, batch)
	}
	return took
}

// inContainers returns what grades a submission in a container.
func (b *bench) inContainers(e exercise, tests int) func() error {
	b.t.Helper()
	set, err := runtimes.Embedded()
	b.must(err)
	r, ok := set.Lookup(e.runtime)
	if !ok {
		b.t.Fatalf("there is no runtime %s", e.runtime)
	}
	dir, err := os.MkdirTemp("", "gb") // Podman's namespaces have to reach it
	b.must(err)
	b.t.Cleanup(func() { os.RemoveAll(dir) })
	files := map[string]string{r.File: e.source}
	for i, t := range e.spec(tests).Tests {
		files[fmt.Sprint(i, ".in")], files[fmt.Sprint(i, ".ans")] = t.Stdin, t.Answer
	}
	for name, content := range files {
		b.must(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	script := fmt.Sprintf(`%s || exit 1
for input in /mnt/*.in; do
	[ "$(%s <"$input")" = "$(cat "${input%%.in}.ans")" ] || exit 1
done
echo accepted`, e.compile, e.run)
	return func() error {
		out, err := gbtest.StockPodmanRun(b.t, "-v", dir+":"+mounted+":ro", r.Image(), "sh", "-c", script).CombinedOutput()
		if err != nil || string(out) != "accepted\n" {
			return fmt.Errorf("in a container: %w: %s", err, out)
		}
		return nil
	}
}
