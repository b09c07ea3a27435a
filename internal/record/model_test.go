package record

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// model is what a tenant's jobs should be, whatever was done to them.
type model struct {
	name   string
	quotas job.Quotas
	jobs   map[string]*modelJob
}

type modelJob struct {
	state  job.Status
	epoch  int
	bytes  int64
	cancel bool
}

// recorded is what the jobs' records count: with their spec, or with the result "{}".
func (m *model) recorded() (n int64) {
	for _, j := range m.jobs {
		n += int64(jobCost + textCost(len("null"))) // its metadata
		if j.state == job.Queued || j.state == job.Running {
			n += int64(textCost(int(j.bytes)))
		} else {
			n += int64(textCost(len("{}")))
		}
	}
	return n
}

// TestAnythingAtRandom does what can be done to jobs of several tenants, in any order,
// and holds Redis against a model after each step.
func TestAnythingAtRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const slots = 2
	s := storeOf(t, slots)
	tenants := []*model{
		{name: "one", jobs: map[string]*modelJob{}},
		{name: "two", quotas: job.Quotas{RunningAtOnce: 1, JobsQueued: 12}, jobs: map[string]*modelJob{}},
		{name: "three", quotas: job.Quotas{RunningAtOnce: 3, BytesQueued: 900}, jobs: map[string]*modelJob{}},
	}
	for _, m := range tenants {
		if _, err := s.CreateTenant(t.Context(), m.name, job.Terms{Quotas: m.quotas}); err != nil {
			t.Fatal(err)
		}
	}
	for step := range 600 {
		m := tenants[r.IntN(len(tenants))]
		what := m.step(t, s, r)
		m.check(t, s, slots)
		if t.Failed() {
			t.Fatalf("step %d of tenant %s: %s", step, m.name, what)
		}
	}
	for _, m := range tenants { // and in the end everything ends
		hourLater(t, s, m.name)
		for len(m.in(job.Queued))+len(m.in(job.Running)) > 0 {
			for _, id := range s.opened(t, m.name) {
				m.start(t, s, id)
			}
			ids := m.in(job.Running)
			if len(ids) == 0 {
				t.Fatalf("tenant %s: nothing runs, and %d are queued", m.name, len(m.in(job.Queued)))
			}
			for _, id := range ids {
				m.end(t, s, id)
			}
			m.check(t, s, slots)
			if t.Failed() {
				t.FailNow()
			}
		}
	}
}

func (m *model) step(t *testing.T, s *Store, r *rand.Rand) string {
	t.Helper()
	pick := func(ids []string) string {
		if len(ids) == 0 {
			return ""
		}
		return ids[r.IntN(len(ids))]
	}
	queued, running := pick(m.in(job.Queued)), pick(m.in(job.Running))
	released := pick(s.opened(t, m.name))
	switch n := r.IntN(20); {
	case n < 7:
		m.create(t, s, r)
		return "create"
	case n < 12 && released != "":
		m.start(t, s, released)
		return "start " + released
	case n < 16 && running != "":
		m.end(t, s, running)
		return "end " + running
	case n < 17 && queued != "":
		if got, err := s.Cancel(t.Context(), queued, []byte("{}")); err != nil || got != job.Canceled {
			t.Errorf("cancel: got %v, %v", got, err)
		}
		m.jobs[queued].state = job.Canceled
		return "cancel " + queued
	case n < 18 && running != "":
		if got, err := s.Cancel(t.Context(), running, []byte("{}")); err != nil || got != job.Running {
			t.Errorf("cancel: got %v, %v", got, err)
		}
		m.jobs[running].cancel = true
		return "cancel running " + running
	case n == 18:
		hourLater(t, s, m.name)
		return "an hour later"
	case n == 19 && running != "":
		want := RequeueOK
		if m.jobs[running].cancel {
			want = RequeueCanceled
		}
		if got, err := s.Requeue(t.Context(), running, m.jobs[running].epoch, "w", CostNothing, 0); err != nil || got != want {
			t.Errorf("requeue: got %v, %v, want %v", got, err, want)
		}
		if want == RequeueOK {
			m.jobs[running].state = job.Queued
			m.jobs[running].epoch++
		}
		return "requeue " + running
	}
	return "nothing"
}

