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
	{`"language_id":"python3","sourcecode":"while True: pass","parameters":{"cputime":1}`, 13, ""},
}

// overtaking is how much later a run may come than one that it starts before, on the busiest machine.
const overtaking = time.Second

// enough lets a program end beside whatever else the machine does: Jobe gives it 5 s of CPU time and twice that in all.
const enough = `,"parameters":{"cputime":20}`

// TestJobeClassroom: 60 clients send 200 runs (in short, one each) within two seconds, far more than the machine has places for, to an api that lets
// them wait. Each gets its answer, the right one, and none gets an error or is told of an overload; they start in the order in which they came.
func TestJobeClassroom(t *testing.T) {
	t.Parallel()
	runs := 200
	if testing.Short() {
		runs = pupils / 2
	}
	if overloaded := classroom(t, runs, waitsLong); overloaded > 0 {
		t.Errorf("pupils were told of an overload %d times, want never", overloaded)
	}
}

// TestJobeClassroomImpatient is the same as Jobe has it: those that find no place within ten seconds are told so, and send the run again.
func TestJobeClassroomImpatient(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs this: in short, TestJobeOverload meets an overload, and TestJobeClassroom is a class")
	}
	t.Parallel()
	classroom(t, 200)
}

// pupils are the clients of a class.
const pupils = 60

// classroom has a class send so many runs within two seconds to an api with this environment, and returns how often it was told of an overload.
func classroom(t *testing.T, runs int, apiEnv ...string) (overloaded int) {
	t.Helper()
	const within = 2 * time.Second
	g := start(t, options{apiEnv: append(apiEnv, "GLOVEBOX_FACADES=jobe")})
	class := make([]pupil, pupils)
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
			if !strings.Contains(s.spec, "parameters") {
				s.spec += enough
			}
			a, err := class[i%pupils].run(t.Context(), s.spec)
			if err != nil || a.Outcome != s.outcome || a.Stdout != s.stdout {
				id := "none"
				if a.RunID != nil {
					id = *a.RunID
				}
				t.Errorf("run %d (%s): %s: got %+v, %v, want %d %q", i, id, s.spec, a, err, s.outcome, s.stdout)
			}
			got[i] = a
		})
	}
	all.Wait()

	var took times
	for _, a := range got {
		took = append(took, a.took)
		overloaded += a.overloaded
	}
	ended, canceled := g.count(t)
	inOrder(t, slices.Concat(ended, canceled))
	g.logLongest(t, ended)
	// A run may end while it is told of an overload and is to be canceled.
	if len(ended) < runs || len(ended)+len(canceled) != runs+overloaded {
		t.Errorf("%d jobs have ended and %d were canceled, want one for each of %d runs and %d that were told of an overload", len(ended), len(canceled), runs, overloaded)
	}
	t.Logf("%d runs of %d clients in %s: all answered after %.1f s; from the first try p5 %.1f s, p50 %.1f s, p95 %.1f s, p99 %.1f s; told of an overload %d times",
		runs, pupils, within, time.Since(bell).Seconds(), took.percentile(5).Seconds(), took.percentile(50).Seconds(), took.percentile(95).Seconds(), took.percentile(99).Seconds(), overloaded)
	return overloaded
}

// inOrder expects the jobs to have left the queue in the order in which they came. One whose worker could not run it at first came in again.
func inOrder(t *testing.T, jobs []job.Summary) {
	t.Helper()
	again := func(j job.Summary) bool { return j.Attempt > 1 }
	for _, j := range jobs {
		if again(j) {
			t.Logf("job %s was tried %d times", j.ID, j.Attempt)
		}
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), again)
	left := func(j job.Summary) time.Time { // the queue: it started, or was canceled
		if j.Timing.StartedAt != nil {
			return *j.Timing.StartedAt
		}
		return *j.Timing.FinishedAt
	}
	slices.SortFunc(jobs, func(a, b job.Summary) int { return a.Timing.CreatedAt.Compare(b.Timing.CreatedAt) })
	latest := 0 // of those that came early enough, the one that left last
	for i, early := 0, 0; i < len(jobs); i++ {
		for ; jobs[i].Timing.CreatedAt.Sub(jobs[early].Timing.CreatedAt) > overtaking; early++ {
			if left(jobs[early]).After(left(jobs[latest])) {
				latest = early
			}
		}
		if early > 0 && left(jobs[i]).Before(left(jobs[latest])) && jobs[i].Timing.StartedAt != nil {
			t.Errorf("job %s started before %s, which had come more than %s earlier, left: %+v, %+v", jobs[i].ID, jobs[latest].ID, overtaking, jobs[i].Timing, jobs[latest].Timing)
		}
	}
}

// logLongest logs, by runtime, what the programs used that took longest, of those that ended and of those that met a limit.
func (g *glovebox) logLongest(t *testing.T, jobs []job.Summary) {
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

// count is the jobs that ran to their end, and those that were canceled. Any other job fails the test.
func (g *glovebox) count(t *testing.T) (ended, canceled []job.Summary) {
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
				canceled = append(canceled, j)
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
