package record

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// TestDemandOfPools: each job, session and worker counts with one pool, in each place where a job can be.
func TestDemandOfPools(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.labelled(t, "exam", "12 pool=exams,zone=b pool")
	s.labelled(t, "zone", "2 zone=a")
	s.labelled(t, "lost", "2 gpu=yes")
	if err := s.Fleet.PublishLabels(ctx, job.Labels{"gpu": "yes"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Fleet.Leave(ctx, "lost"); err != nil { // it was there within a week
		t.Fatal(err)
	}
	if err := s.Fleet.Beat(ctx, fleet.Worker{ID: "paused", Concurrency: 4, Labels: job.Labels{"pool": "exams"}, Only: []string{"pool"}, Paused: "no bucket"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateTenant(ctx, "bounded", job.Terms{Quotas: job.Quotas{RunningAtOnce: 3}}); err != nil {
		t.Fatal(err)
	}
	clock := s.now().Truncate(time.Millisecond)
	s.now = func() time.Time { return clock }
	// The first of a placement waits for the release pass, which releases what the pool has room for.
	exams := s.placedJobs(t, "acme", "pool=exams", 30)
	clock = clock.Add(time.Minute)
	s.placedJobs(t, "acme", "", 10)
	s.placedJobs(t, "acme", "zone=a", 5)
	s.placedJobs(t, "acme", "gpu=yes", 4)
	s.placedJobs(t, "acme", "pool=nobody", 9) // no worker has had that
	s.placedJobs(t, "acme", "pool=exams,zone=b", 2)
	s.placedJobs(t, "bounded", "pool=exams", 50)
	s.placedJobs(t, "plain", "", 3)
	s.passes(t, "acme", "bounded", "plain")
	open := s.opened(t, "acme")
	started := 0
	exam := Starter{ID: "exam", Labels: job.Labels{"pool": "exams", "zone": "b"}, Only: []string{"pool"}}
	for _, id := range exams {
		if started == 3 || !slices.Contains(open, id) {
			continue
		}
		j, err := s.StartOn(ctx, id, 1, exam)
		if err != nil {
			t.Fatal(err)
		}
		if started++; started == 3 {
			if err := s.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), Metered: &Metered{}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, placement := range []job.Labels{nil, {"pool": "exams"}, {"pool": "exams"}} {
		id := job.NewID("acme")
		if err := s.Create(ctx, id, job.Spec{Runtime: "bash", Placement: placement, RunAt: clock.Add(time.Minute)}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, placement := range []job.Labels{nil, {"zone": "a"}, {"pool": "exams"}} {
		if _, err := s.OpenSession(ctx, "talks", job.SessionSettings{Runtime: "python", Placement: placement}, nil); err != nil {
			t.Fatal(err)
		}
	}
	clock = clock.Add(10 * time.Second)
	const late = 70 * time.Second
	acme := func(queued, running, soon, ended int64) autoscale.Tenant {
		return autoscale.Tenant{Name: "acme", Queued: queued, Running: running, Soon: soon, Ended: ended}
	}
	bounded, plain := autoscale.Tenant{Name: "bounded", Queued: 50, Quota: 3}, autoscale.Tenant{Name: "plain", Queued: 3}
	for _, c := range []struct {
		what  string
		pools []string
		want  []autoscale.Load
	}{
		{
			"workers that are kept for no jobs", nil,
			[]autoscale.Load{{Pool: "common", At: clock, Oldest: 10 * time.Second, Workers: 2, Sessions: 2, Tenants: []autoscale.Tenant{acme(19, 0, 1, 0), plain}}},
		},
		{
			"a pool alone",
			[]string{"pool=exams"},
			[]autoscale.Load{{Pool: "pool=exams", At: clock, Oldest: late, Workers: 1, Paused: 1, Sessions: 1, Tenants: []autoscale.Tenant{acme(29, 2, 2, 1), bounded}}},
		},
		{
			"all",
			[]string{"pool=exams", "pool=exams,zone=b", "zone=a", "common"},
			[]autoscale.Load{
				{Pool: "pool=exams", At: clock, Oldest: late, Paused: 1, Sessions: 1, Tenants: []autoscale.Tenant{acme(27, 2, 2, 1), bounded}},
				{Pool: "pool=exams,zone=b", At: clock, Oldest: 10 * time.Second, Workers: 1, Tenants: []autoscale.Tenant{acme(2, 0, 0, 0)}},
				{Pool: "zone=a", At: clock, Oldest: 10 * time.Second, Workers: 1, Sessions: 1, Tenants: []autoscale.Tenant{acme(5, 0, 0, 0)}},
				{Pool: "common", At: clock, Oldest: 10 * time.Second, Workers: 1, Sessions: 1, Tenants: []autoscale.Tenant{acme(14, 0, 1, 0), plain}},
			},
		},
		{
			"a pool that nobody has",
			[]string{"pool=nobody"},
			[]autoscale.Load{{Pool: "pool=nobody", At: clock, Oldest: 10 * time.Second, Tenants: []autoscale.Tenant{acme(9, 0, 0, 0)}}},
		},
		{"a pool without jobs", []string{"pool=idle"}, []autoscale.Load{{Pool: "pool=idle", At: clock}}},
	} {
		if d := cmp.Diff(c.want, s.demand(t, 2*time.Minute, c.pools...)); d != "" {
			t.Errorf("%s: want -, got +:\n%s", c.what, d)
		}
	}
}

// TestDemandOfSpoiledPools: what a worker has made of a tenant's placements counts as nothing, and spoils nobody else's.
func TestDemandOfSpoiledPools(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.labelled(t, "exam", "4 pool=exams pool")
	s.placedJobs(t, "good", "pool=exams", 2)
	ids := s.placedJobs(t, "spoiled", "pool=exams", 2)
	s.placedJobs(t, "spoiled", "pool=other", 1)
	for _, key := range []string{placedKey("spoiled", "pool=exams"), placedUsageKey("spoiled", s.now()), poolBacklogs("spoiled", "pool=exams")[0], runningKey("spoiled")} {
		if err := s.rdb.Set(ctx, key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.rdb.HSet(ctx, jobKey("spoiled", ids[0]), "placement", "no=\x00label,,")
	s.rdb.ZAdd(ctx, openKey("spoiled"), redis.Z{Score: 1, Member: ids[0]}, redis.Z{Score: 1, Member: "no id"})
	s.rdb.ZAdd(ctx, sessionWorkKey("spoiled"), redis.Z{Score: 1, Member: "no session"})
	s.rdb.ZAdd(ctx, laterKey("spoiled"), redis.Z{Score: 1, Member: ids[0]})
	got := s.demand(t, time.Minute, "pool=exams", "common")
	want := autoscale.Tenant{Name: "good", Queued: 2}
	if len(got[0].Tenants) != 2 || got[0].Tenants[0] != want || got[0].Tenants[1].Queued != 2 {
		t.Errorf("got %+v", got[0])
	}
	s.rdb.Set(ctx, pooledKey, "x", 0)
	if got := s.demand(t, 0, "pool=exams"); len(got[0].Tenants) != 0 {
		t.Errorf("without a list of tenants that have placements: got %+v", got)
	}
}

// TestDemandSamples: of a placement of which more are released than are looked at, those that run are taken to be as many as among these.
func TestDemandSamples(t *testing.T) {
	t.Parallel()
	s, ctx := storeOf(t, 2), t.Context()
	s.placedJobs(t, "acme", "pool=exams", 1)
	s.rdb.Del(ctx, poolBacklogs("acme", "pool=exams")[1], placedBacklogKey("acme"))
	pipe := s.rdb.Pipeline()
	const all, running = 4 * mostSampled, 3 * mostSampled
	for i := range all {
		id := job.NewID("acme")
		pipe.SAdd(ctx, placedKey("acme", "pool=exams"), id)
		if i < running {
			pipe.HSet(ctx, runningKey("acme"), id, "1 w")
		} else {
			pipe.ZAdd(ctx, openKey("acme"), redis.Z{Score: 1, Member: id})
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	got := s.demand(t, 0, "pool=exams")[0].Tenants
	if len(got) != 1 || got[0].Queued+got[0].Running != all || got[0].Running < running*8/10 || got[0].Running > running*12/10 {
		t.Errorf("got %+v, want some %d of %d to run", got, running, all)
	}
}
