package direct_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// beforeFires is when schedules of these tests are set, and fireAt when they first fire; then each minute.
var (
	beforeFires = time.Date(2027, 1, 1, 0, 0, 30, 0, time.UTC)
	fireAt      = beforeFires.Add(30 * time.Second)
)

// minutely stores a schedule of that template for each minute.
func minutely(t *testing.T, w *producertest.Env, template, overlap string) {
	t.Helper()
	s := job.ScheduleSettings{Template: template, Cron: "* * * * *", Overlap: overlap}
	if _, err := w.Client.SetScheduleAt(t.Context(), "s", s, beforeFires); err != nil {
		t.Fatal(err)
	}
}

// pipelineTemplate stores the template work that is a pipeline of one step, with this schema of its parameters.
func pipelineTemplate(t *testing.T, w *producertest.Env, params string) {
	t.Helper()
	r := producer.TemplateRequest{Pipeline: &job.Pipeline{Steps: map[string]job.Step{"a": {TemplateSpec: job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: "1"}}}}}}
	if params != "" {
		r.Params = []byte(params)
	}
	if _, err := w.Client.SetTemplate(t.Context(), "work", r); err != nil {
		t.Fatal(err)
	}
}

// TestFireHung: a bucket that hangs is told in the schedule, and puts the fire off, though it takes all of the time that
// a fire has.
func TestFireHung(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	ctx := t.Context()
	proxy := w.S3.Proxy(t)
	client := w.ClientAt(t, proxy.Endpoint)
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1\n#" + strings.Repeat("x", 100<<10)} // too large for a record
	if _, err := w.Client.SetTemplate(ctx, "large", r); err != nil {
		t.Fatal(err)
	}
	minutely(t, w, "large", "")

	release := proxy.Hold()
	defer release()
	puts := func() (n int) {
		for request, times := range proxy.Counts() {
			if strings.HasPrefix(request, "PUT ") {
				n += times
			}
		}
		return n
	}
	now := fireAt
	for try := range 2 {
		before := puts()
		fireCtx, cancel := context.WithCancel(ctx)
		fired := make(chan error, 1)
		go func() { fired <- client.Fire(fireCtx, "s", now) }()
		gbtest.Eventually(t, "the fire waits for the bucket", func() bool { return puts() > before })
		cancel() // its time is over
		err := <-fired
		sc, readErr := w.Client.Schedule(ctx, "s")
		if err == nil || readErr != nil {
			t.Fatalf("got %v, %v, want the bucket to hang", err, readErr)
		}
		if sc.LastError == "" || sc.RetryAt == nil || !sc.RetryAt.Equal(now.Add(record.FireRetry<<try)) {
			t.Fatalf("try %d: got last error %q, again at %v", try, sc.LastError, sc.RetryAt)
		}
		now = *sc.RetryAt
	}
	release()
	if err := client.Fire(ctx, "s", now); err != nil {
		t.Fatal(err)
	}
	if f, err := w.Client.ScheduleFires(ctx, "s"); err != nil || len(f) != 1 || f[0].Outcome != job.FireStarted || f[0].Late {
		t.Errorf("got %+v, %v: want the fire to start, and to be no late one", f, err)
	}
}

