package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// allEnded reports whether every accepted job has a result that somebody saw.
func (c *chaos) allEnded(accepted int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.accepted {
		if c.first[id] == "" {
			return false
		}
	}
	return len(c.accepted) == accepted
}

// stored reads every record there is.
func (c *chaos) stored() map[string]record.Record {
	ctx, cancel := context.WithTimeout(c.tb.Context(), 30*time.Second)
	defer cancel()
	const prefix = "gb:{default}:job:"
	jobs := map[string]record.Record{}
	keys := c.records.Redis().Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		id := strings.TrimPrefix(keys.Val(), prefix)
		j, err := c.records.Get(ctx, id)
		if err != nil {
			c.problem("read record: %v", err)
			continue
		}
		jobs[id] = j
	}
	if err := keys.Err(); err != nil {
		c.problem("list records: %v", err)
	}
	return jobs
}

// result is the one that the record holds or points to.
func (c *chaos) result(j record.Record) (r job.Result, err error) {
	b := j.Result
	if b == nil {
		if b, err = os.ReadFile(filepath.Join(c.s3.Dir, bucket, j.ResultRef)); err != nil {
			return r, err
		}
	}
	return r, json.Unmarshal(b, &r)
}

// left lists what should not be there once everything has drained. What asynq and the
// second sweep of garbage take minutes for is waited for only where all is true.
func (c *chaos) left(all bool) []string {
	var left []string
	add := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	jobs := c.stored()
	want := map[string]bool{}
	for id, j := range jobs {
		if !j.State.Final() {
			add("job %s is %s", id, j.State)
			continue
		}
		if j.ResultRef == "" {
			continue
		}
		r, err := c.result(j)
		keys, keysErr := artifacts.JobKeys(j.Tenant, id)
		if err := errors.Join(err, keysErr); err != nil {
			add("result of job %s: %v", id, err)
			continue
		}
		want[j.ResultRef] = true
		for _, a := range r.Artifacts {
			want[keys.Artifact(int64(j.Epoch), a.Name)] = true
		}
		if r.StdoutURL != "" {
			want[keys.Stdout(int64(j.Epoch))] = true
		}
		if r.StderrURL != "" {
			want[keys.Stderr(int64(j.Epoch))] = true
		}
	}
	kept := int64(0)
	for key := range want {
		if info, err := os.Stat(filepath.Join(c.s3.Dir, bucket, key)); err == nil { // else it is missing, below
			kept += info.Size()
		}
	}
	if counted, err := c.records.Redis().Get(c.tb.Context(), "gb:{default}:stored").Int64(); err != nil || counted != kept {
		add("bytes stored are %d, counted %d, %v", kept, counted, err)
	}
	objects := c.objects()
	for _, key := range objects {
		if !want[key] {
			add("an object that no record points to: %s", key)
		}
		delete(want, key)
	}
	for key := range want {
		add("an object is missing: %s", key)
	}
	for _, name := range c.containers() {
		add("container %s", name)
	}
	return slices.Concat(left, c.leftInRedis(all), c.leftProcesses())
}

func (c *chaos) leftInRedis(all bool) (left []string) {
	ctx, cancel := context.WithTimeout(c.tb.Context(), 30*time.Second)
	defer cancel()
	add := func(format string, args ...any) { left = append(left, fmt.Sprintf(format, args...)) }
	rdb := c.records.Redis()
	for _, set := range []string{"open", "backlog:high", "backlog:normal", "backlog:low", "outbox"} {
		members, err := rdb.ZRange(ctx, "gb:{default}:"+set, 0, -1).Result()
		if err != nil || len(members) > 0 {
			add("in %s: %v, %v", set, members, err)
		}
	}
	running, err := rdb.HGetAll(ctx, "gb:{default}:running").Result()
	if err != nil || len(running) > 0 {
		add("in running: %v, %v", running, err)
	}
	garbage, err := rdb.ZRangeWithScores(ctx, "gb:{default}:garbage", 0, -1).Result()
	if err != nil {
		add("garbage: %v", err)
	}
	for _, z := range garbage { // what is there for the day when the record has expired is right
		id := z.Member.(string)
		due := time.UnixMilli(int64(z.Score))
		if due.Before(time.Now().Add(-10 * time.Second)) {
			add("in garbage: %s, due %s", id, time.Until(due))
		} else if all && time.Until(due) < 24*time.Hour {
			add("in garbage once more: %s, due %s", id, time.Until(due))
		}
	}
	return append(left, c.leftTasks(all)...)
}

func (c *chaos) leftTasks(all bool) (left []string) {
	inspector := asynq.NewInspectorFromRedisClient(c.records.Redis())
	for _, queue := range append(slices.Collect(maps.Keys(queue.Jobs())), queue.Delivery, queue.DeliveryBacklog) {
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
			inspector.ListActiveTasks, inspector.ListPendingTasks, inspector.ListScheduledTasks,
			inspector.ListRetryTasks, inspector.ListArchivedTasks, inspector.ListCompletedTasks,
		} {
			tasks, err := list(queue, asynq.PageSize(10_000))
			if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
				left = append(left, fmt.Sprintf("list tasks of %s: %v", queue, err))
			}
			for _, t := range tasks {
				// asynq takes two minutes to find a task whose holder died; by then it is stale.
				if all || !t.IsOrphaned {
					left = append(left, fmt.Sprintf("task %s is %s in %s", t.ID, t.State, queue))
				}
			}
		}
	}
	return left
}

