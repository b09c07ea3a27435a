package direct_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// template stores one of that name.
func template(t *testing.T, c *direct.Client, name string) {
	t.Helper()
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	if _, err := c.SetTemplate(t.Context(), name, r); err != nil {
		t.Fatal(err)
	}
}

// TestOverlap has what a schedule does while its last job runs.
func TestOverlap(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	template(t, w.Client, "work")
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
	w := producertest.New(t, "")
	w.Runtimes(t)
	template(t, w.Client, "work")
	ctx := t.Context()
	start := time.Date(2027, 1, 1, 0, 0, 30, 0, time.UTC)
	if _, err := w.Client.SetScheduleAt(ctx, "s", job.ScheduleSettings{Template: "work", Cron: "* * * * *", Overlap: job.OverlapAllow}, start); err != nil {
		t.Fatal(err)
	}
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
	template(t, w.Client, "work")
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
	fire(151 * time.Second)
	if _, err := w.Records.Get(ctx, f[0].Job); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want the job to stay purged", err)
	}
}