// TestFireStartedBefore: what a fire has started before its process died is its own whatever has become of the template:
// nothing is started beside it, now or by the next fire.
func TestFireStartedBefore(t *testing.T) {
	t.Parallel()
	const wantsX = `{"type":"object","required":["x"],"properties":{"x":{"type":"string"}}}`
	toJob := func(t *testing.T, w *producertest.Env) { t.Helper(); template(t, w.Client) }
	toPipeline := func(t *testing.T, w *producertest.Env) { t.Helper(); pipelineTemplate(t, w, "") }
	toStricter := func(t *testing.T, w *producertest.Env) { t.Helper(); pipelineTemplate(t, w, wantsX) }
	for name, c := range map[string]struct {
		run     bool // what the fire starts is one
		changed func(t *testing.T, w *producertest.Env)
	}{
		"run, a parameter is required": {true, toStricter},
		"run, now a job":               {true, toJob},
		"job, now a pipeline":          {false, toPipeline},
		"run, the template is gone":    {true, deleteTemplate},
		"job, the template is gone":    {false, deleteTemplate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := producertest.New(t, "")
			w.Runtimes(t)
			ctx := t.Context()
			if c.run {
				pipelineTemplate(t, w, "")
			} else {
				template(t, w.Client)
			}
			minutely(t, w, "work", "")
			if !startAndDie(t, w) {
				t.Fatal("no command is the last before the fire is noted")
			}
			c.changed(t, w)
			if err := w.Client.Fire(ctx, "s", fireAt.Add(20*time.Second)); err != nil {
				t.Fatal(err)
			}
			if err := w.Client.Fire(ctx, "s", fireAt.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			fires, err := w.Client.ScheduleFires(ctx, "s")
			if err != nil || len(fires) != 2 || fires[0].Outcome != job.FireSkipped || fires[1].Outcome != job.FireStarted || (fires[1].Run != "") != c.run {
				t.Errorf("got %+v, %v: want one that was started, and one that was skipped", fires, err)
			}
			if jobs, runs := started(t, w); jobs+runs != 1 {
				t.Errorf("got %d jobs and %d runs, want one", jobs, runs)
			}
		})
	}
}

func deleteTemplate(t *testing.T, w *producertest.Env) {
	t.Helper()
	if err := w.Client.DeleteTemplate(t.Context(), "work"); err != nil {
		t.Fatal(err)
	}
}