var containerID = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// leftProcesses lists processes (conmon, runsc, …) younger than this test of containers
// that Podman does not know. One that only takes its time to end is not among them.
func (g *glovebox) leftProcesses() []string {
	left := g.strays()
	if len(left) == 0 {
		return nil
	}
	time.Sleep(3 * time.Second)
	still := g.strays()
	return slices.DeleteFunc(left, func(process string) bool { return !slices.Contains(still, process) })
}

func (g *glovebox) strays() (left []string) {
	before, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return []string{err.Error()}
	}
	known := map[string]bool{}
	for _, container := range g.inPodman("") {
		known[container.ID] = true
	}
	for _, path := range before {
		dir, err := os.Stat(filepath.Dir(path))
		b, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || dir.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) || dir.ModTime().Before(g.began) {
			continue // it has ended, or is none of ours
		}
		if id := containerID.FindString(string(b)); id != "" && !known[id] && !gbtest.InStore(string(b)) {
			left = append(left, fmt.Sprintf("process %s: %.200s", filepath.Base(filepath.Dir(path)), strings.ReplaceAll(string(b), "\x00", " ")))
		}
	}
	return left
}

// count holds what everybody was told against what is stored, and prints the sums.
func (c *chaos) count(left []string) {
	jobs := c.stored()
	unanswered, lost, deliveries, statuses := 0, 0, 0, map[job.Status]int{}
	gaveUp := map[string]int{} // by what the three tries met
	failed := c.failed()
	for id := range c.accepted {
		if !jobs[id].State.Final() || c.first[id] == "" {
			lost++
			c.problem("job %s is lost: it is %q", id, jobs[id].State)
		}
	}
	for id, j := range jobs {
		if _, told := c.accepted[id]; !told {
			unanswered++
		}
		r, err := c.result(j)
		if err != nil {
			c.problem("result of job %s: %v", id, err)
			continue
		}
		statuses[j.State]++
		if j.State == job.InternalError && c.lost[id]+failed[id] >= 3 {
			gaveUp[fmt.Sprintf("%d lost workers and %d outages", c.lost[id], failed[id])]++
		} else {
			c.judge(j, r)
		}
		if j.Callback == "" {
			continue
		}
		deliveries++
		did := record.DeliveryID(id, job.EventCompleted, j.Callback)
		d, err := c.records.GetDelivery(c.tb.Context(), j.Tenant, did)
		if err != nil || d.State != record.Delivered || c.ids[id] != did {
			c.problem("delivery %s of job %s is %s (%v), the receiver knows %q", did, id, d.State, err, c.ids[id])
		}
	}
	c.compareCost(jobs)
	for _, s := range slices.Concat(c.apis, c.workers) {
		for _, word := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if s.Printed(word) {
				c.problem("%s printed %q", s.name, word)
			}
		}
	}
	c.tb.Logf("%d jobs, %d of them without an answer to their producer: %v", len(jobs), unanswered, statuses)
	c.tb.Logf("jobs lost %d, results changed %d, message ids doubled %d, callbacks %d in %d messages, left over %d, internal errors after %v",
		lost, c.changed, c.doubled, deliveries, len(c.hook.messages(c.tb, 0, 0)), len(left), gaveUp)
	for _, l := range left {
		c.tb.Errorf("left: %s", l)
	}
	for _, p := range c.problems {
		c.tb.Error(p)
	}
}

// compareCost holds what the tenant's usage has against the sum over all results: each job that has a cost is counted once, to the
// billionth, whoever died as it ended.
func (c *chaos) compareCost(jobs map[string]record.Record) {
	count, nano := int64(0), int64(0)
	for id, j := range jobs {
		r, err := c.result(j)
		if err != nil {
			c.problem("result of job %s: %v", id, err)
			continue
		}
		if r.Cost != nil {
			count, nano = count+1, nano+r.Cost.Nano
		}
	}
	today := time.Now().UTC().Truncate(24 * time.Hour)
	u, err := c.records.Usage(c.tb.Context(), "default", today.AddDate(0, 0, -1), today)
	if err != nil || u.Total.Cost.Nano != nano || u.Total.Jobs != count || nano == 0 {
		c.problem("usage is %+v, %v; the results have %d jobs with a cost of %d", u.Total, err, count, nano)
	}
	c.tb.Logf("%d results have a cost, of %s together, and so has the usage", count, job.NewCost(nano).Amount)
}

var failedLine = regexp.MustCompile(`msg="job failed on an internal error" job_id=(\S+)`)

// failed counts how often each job failed because S3, Redis or Podman were away.
func (c *chaos) failed() map[string]int {
	failed := map[string]int{}
	for _, w := range c.workers {
		for _, line := range failedLine.FindAllStringSubmatch(w.Output(), -1) {
			failed[line[1]]++
		}
	}
	return failed
}

// judge says whether the job came to what it deserves.
func (c *chaos) judge(j record.Record, r job.Result) {
	n, err := strconv.Atoi(j.Metadata["n"])
	if err != nil {
		c.problem("job %s: metadata %v", j.ID, j.Metadata)
		return
	}
	s := samples[n%len(samples)]
	want := s.status
	if c.accepted[j.ID] {
		want = job.Canceled
	}
	if j.State != want || r.Status != want {
		c.problem("job %s (%s) is %s, want %s; its worker was killed %d times; attempt %d, error %v, stderr %.300q", j.ID, s.name, r.Status, want, c.lost[j.ID], r.Attempt, r.Error, r.Stderr)
	} else if want == s.status {
		if wrong := s.wrong(n, r); wrong != "" {
			c.problem("job %s (%s): %s", j.ID, s.name, wrong)
		}
	}
}
