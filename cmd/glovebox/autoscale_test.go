package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// TestAutoscale: the command reads what there is to do from Redis, as a user of the api's, and prints a number: none, and
// enough workers once jobs wait, which is what Prometheus finds.
func TestAutoscale(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	records, err := record.Open(t.Context(), record.Config{URL: server.API()})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	settings := config.File{"GLOVEBOX_REDIS_URL": server.API(), "GLOVEBOX_AUTOSCALE_SLOTS": "4"}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, getenv: settings.Get}
	if code := a.run(t.Context(), []string{"autoscale", "--interval", "1s"}); code != exitOK || !strings.HasPrefix(out.String(), "0 workers wanted, 0 there") {
		t.Fatalf("with nothing to do: exit code %d, %s%s", code, &out, &errs)
	}
	worker, err := record.Open(t.Context(), record.Config{URL: server.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	if err := worker.Fleet.Beat(t.Context(), fleet.Worker{ID: "idle", Concurrency: 4}); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if code := a.run(t.Context(), []string{"autoscale", "--interval", "1s"}); code != exitOK || !strings.HasPrefix(out.String(), "0 workers wanted, 1 there") {
		t.Fatalf("with nothing to do for a worker: exit code %d, %s%s", code, &out, &errs)
	}
	if _, err := records.CreateTenant(t.Context(), "bounded", job.Terms{Quotas: job.Quotas{RunningAtOnce: 2}}); err != nil {
		t.Fatal(err)
	}
	for tenant, n := range map[string]int{"bounded": 1000, "free": 600} {
		jobs := make([]record.NewJob, n)
		for i := range jobs {
			jobs[i] = record.NewJob{ID: job.NewID(tenant), Spec: job.Spec{Runtime: "bash"}}
		}
		if _, err := records.CreateMany(t.Context(), tenant, jobs); err != nil {
			t.Fatal(err)
		}
	}
	w := watchAutoscale(t, settings, "--service", "2s")
	var d autoscale.Decision
	if err := w.decisions.Decode(&d); err != nil {
		t.Fatal(err)
	}
	// 602 jobs of 2 s within the two minutes that remain of three are 11 slots.
	if d.Pool != "common" || d.Wanted != 3 || d.Waiting != 602 || d.Why == "" {
		t.Errorf("got %+v, want 3 workers for 602 jobs", d)
	}
	w.exports(`pool="common"} 3`)
}

// TestAutoscalePools: one process says how many workers each of several pools wants, to a reader of lines, of JSON, and to Prometheus: of
// each, for the jobs that name its labels, and of a tenant for no more than its quota.
func TestAutoscalePools(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	records, err := record.Open(t.Context(), record.Config{URL: server.API()})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	worker, err := record.Open(t.Context(), record.Config{URL: server.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	for _, w := range []fleet.Worker{
		{ID: "exam", Concurrency: 4, Labels: job.Labels{"pool": "exams"}, Only: []string{"pool"}},
		{ID: "any", Concurrency: 4},
	} {
		if err := worker.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := records.CreateTenant(t.Context(), "bounded", job.Terms{Quotas: job.Quotas{RunningAtOnce: 2}}); err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []struct {
		tenant    string
		placement job.Labels
		n         int
	}{
		{"school", job.Labels{"pool": "exams"}, 1198},
		{"bounded", job.Labels{"pool": "exams"}, 500},
		{"school", nil, 600},
	} {
		list := make([]record.NewJob, jobs.n)
		for i := range list {
			list[i] = record.NewJob{ID: job.NewID(jobs.tenant), Spec: job.Spec{Runtime: "bash", Placement: jobs.placement}}
		}
		if _, err := records.CreateMany(t.Context(), jobs.tenant, list); err != nil {
			t.Fatal(err)
		}
	}
	settings := config.File{"GLOVEBOX_REDIS_URL": server.API(), "GLOVEBOX_AUTOSCALE_SLOTS": "4", "GLOVEBOX_AUTOSCALE_SERVICE": "2s", "GLOVEBOX_AUTOSCALE_POOL": "pool=exams\npool=idle\ncommon"}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, getenv: settings.Get}
	if code := a.run(t.Context(), []string{"autoscale", "--interval", "1s", "--pool", "pool=exams"}); code != exitOK || !strings.HasPrefix(out.String(), "5 workers wanted of pool=exams, 1 there") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("of one pool: exit code %d, %s%s", code, &out, &errs)
	}
	w := watchAutoscale(t, settings)
	// 1200 jobs of 2 s within the two minutes that remain of three are 20 slots, 600 are 10.
	for _, want := range []autoscale.Decision{
		{Pool: "pool=exams", Wanted: 5, Workers: 1, Waiting: 1200},
		{Pool: "pool=idle"},
		{Pool: "common", Wanted: 3, Workers: 1, Waiting: 600},
	} {
		var d autoscale.Decision
		if err := w.decisions.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if d.Pool != want.Pool || d.Wanted != want.Wanted || d.Workers != want.Workers || d.Waiting != want.Waiting {
			t.Errorf("got %+v, want %+v", d, want)
		}
	}
	w.exports(`pool="pool=exams"} 5`, `pool="pool=idle"} 0`, `pool="common"} 3`)
}

// autoscaleWatch is "glovebox autoscale --watch".
type autoscaleWatch struct {
	t         *testing.T
	addr      string // of its metrics
	lines     *io.PipeReader
	decisions *json.Decoder // of lines
	log       *gbtest.Buffer
	stop      func()
	ended     chan int
}

// watchAutoscale begins it, with these flags besides.
func watchAutoscale(t *testing.T, settings config.File, flags ...string) *autoscaleWatch {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	lines, written := io.Pipe()
	w := &autoscaleWatch{
		t: t, addr: gbtest.Addr(t), lines: lines, decisions: json.NewDecoder(lines), log: &gbtest.Buffer{}, stop: stop, ended: make(chan int, 1),
	}
	a := &app{stdout: written, stderr: w.log, getenv: settings.Get}
	go func() {
		defer written.Close()
		w.ended <- a.run(ctx, append([]string{"autoscale", "--watch", "--json", "--interval", "1s", "--metrics-addr", w.addr}, flags...))
	}()
	return w
}

// exports waits until Prometheus finds these numbers of wanted workers, and ends the command.
func (w *autoscaleWatch) exports(numbers ...string) {
	w.t.Helper()
	defer w.stop()
	go io.Copy(io.Discard, w.lines) //nolint:errcheck // until the command ends
	gbtest.Eventually(w.t, "Prometheus finds the numbers", func() bool {
		text, err := get(w.t.Context(), "http://"+w.addr+"/metrics")
		return err == nil && !slices.ContainsFunc(numbers, func(n string) bool { return !strings.Contains(text, "\nglovebox_workers_wanted{"+n+"\n") })
	})
	w.stop()
	select {
	case code := <-w.ended:
		if code != exitOK {
			w.t.Errorf("exit code %d: %s", code, w.log)
		}
	case <-time.After(gbtest.Patience):
		w.t.Error("the command doesn't end")
	}
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func TestAutoscaleUsage(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--slots -1":                    "--slots is -1: want 1 to 1000",
		"--min 5 --max 3":               "--min is 5: want 0 to max, which is 3",
		"--clear 30s":                   "--clear is 30s: want more than boot, which is 1m0s",
		"--interval 1h":                 "--interval is 1h0m0s: want 1s to 1m0s",
		"--interval 2m":                 "--interval is 2m0s: want 1s to 1m0s",
		"--slots 0":                     "--slots is 0: want more",
		"--max 0":                       "--max is 0: want more",
		"--boot 0s":                     "--boot is 0: want more",
		"--metrics-addr 127.0.0.1:9095": "want --watch, too",
		"--pool exams":                  `--pool: "exams" is no label: want key=value, with commas between them`,
		"--pool pool=exams!":            "--pool: labels.pool: is no value of a label (got exams!); allowed: 1 to 63 letters",
		"--pool common --pool common":   "--pool: common is given more than once",
		"--pool=":                       "--pool: it is empty: want labels, as in pool=exams,zone=a, or common",
		"--hold soon":                   "invalid argument \"soon\"",
		"":                              "GLOVEBOX_REDIS_URL",
	} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, getenv: config.File{}.Get}
		if code := a.run(t.Context(), append([]string{"autoscale"}, strings.Fields(args)...)); code != exitUsage || !strings.Contains(errs.String(), says) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", fmt.Sprint(args), code, errs.String(), exitUsage, says)
		}
	}
}
