package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// waitingClient is what a caller has who wants a result at once: an HTTP client that
// keeps its connections, and one request a job.
type waitingClient struct {
	http       *http.Client
	url, token string
}

func newWaitingClient(tb testing.TB, url, token string) *waitingClient {
	tb.Helper()
	c := &waitingClient{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}, url: url, token: token}
	tb.Cleanup(c.http.CloseIdleConnections)
	return c
}

// run submits a job and waits for its result.
func (c *waitingClient) run(ctx context.Context, spec job.Spec) (job.Result, error) {
	return c.await(ctx, "/v1/jobs", spec)
}

// await has something run, and waits for its result.
func (c *waitingClient) await(ctx context.Context, path string, what any) (r job.Result, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return r, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", "wait=60")
	res, err := c.http.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return r, err
	}
	if res.StatusCode != http.StatusOK {
		return r, fmt.Errorf("no result within a minute: %s: %s", res.Status, answer)
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return r, fmt.Errorf("read result: %w: %s", err, answer)
	}
	if r.Status != job.Succeeded {
		return r, fmt.Errorf("the job did not succeed: %s", answer)
	}
	return r, nil
}

// figure is the sum of what the worker's metrics have under a name whose labels contain
// all of these.
func (i *installation) figure(name string, labels ...string) float64 {
	i.tb.Helper()
	req, err := http.NewRequestWithContext(i.tb.Context(), http.MethodGet, "http://"+i.metrics+"/metrics", http.NoBody)
	if err != nil {
		i.tb.Fatal(err)
	}
	res, err := i.http.http.Do(req)
	if err != nil {
		i.tb.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		i.tb.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		rest, of := strings.CutPrefix(series, name)
		if !ok || !of || rest != "" && rest[0] != '{' || !containsAll(rest, labels) {
			continue
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			i.tb.Fatalf("%s: %v", line, err)
		}
		sum += f
	}
	return sum
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// waiting is how many sandboxes of a runtime wait started.
func (i *installation) waiting(runtime string) int {
	return int(i.figure("glovebox_worker_warm_sandboxes", `runtime="`+runtime+`"`))
}

// preloaded is how many of these have the interpreter waiting, too.
func (i *installation) preloaded(runtime string) int {
	return int(i.figure("glovebox_worker_preloaded_sandboxes", `runtime="`+runtime+`"`))
}

// startups counts, by runtime, the jobs that got a sandbox.
const startups = "glovebox_sandbox_startup_seconds_count"

// starts is how many jobs of a runtime got a sandbox, and how many of these one that was made for them.
func (i *installation) starts(runtime string) (all, cold float64) {
	runtime = `runtime="` + runtime + `"`
	return i.figure(startups, runtime), i.figure(startups, runtime, `start="cold"`) + i.figure(startups, runtime, `start="restored"`)
}

// preloadedStarts is how many of them got one in which the interpreter waited.
func (i *installation) preloadedStarts(runtime string) float64 {
	return i.figure(startups, `runtime="`+runtime+`"`, `start="preloaded"`)
}
