package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// executed is an answer of POST /v1/code-sandbox/execute.
type executed struct {
	producer.Execution

	status   int
	body     string
	problem  producer.Problem
	location string
}

// job is the id of the job that the code became.
func (e executed) job() string { return strings.TrimPrefix(e.location, "/v1/jobs/") }

// try asks once.
func (g *glovebox) try(ctx context.Context, language, code, key string) (executed, error) {
	text, err := json.Marshal(producer.ExecuteRequest{Language: language, Code: code})
	if err != nil {
		return executed{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/code-sandbox/execute", strings.NewReader(string(text)))
	if err != nil {
		return executed{}, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return executed{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	e := executed{status: res.StatusCode, body: string(body), location: res.Header.Get("Location")}
	if err == nil && e.status == http.StatusOK {
		err = json.Unmarshal(body, &e.Execution)
	} else if err == nil {
		err = json.Unmarshal(body, &e.problem)
	}
	return e, err
}

// execute asks as often as a busy machine needs to come to an end with it.
func (g *glovebox) execute(t *testing.T, language, code string) executed {
	t.Helper()
	key := rand.Text()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		e, err := g.try(t.Context(), language, code, key)
		if err != nil {
			t.Fatal(err)
		}
		if e.problem.Code() != job.CodeWaitOver || time.Now().After(deadline) {
			return e
		}
	}
}

// TestExecute: what code did, in the words of POST /v1/code-sandbox/execute.
func TestExecute(t *testing.T) {
	t.Parallel()
	prices := job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500}
	g := start(t, options{
		apiEnv:    []string{"GLOVEBOX_PRICES=run=200,cpu_second=14000,gib_second=4500"},
		workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed()},
	})
	const none = "<none>" // in the place of an error
	for name, tt := range map[string]struct {
		language, code string
		exit           int
		stdout, stderr string // what it has; "" for nothing at all
		timedOut       bool
		why            string
	}{
		"python":           {"python", "print(6 * 7)", 0, "42\n", "", false, none},
		"javascript":       {"javascript", "console.log(6 * 7)", 0, "42\n", "", false, none},
		"an alias":         {"sh", "echo $((6 * 7))", 0, "42\n", "", false, none},
		"a compiled one":   {"c", "#include <stdio.h>\nint main(void) { puts(\"42\"); }", 0, "42\n", "", false, none},
		"unicode":          {"python", "print('héllo 🚀', '\u2028')", 0, "héllo 🚀 \u2028\n", "", false, none},
		"nothing to do":    {"python", " \n", 0, "", "", false, none},
		"exit code":        {"python", "import sys; print('out'); sys.exit(3)", 3, "out\n", "", false, "Exited with code 3"},
		"exception":        {"javascript", "null.x", 1, "", "TypeError", false, "Exited with code 1"},
		"NUL":              {"python", "print(1)\x00", 1, "", "null bytes", false, "Exited with code 1"},
		"crash":            {"python", "import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.SIGSEGV)", 139, "out\n", "", false, "Killed by SIGSEGV"},
		"a crash of C":     {"c", "int main(void) { *(volatile int *)8 = 1; }", 139, "", "", false, "Killed by SIGSEGV"},
		"time-out":         {"python", "print('begun', flush=True)\nwhile True: pass", 124, "begun\n", "Execution timed out\n", true, "Execution timed out"},
		"idle time-out":    {"sh", "echo begun; sleep 1000", 124, "begun\n", "Execution timed out\n", true, "Execution timed out"},
		"out of memory":    {"python", "print('begun', flush=True)\nx = [b'x' * (1 << 20) * 2 for _ in range(1000)]", 137, "begun\n", "", false, "Out of memory"},
		"output limit":     {"python", "while True: print('x' * 1000)", 137, "xxxx", "", false, "Output limit exceeded"},
		"does not compile": {"c", "int main(void) { return answer; }", 1, "", "answer", false, "Compilation failed"},
	} {
		t.Run(name, func(t *testing.T) {
			e := g.execute(t, tt.language, tt.code)
			for range 2 { // the code has 10 s, which a busy machine may need for anything
				if e.TimedOut && !tt.timedOut {
					e = g.execute(t, tt.language, tt.code)
				}
			}
			t.Logf("%.300s", e.body)
			if e.status != http.StatusOK || e.ExitCode == nil {
				t.Fatalf("got %d %s, want 200 and an exit code", e.status, e.body)
			}
			why := none
			if e.Error != nil {
				why = *e.Error
			}
			if *e.ExitCode != tt.exit || e.TimedOut != tt.timedOut || why != tt.why {
				t.Errorf("got exit code %d, timed out %t, error %q, want %d, %t, %q", *e.ExitCode, e.TimedOut, why, tt.exit, tt.timedOut, tt.why)
			}
			for _, stream := range [][2]string{{e.Stdout, tt.stdout}, {e.Stderr, tt.stderr}} {
				if !strings.Contains(stream[0], stream[1]) || stream[1] == "" && stream[0] != "" {
					t.Errorf("got %.200q, want %q", stream[0], stream[1])
				}
			}
			// It is what the job's result says.
			j, err := g.client.Get(t.Context(), e.job())
			if err != nil || !j.Ended() {
				t.Fatalf("get %q: %v", e.job(), err)
			}
			u := j.Result.Usage
			if e.ExecutionTimeMS != u.WallMS || e.Cost == nil || *e.Cost != float64(prices.Cost(u, 256))/1e9 {
				t.Errorf("got %s, want the usage of %+v", e.body, u)
			}
			if ran := j.Result.Status != job.CompileFailed; ran && (math.Abs(e.MemoryUsageMB-float64(u.MemoryPeakBytes)/(1<<20)) > 0.051 || e.MemoryUsageMB <= 0 || *e.Cost < 200e-9) {
				t.Errorf("got %v MiB for %v", e.MemoryUsageMB, *e.Cost)
			}
			if tt.timedOut && (u.WallMS < 9_000 || u.WallMS > 60_000) {
				t.Errorf("it ran out of time after %d ms", u.WallMS)
			}
			keys, err := g.client.Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			statement, err := attest.Verify(*j.Result, keys)
			if err != nil {
				t.Fatalf("the attestation: %v", err)
			}
			if l := statement.Statement.Predicate.Limits; l.WallMS != 10_000 || l.MemoryMB != 256 || l.CPUs != 0.5 {
				t.Errorf("it had the limits %+v", l)
			}
		})
	}
	t.Run("long output", func(t *testing.T) {
		e := g.execute(t, "python", "print('x' * 100_000)")
		whole, err := g.client.Open(t.Context(), e.job(), producer.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		defer whole.Close()
		if len(e.Stdout) != job.InlineOutput || whole.Size != 100_001 {
			t.Errorf("got %d bytes of %d, want the first %d of 100001", len(e.Stdout), whole.Size, job.InlineOutput)
		}
	})
}

// TestExecuteGoesOn: a client that leaves does not lose the job.
func TestExecuteGoesOn(t *testing.T) {
	t.Parallel()
	g := start(t, options{})

	said, err := g.client.Execute(t.Context(), producer.ExecuteRequest{Language: "sh", Code: "echo to the client"})
	if err != nil || said.Stdout != "to the client\n" || said.ExitCode == nil || *said.ExitCode != 0 || said.Error != nil || said.Cost != nil {
		t.Errorf("the client: got %+v, %v", said, err)
	}

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := g.try(ctx, "sh", "sleep 2; echo late", "left")
		left <- err
	}()
	id := g.theOneThatRuns()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a client that left", err)
	}
	if r := g.wait(id); r.Status != job.Succeeded || r.Stdout != "late\n" {
		t.Errorf("left: got %s %q, want what it would have been", r.Status, r.Stdout)
	}
	if e, err := g.try(t.Context(), "sh", "sleep 2; echo late", "left"); err != nil || e.status != http.StatusOK || e.job() != id || e.Stdout != "late\n" {
		t.Errorf("asked again: got %d %s of %s, %v, want the same job's", e.status, e.body, e.job(), err)
	}
}