// started counts the tenant's jobs that are of no run, and its runs.
func started(t *testing.T, w *producertest.Env) (jobs, runs int) {
	t.Helper()
	keys, err := w.Raw.Keys(t.Context(), "gb:{default}:job:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.Client.ListRuns(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return len(keys), len(list.Runs)
}

// startAndDie has a process start a fire of the schedule s and die before that is noted. It reports whether there is such
// a moment.
func startAndDie(t *testing.T, w *producertest.Env) bool {
	t.Helper()
	f := newFirer(t, w)
	for n := 1; n < 40; n++ {
		f.arm(n, true)
		_ = f.Fire(t.Context(), "s", fireAt) // it dies
		sc, err := w.Records.Schedule(t.Context(), "default", "s")
		if err != nil {
			t.Fatal(err)
		}
		if jobs, runs := started(t, w); jobs+runs > 0 {
			return sc.Firing != nil
		}
	}
	return false
}

// TestFireLastRun: of the last run no more is read than how it stands, whatever a worker has put into it.
func TestFireLastRun(t *testing.T) { // not parallel: what the process allocates is measured
	w := producertest.New(t, "")
	w.Runtimes(t)
	ctx := t.Context()
	pipelineTemplate(t, w, "")
	minutely(t, w, "work", job.OverlapQueue)
	if err := w.Client.Fire(ctx, "s", fireAt); err != nil {
		t.Fatal(err)
	}
	sc, err := w.Client.Schedule(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	items := "gb:{default}:runitems:" + sc.LastRun
	if n, err := w.Raw.Exists(ctx, items).Result(); err != nil || n != 1 {
		t.Fatalf("%s: got %d, %v", items, n, err)
	}
	for i := range 10 {
		var fields []any
		for j := range 10_000 {
			fields = append(fields, "a:"+strconv.Itoa(i*10_000+j), "1 queued")
		}
		if err := w.Worker.Redis().HSet(ctx, items, fields...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	if err := w.Client.Fire(ctx, "s", fireAt.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if took := allocated() - before; took > 4<<20 {
		t.Errorf("it took %d bytes", took)
	}
	if f, err := w.Client.ScheduleFires(ctx, "s"); err != nil || len(f) != 2 || f[0].Outcome != job.FireQueued {
		t.Errorf("got %+v, %v: want the fire to wait", f, err)
	}
}

// TestDecideFire: what was decided in time is not missed, however late it is started, and deciding starts nothing.
func TestDecideFire(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	ctx := t.Context()
	template(t, w.Client)
	minutely(t, w, "work", job.OverlapAllow)
	for range 2 { // another process may do so again
		if start, err := w.Client.DecideFire(ctx, "s", fireAt); err != nil || !start {
			t.Fatalf("got %t, %v", start, err)
		}
	}
	if jobs, _ := started(t, w); jobs != 0 {
		t.Fatalf("deciding started %d jobs", jobs)
	}
	if err := w.Client.Fire(ctx, "s", fireAt.Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	fires, err := w.Client.ScheduleFires(ctx, "s")
	if err != nil || len(fires) == 0 {
		t.Fatal(fires, err)
	}
	if f := fires[len(fires)-1]; f.Outcome != job.FireStarted || f.Late || !f.Time.Equal(fireAt) {
		t.Errorf("got %+v, want the first fire to be started", f)
	}
	if start, err := w.Client.DecideFire(ctx, "s", fireAt.Add(10*time.Minute)); err != nil || start {
		t.Errorf("got %t, %v, want nothing to be due", start, err)
	}
}

// TestScheduleSetAgain: the same settings again leave a fire that is being retried as it is, and bring back a schedule that
// was given up.
func TestScheduleSetAgain(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	ctx := t.Context()
	template(t, w.Client)
	minutely(t, w, "work", "")
	same := func() job.Schedule {
		t.Helper()
		sc, err := w.Client.SetScheduleAt(ctx, "s", job.ScheduleSettings{Template: "work", Cron: "* * * * *"}, fireAt.Add(5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		return sc
	}
	put := func(next time.Time, fault record.FireFault) {
		t.Helper()
		sc, err := w.Records.Schedule(ctx, "default", "s")
		if err != nil {
			t.Fatal(err)
		}
		sc.Next, sc.Fault = next, &fault
		if err := w.Records.SetSchedule(ctx, "default", sc, fault.RetryAt); err != nil {
			t.Fatal(err)
		}
	}

	put(fireAt, record.FireFault{Error: "met", Since: fireAt, Met: 3, Tries: 3, RetryAt: fireAt.Add(8 * time.Minute)})
	if sc := same(); sc.LastError != "met" || sc.RetryAt == nil {
		t.Errorf("got last error %q, again at %v: want the fire to be tried still", sc.LastError, sc.RetryAt)
	}
	if at, _ := nextDue(t, w); at.After(fireAt.Add(5 * time.Minute)) {
		t.Errorf("it is looked at again at %s, want at once", at)
	}
	if err := w.Client.Fire(ctx, "s", fireAt.Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if f, err := w.Client.ScheduleFires(ctx, "s"); err != nil || len(f) == 0 || f[len(f)-1].Outcome != job.FireStarted || !f[len(f)-1].Time.Equal(fireAt) {
		t.Errorf("got %+v, %v: want the fire that was retried to start", f, err)
	}

	put(time.Time{}, record.FireFault{Error: "its times can't be read", Met: 8, Tries: 8})
	if sc := same(); sc.NextAt == nil || sc.LastError != "" {
		t.Errorf("got next %v, last error %q: want it to fire again", sc.NextAt, sc.LastError)
	}
}

// TestScheduleYears: times that JSON has no room for are refused by name.
func TestScheduleYears(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	template(t, w.Client)
	for _, at := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*3600)),
	} {
		_, err := w.Client.SetSchedule(t.Context(), "s", job.ScheduleSettings{Template: "work", Cron: "@yearly", StartsAt: at})
		if job.CodeOf(err) != job.CodeInvalid || !strings.Contains(err.Error(), "starts_at") {
			t.Errorf("%s: got %v", at, err)
		}
	}
	far := job.ScheduleSettings{Template: "work", Cron: "@yearly", StartsAt: time.Date(8999, 12, 31, 23, 59, 59, 0, time.UTC)}
	if sc, err := w.Client.SetSchedule(t.Context(), "s", far); err != nil || sc.NextAt == nil || sc.NextAt.Year() != 9000 {
		t.Errorf("got %+v, %v", sc.NextAt, err)
	}
}
