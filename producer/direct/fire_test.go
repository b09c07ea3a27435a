package direct_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// firer is an api process that fires schedules, and can be killed at any command to Redis.
type firer struct {
	*direct.Client
	*mortal
}

func newFirer(t *testing.T, w *producertest.Env) *firer {
	t.Helper()
	records, err := record.Open(t.Context(), record.Config{URL: w.Redis.API()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { records.Close() })
	client, err := direct.New(direct.Config{Links: w.Links, WebhookKeys: w.WebhookKeys}, records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	m := &mortal{}
	records.Redis().AddHook(m)
	return &firer{client, m}
}

// template stores the template work.
func template(t *testing.T, c *direct.Client) {
	t.Helper()
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	if _, err := c.SetTemplate(t.Context(), "work", r); err != nil {
		t.Fatal(err)
	}
}

// scheduled stores the template work, and the schedule s that starts it, and returns since when that holds.
func scheduled(t *testing.T, s job.ScheduleSettings) (w *producertest.Env, start time.Time) {
	t.Helper()
	w = producertest.New(t, "")
	w.Runtimes(t)
	template(t, w.Client)
	start = time.Date(2027, 1, 1, 0, 0, 30, 0, time.UTC)
	if _, err := w.Client.SetScheduleAt(t.Context(), "s", s, start); err != nil {
		t.Fatal(err)
	}
	return w, start
}

// nextDue is when a schedule is to be looked at next, and which are due then.
func nextDue(t *testing.T, w *producertest.Env) (at time.Time, names []string) {
	t.Helper()
	first, err := w.Raw.ZRangeWithScores(t.Context(), "gb:{default}:clock", 0, 0).Result()
	if err != nil || len(first) == 0 {
		t.Fatalf("nothing is scheduled: %v", err)
	}
	names, err = w.Raw.ZRangeArgs(t.Context(), redis.ZRangeArgs{Key: "gb:{default}:clock", ByScore: true, Start: "-inf", Stop: strconv.FormatFloat(first[0].Score, 'f', -1, 64)}).Result()
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(int64(first[0].Score)), names
}

// TestOverlap has what a schedule does while its last job runs.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	template(t, w.Client)
	ctx := t.Context()
	start := time.Date(2027, 1, 1, 0, 0, 30, 0, time.UTC)
	minute := func(n int) time.Time { return start.Add(time.Duration(n)*time.Minute - 30*time.Second) }
	outcomes := func(name string) string {
		fires, err := w.Client.ScheduleFires(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for i := len(fires) - 1; i >= 0; i-- {
			words = append(words, fires[i].Time.Format("4")+" "+fires[i].Outcome)
		}
		return strings.Join(words, ", ")
	}
	last := func(name string) string {
		sc, err := w.Client.Schedule(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return sc.LastJob
	}
	for _, c := range []struct{ overlap, want, ended string }{
		{"", "1 started, 2 skipped, 3 skipped", "4 started"},
		{job.OverlapAllow, "1 started, 2 started, 3 started", "4 started"},
		{job.OverlapQueue, "1 started, 2 queued, 3 skipped", "2 started, 4 queued"},
		{job.OverlapCancel, "1 started, 2 queued, 2 skipped, 3 queued", "3 started, 4 queued, 4 started"},
	} {
		name := "s" + c.overlap
		if _, err := w.Client.SetScheduleAt(ctx, name, job.ScheduleSettings{Template: "work", Cron: "* * * * *", Overlap: c.overlap}, start); err != nil {
			t.Fatal(err)
		}
		fire := func(at time.Time) {
			if err := w.Client.Fire(ctx, name, at); err != nil {
				t.Fatal(err)
			}
		}
		fire(minute(1))
		running := w.Start(t, last(name))
		fire(minute(2))
		fire(minute(3))
		if got := outcomes(name); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if asked := w.Raw.HExists(ctx, "gb:{default}:job:"+running.ID, "cancel").Val(); asked != (c.overlap == job.OverlapCancel) {
			t.Errorf("%s: canceled %t", name, asked)
		}
		w.End(t, running, nil, nil)
		fire(minute(4))
		if got := strings.TrimPrefix(outcomes(name), c.want+", "); got != c.ended {
			t.Errorf("%s, once it had ended: got %s, want %s", name, got, c.ended)
		}
	}
	// One that is queued still ends at once.
	if _, err := w.Client.SetScheduleAt(ctx, "c", job.ScheduleSettings{Template: "work", Cron: "* * * * *", Overlap: job.OverlapCancel}, start); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := w.Client.Fire(ctx, "c", minute(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := outcomes("c"); got != "1 started, 2 queued, 2 started" {
		t.Errorf("got %s, want the second to start as the first is canceled", got)
	}
}

// TestFireRefused: what can't be accepted is written down, and the next fire is another try.
func TestFireRefused(t *testing.T) {
	t.Parallel()
	w, start := scheduled(t, job.ScheduleSettings{Template: "work", Cron: "* * * * *", Overlap: job.OverlapAllow})
	ctx := t.Context()
	if err := w.Client.DeleteTemplate(ctx, "work"); err != nil {
		t.Fatal(err)
	}
	fire := func(at time.Duration) []job.Fire {
		t.Helper()
		if err := w.Client.Fire(ctx, "s", start.Add(at)); err != nil {
			t.Fatal(err)
		}
		fires, err := w.Client.ScheduleFires(ctx, "s")
		if err != nil {
			t.Fatal(err)
		}
		return fires
	}
	if f := fire(30 * time.Second); len(f) != 1 || f[0].Outcome != job.FireRefused || !strings.Contains(f[0].Reason, "template") {
		t.Errorf("got %+v, want the template to be missing", f)
	}
	template(t, w.Client)
	if f := fire(90 * time.Second); len(f) != 2 || f[0].Outcome != job.FireStarted {
		t.Errorf("got %+v, want the next to start", f)
	}
	// A job that has ended and is purged before its fire was noted is not run again.
	f := fire(150 * time.Second)
	w.End(t, w.Start(t, f[0].Job), nil, nil)
	if err := w.Client.Purge(ctx, f[0].Job); err != nil {
		t.Fatal(err)
	}
	sc, err := w.Records.Schedule(ctx, "default", "s")
	if err != nil {
		t.Fatal(err)
	}
	sc.Firing = &record.Firing{Time: f[0].Time}
	if err := w.Records.SetSchedule(ctx, "default", sc, start); err != nil {
		t.Fatal(err)
	}
	if f := fire(151 * time.Second); f[0].Outcome != job.FireStarted {
		t.Errorf("got %+v, want the fire of the purged job to be one that was started", f[0])
	}
	if _, err := w.Records.Get(ctx, f[0].Job); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want the job to stay purged", err)
	}
}

// TestFireWithoutWorkers: a fire while no runtime is known, as after days without a worker, starts once one is.
func TestFireWithoutWorkers(t *testing.T) {
	t.Parallel()
	w, start := scheduled(t, job.ScheduleSettings{Template: "work", Cron: "0 * * * *"})
	ctx := t.Context()
	if err := w.Raw.Del(ctx, "gb:runtimes").Err(); err != nil {
		t.Fatal(err)
	}
	due := start.Add(time.Hour)
	if err := newFirer(t, w).Fire(ctx, "s", due); job.CodeOf(err) != job.CodeNoRuntimes {
		t.Errorf("got %v, want no runtimes", err)
	}
	sc, err := w.Client.Schedule(ctx, "s")
	if err != nil || sc.RetryAt == nil || !strings.Contains(sc.LastError, "no worker") {
		t.Fatalf("got %+v, %v, want it to be tried again", sc, err)
	}
	w.Runtimes(t)
	if err := newFirer(t, w).Fire(ctx, "s", *sc.RetryAt); err != nil {
		t.Error(err)
	}
	if fires, err := w.Client.ScheduleFires(ctx, "s"); err != nil || len(fires) != 1 || fires[0].Outcome != job.FireStarted {
		t.Errorf("got %+v, %v, want one that started", fires, err)
	}
}

// TestFireFault: a fire that can't be decided is told in the schedule, tried less and less often, and given up
// with an entry; the next one starts.
func TestFireFault(t *testing.T) {
	t.Parallel()
	w, start := scheduled(t, job.ScheduleSettings{Template: "work", Cron: "0 * * * *"})
	ctx := t.Context()
	now := start.Add(time.Hour)
	fire := func() (job.Schedule, []job.Fire, error) {
		err := w.Client.Fire(ctx, "s", now)
		sc, readErr := w.Client.Schedule(ctx, "s")
		fires, listErr := w.Client.ScheduleFires(ctx, "s")
		if readErr != nil || listErr != nil {
			t.Fatal(readErr, listErr)
		}
		return sc, fires, err
	}
	sc, fires, err := fire()
	if err != nil || len(fires) != 1 || fires[0].Outcome != job.FireStarted {
		t.Fatalf("got %+v, %v", fires, err)
	}
	spoiled := "gb:{default}:job:" + sc.LastJob
	if err := errors.Join(w.Raw.Del(ctx, spoiled).Err(), w.Raw.Set(ctx, spoiled, "spoiled", 0).Err()); err != nil {
		t.Fatal(err)
	}

	now = now.Add(time.Hour)
	met := now
	for tries := 1; ; tries++ {
		if sc, fires, err = fire(); err == nil {
			t.Fatal("the operator does not hear of it")
		}
		if sc.RetryAt == nil {
			break
		}
		if tries == 20 {
			t.Fatal("it is tried for ever")
		}
		if len(fires) != 1 || !strings.Contains(sc.LastError, sc.LastJob) || !sc.RetryAt.After(now) {
			t.Fatalf("try %d: got %+v, last error %q, again at %v", tries, fires, sc.LastError, sc.RetryAt)
		}
		if at, _ := nextDue(t, w); !at.Equal(*sc.RetryAt) {
			t.Errorf("it is looked at again at %s, and says %s", at, sc.RetryAt)
		}
		now = *sc.RetryAt
	}
	if took := now.Sub(met); took < 5*time.Minute || took > 30*time.Minute {
		t.Errorf("it was given up after %s", took)
	}
	if f := fires[0]; len(fires) != 2 || f.Outcome != job.FireFailed || !f.Time.Equal(met.Truncate(time.Hour)) || !strings.Contains(f.Reason, "can't be read") {
		t.Errorf("got %+v, want the fire to be given up", fires)
	}
	if sc.LastError == "" || sc.RetryAt != nil || sc.NextAt == nil {
		t.Errorf("got %+v, want the error to stay until a fire is decided", sc)
	}
	now = met.Add(time.Hour)
	if sc, fires, err = fire(); err != nil || fires[0].Outcome != job.FireStarted || sc.LastError != "" {
		t.Errorf("got %+v, last error %q, %v: want the next fire to start", fires, sc.LastError, err)
	}

	// An expression that was taken once and is refused now.
	stored, err := w.Records.Schedule(ctx, "default", "s")
	if err != nil {
		t.Fatal(err)
	}
	stored.Cron = "0 * ? * *"
	if err := w.Records.SetSchedule(ctx, "default", stored, stored.Next); err != nil {
		t.Fatal(err)
	}
	now = met.Add(2 * time.Hour)
	for range 20 {
		if sc, fires, err = fire(); sc.RetryAt == nil {
			break
		}
		if !strings.Contains(sc.LastError, "cron(8)") {
			t.Errorf("got last error %q", sc.LastError)
		}
		now = *sc.RetryAt
	}
	if err == nil || fires[0].Outcome != job.FireFailed || sc.NextAt != nil || sc.LastError == "" {
		t.Errorf("got %+v, %+v, %v: want it to be given up", sc, fires[0], err)
	}
	if at := w.Raw.ZScore(ctx, "gb:{default}:clock", "s").Val(); !math.IsInf(at, 1) {
		t.Errorf("it is looked at again at %f", at)
	}
	if _, err := w.Client.PauseSchedule(ctx, "s"); err != nil {
		t.Errorf("it can't be paused: %v", err)
	}
	if _, err := w.Client.ResumeSchedule(ctx, "s"); job.CodeOf(err) != job.CodeInvalid {
		t.Errorf("got %v, want what is wrong with it", err)
	}
}