// hourLater is when every job may run that was for later.
func hourLater(t *testing.T, s *Store, tenant string) {
	t.Helper()
	now := s.now().Add(time.Hour)
	s.now = func() time.Time { return now }
	s.fill(t, tenant)
}

// create creates up to five jobs, and knows which of them there is room for.
func (m *model) create(t *testing.T, s *Store, r *rand.Rand) {
	t.Helper()
	var jobs []NewJob
	for range 1 + r.IntN(5) {
		priority := []job.Priority{"", job.High, job.Normal, job.Low}[r.IntN(4)]
		spec := job.Spec{Runtime: "bash", Priority: priority}
		if r.IntN(5) == 0 {
			spec.RunAt = s.now().Add(time.Hour)
		}
		jobs = append(jobs, NewJob{ID: job.NewID(m.name), Spec: spec})
	}
	created, err := s.CreateMany(t.Context(), m.name, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range created {
		b, err := json.Marshal(jobs[i].Spec)
		if err != nil {
			t.Fatal(err)
		}
		full := m.quotas.JobsQueued > 0 && int64(len(m.in(job.Queued))) >= m.quotas.JobsQueued ||
			m.quotas.BytesQueued > 0 && m.bytes()+int64(len(b)) > m.quotas.BytesQueued
		if full != (c.Err != nil) {
			t.Errorf("create: got %v, and the quota is full: %v", c.Err, full)
		}
		if c.Err == nil {
			m.jobs[c.ID] = &modelJob{state: job.Queued, epoch: 1, bytes: int64(len(b))}
		}
	}
}

// check holds what Redis has of the tenant against the model.
func (m *model) check(t *testing.T, s *Store, slots int64) {
	t.Helper()
	s.fill(t, m.name) // what is created while the queue is long is the release pass's
	window := runsAhead * slots
	if m.quotas.RunningAtOnce > 0 {
		window = min(window, m.quotas.RunningAtOnce)
	}
	open := s.opened(t, m.name)
	running := s.rdb.HKeys(t.Context(), runningKey(m.name)).Val()
	queued := slices.Clone(open)
	for _, p := range []job.Priority{job.High, job.Normal, job.Low} {
		queued = append(queued, s.behind(t, m.name, p)...)
	}
	behind := len(queued) - len(open)
	queued = append(queued, s.rdb.ZRange(t.Context(), laterKey(m.name), 0, -1).Val()...)
	slices.Sort(queued)
	slices.Sort(running)
	held := int64(len(open) + len(running))
	if held > window {
		t.Errorf("%d are released or run, want %d at most", held, window)
	}
	if held < window && behind > 0 {
		t.Errorf("%d wait in the backlog while %d of %d are released or run", behind, held, window)
	}
	if want := m.in(job.Queued); !slices.Equal(queued, want) {
		t.Errorf("queued are %v, want %v", queued, want)
	}
	if want := m.in(job.Running); !slices.Equal(running, want) {
		t.Errorf("running are %v, want %v", running, want)
	}
	want := job.TenantUsage{JobsQueued: int64(len(queued)), BytesQueued: m.bytes(), BytesRecorded: m.recorded(), Running: int64(len(running))}
	if got := s.usage(t, m.name); got != want {
		t.Errorf("it uses %+v, want %+v", got, want)
	}
}

func (m *model) in(state job.Status) (ids []string) {
	for id, j := range m.jobs {
		if j.state == state {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids) // so that a seed says all
	return ids
}

func (m *model) bytes() (n int64) {
	for _, j := range m.jobs {
		if j.state == job.Queued {
			n += j.bytes
		}
	}
	return n
}

func (m *model) start(t *testing.T, s *Store, id string) {
	t.Helper()
	j := m.jobs[id]
	got := s.mustStart(t, id, j.epoch)
	if s.rdb.Exists(t.Context(), "asynq:{"+string(got.Priority)+"}:t:"+id+"."+strconv.Itoa(j.epoch)).Val() == 0 {
		t.Errorf("%s is released and has no task", id)
	}
	j.state = job.Running
}

func (m *model) end(t *testing.T, s *Store, id string) {
	t.Helper()
	j := m.jobs[id]
	s.mustEnd(t, Record{ID: id, Tenant: m.name, Epoch: j.epoch, Worker: "w"})
	j.state = job.Succeeded
}
