package e2e

import (
	"os"
	"regexp"
	"strings"
)

var (
	acceptLine = regexp.MustCompile(`^BenchmarkAccept/(\d+)(?:-\d+)?\s`)
	acceptUnit = regexp.MustCompile(`([0-9.e+]+) (asynq-jobs/s|single-jobs/s|batch-jobs/s|single-ratio|batch-ratio)`)
)

// accepting takes the rates at which jobs are accepted from BenchmarkAccept, which ran
// before in the same `make bench`: GLOVEBOX_BENCH_RAW names its output.
func (b *bench) accepting() {
	b.t.Helper()
	s := b.table.section("Accepting jobs: one api process", "callers", "single ÷ asynq", "batch ÷ asynq", "single jobs/s", "batch (JSON Lines) jobs/s", "asynq's Enqueue /s")
	s.notef("Jobs over HTTP, each a durable record, a check and a task, beside asynq's own Enqueue of the same bytes: a task only. BenchmarkAccept, in turns in a run of its own just before.")
	path := os.Getenv("GLOVEBOX_BENCH_RAW")
	if path == "" {
		s.row("not measured", "", "", "", "", "")
		return
	}
	raw, err := os.ReadFile(path)
	b.must(err)
	found := false
	for line := range strings.Lines(string(raw)) {
		callers := acceptLine.FindStringSubmatch(line)
		if callers == nil {
			continue
		}
		values := map[string]string{}
		for _, m := range acceptUnit.FindAllStringSubmatch(line, -1) {
			values[m[2]] = m[1]
		}
		s.row(callers[1], values["single-ratio"], values["batch-ratio"], values["single-jobs/s"], values["batch-jobs/s"], values["asynq-jobs/s"])
		found = true
	}
	if !found {
		b.t.Errorf("%s has no line of BenchmarkAccept", path)
	}
}