// TestExecuteWaitOver: a wait that ends without a worker says where the result will be.
func TestExecuteWaitOver(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs this: in short, the API's own test of the same name is without a worker, too")
	}
	t.Parallel()
	const admin = "operator-0123456789abcdef"
	g := start(t, options{apiEnv: []string{"GLOVEBOX_ADMIN_TOKEN=" + admin}})
	g.worker.Stop()
	began := time.Now()
	e, err := g.try(t.Context(), "sh", "echo at last", "over")
	if err != nil || e.status != http.StatusServiceUnavailable || e.problem.Code() != job.CodeWaitOver || e.problem.ID == "" || e.problem.ID != e.job() {
		t.Fatalf("no worker: got %d %s, %v, want 503 with the job's id", e.status, e.body, err)
	}
	if took := time.Since(began); took < 29*time.Second || took > time.Minute {
		t.Errorf("it waited for %s, want some 30 s", took)
	}
	operator, err := producer.New(g.url, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{JobsQueued: 1}}); err != nil {
		t.Fatal(err)
	}
	gbtest.Eventually(t, "the queue is full", func() bool {
		_, err := g.client.Submit(t.Context(), job.Spec{Runtime: "sh", Source: "true"})
		return job.CodeOf(err) == job.CodeQuotaExceeded
	})
	if full, err := g.try(t.Context(), "sh", "echo one too many", "full"); err != nil || full.status != http.StatusTooManyRequests || full.problem.Code() != job.CodeQuotaExceeded {
		t.Errorf("full: got %d %s, %v, want 429", full.status, full.body, err)
	}
	g.worker.Restart()
	if r := g.wait(e.job()); r.Status != job.Succeeded || r.Stdout != "at last\n" {
		t.Errorf("got %s %q, want what the wait was for", r.Status, r.Stdout)
	}
	again, err := g.try(t.Context(), "sh", "echo at last", "over")
	if err != nil || again.status != http.StatusOK || again.job() != e.job() || again.Stdout != "at last\n" {
		t.Errorf("asked again: got %d %s, %v, want the same job's", again.status, again.body, err)
	}
}
