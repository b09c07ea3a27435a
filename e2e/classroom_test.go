package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// pupil is a client with connections of its own.
type pupil struct {
	http       *http.Client
	url, token string
}

// answered is what a run came to, how long after it was first sent, and how often it was told that all places are taken.
type answered struct {
	jobeAnswer

	took       time.Duration
	overloaded int
}

// run sends a run until there is a place for it.
func (p pupil) run(ctx context.Context, spec string) (a answered, err error) {
	for began := time.Now(); ; a.overloaded++ {
		a.jobeAnswer, err = p.send(ctx, spec)
		if a.took = time.Since(began); err != nil || a.Outcome != 21 {
			return a, err
		}
	}
}

func (p pupil) send(ctx context.Context, spec string) (a jobeAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+jobePath+"/runs", strings.NewReader(`{"run_spec":{`+spec+`}}`))
	if err != nil {
		return a, err
	}
	req.Header.Set("X-API-KEY", p.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.http.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("got %d %.300s, want 200", res.StatusCode, body)
	}
	return a, errors.Join(err, json.Unmarshal(body, &a))
}

// handedIn is what the class hands in, in turn: a third of it wrong, and now and then what never ends.
var handedIn = []struct {
	spec    string
	outcome int
	stdout  string
}{
	{`"language_id":"python3","sourcecode":"print(int(input()) * 2)","input":"21\n"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print(sum(int(input()) for _ in range(2)))","input":"21\n21\n"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print(int(input()) * 3)","input":"21\n"`, 15, "63\n"}, // wrong, as only its teacher knows
	{`"language_id":"python3","sourcecode":"print(42)"`, 15, "42\n"},
	{`"language_id":"nodejs","sourcecode":"console.log(42)"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print(undefined)"`, 12, ""},
	{`"language_id":"c","sourcecode":"#include <stdio.h>\nint main(void) { int n; scanf(\"%d\", &n); printf(\"%d\\n\", n * 2); }","input":"21\n"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print(*(n for n in (42,)))"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print("`, 11, ""},
	{`"language_id":"python3","sourcecode":"import sys; print(sys.stdin.read(), end='')","input":"42\n"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"for n in range(42, 43): print(n)"`, 15, "42\n"},
	{`"language_id":"c","sourcecode":"int main(void) { return undefined; }"`, 11, ""},
	{`"language_id":"python3","sourcecode":"print(6 * 7)"`, 15, "42\n"},
	{`"language_id":"nodejs","sourcecode":"console.log(6 * 7)"`, 15, "42\n"},
	{`"language_id":"python3","sourcecode":"print(42, flush=True)\nwhile True: pass","parameters":{"cputime":3}`, 13, "42\n"},
}

// overtaking is how much later a run may come than one that it starts before, on the busiest machine. What has not begun after 10 s is canceled.
const overtaking = 8 * time.Second

// TestJobeClassroom: 60 clients send 200 runs (half of them in short) within two seconds, far more than the machine has places for. Each gets its
// answer, the right one, and none gets an error; they start in the order in which they came. Those that find no place
// within ten seconds are told so, as by Jobe, and send the run again.
func TestJobeClassroom(t *testing.T) {
	t.Parallel()
	const clients, within = 60, 2 * time.Second
	runs := 200
	if testing.Short() {
		runs = 100
	}
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=jobe"}})
	class := make([]pupil, clients)
	for i := range class {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		class[i] = pupil{&http.Client{Transport: transport}, g.url, g.token}
	}
	got := make([]answered, runs)
	var all sync.WaitGroup
	bell := time.Now()
	for i := range runs {
		all.Go(func() {
			<-time.After(time.Until(bell.Add(within * time.Duration(i) / time.Duration(runs))))
			s := handedIn[i%len(handedIn)]
			a, err := class[i%clients].run(t.Context(), s.spec)
			if err != nil || a.Outcome != s.outcome || a.Stdout != s.stdout {
				t.Errorf("run %d: %s: got %+v, %v, want %d %q", i, s.spec, a, err, s.outcome, s.stdout)
			}
			got[i] = a
		})
	}
	all.Wait()

	var took times
	overloaded := 0
	for _, a := range got {
		took = append(took, a.took)
		overloaded += a.overloaded
	}
	jobs, canceled := g.count(t)
	inOrder(t, jobs)
	g.logLongest(t, jobs)
	ended := len(jobs)
	// A run may end while it is told of an overload and is to be canceled.
	if ended < runs || ended+canceled != runs+overloaded {
		t.Errorf("%d jobs have ended and %d were canceled, want one for each of %d runs and %d that were told of an overload", ended, canceled, runs, overloaded)
	}
	t.Logf("%d runs of %d clients in %s: all answered after %.1f s; from the first try p5 %.1f s, p50 %.1f s, p95 %.1f s, p99 %.1f s; told of an overload %d times",
		runs, clients, within, time.Since(bell).Seconds(), took.percentile(5).Seconds(), took.percentile(50).Seconds(), took.percentile(95).Seconds(), took.percentile(99).Seconds(), overloaded)
}

// inOrder expects the jobs to have started in the order in which they came. One whose worker could not run it at first came in again.
func inOrder(t *testing.T, jobs []job.Record) {
	t.Helper()
	again := func(j job.Record) bool { return j.Attempt > 1 }
	for _, j := range jobs {
		if again(j) {
			t.Logf("job %s was tried %d times", j.ID, j.Attempt)
		}
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), again)
	slices.SortFunc(jobs, func(a, b job.Record) int { return a.Timing.CreatedAt.Compare(b.Timing.CreatedAt) })
	latest := 0 // of those that came early enough, the one that started last
	for i, early := 0, 0; i < len(jobs); i++ {
		for ; jobs[i].Timing.CreatedAt.Sub(jobs[early].Timing.CreatedAt) > overtaking; early++ {
			if jobs[early].Timing.StartedAt.After(*jobs[latest].Timing.StartedAt) {
				latest = early
			}
		}
		if early > 0 && jobs[i].Timing.StartedAt.Before(*jobs[latest].Timing.StartedAt) {
			t.Errorf("job %s started before %s, which had come more than %s earlier: %+v, %+v", jobs[i].ID, jobs[latest].ID, overtaking, jobs[i].Timing, jobs[latest].Timing)
		}
	}
}

// logLongest logs, by runtime, what the programs used that took longest, of those that ended and of those that met a limit.
func (g *glovebox) logLongest(t *testing.T, jobs []job.Record) {
	t.Helper()
	longest := map[string]job.Result{}
	for _, j := range jobs {
		whole, err := g.client.Get(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprint(j.Runtime, " ", j.Status)
		if was, seen := longest[kind]; !seen || whole.Result.Usage.WallMS > was.Usage.WallMS {
			longest[kind] = *whole.Result
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(longest)) {
		r := longest[kind]
		t.Logf("the longest of %s: job %s, %+v", kind, r.ID, r.Usage)
	}
}

// count is the jobs that ran to their end, and how many were canceled. Any other job fails the test.
func (g *glovebox) count(t *testing.T) (ended []job.Record, canceled int) {
	t.Helper()
	o := producer.ListOptions{Limit: 200}
	for {
		page, err := g.client.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			switch {
			case j.Status == job.Canceled:
				canceled++
			case j.Status.Final() && j.Status != job.InternalError:
				ended = append(ended, j)
			default:
				t.Errorf("job %s is %s", j.ID, j.Status)
			}
		}
		if o.Cursor = page.Next; o.Cursor == "" {
			return ended, canceled
		}
	}
}
