package record

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// TestScalePlaced: what a pass costs over thousands of tenants whose jobs have had placements, of which few have a job.
func TestScalePlaced(t *testing.T) {
	t.Parallel()
	const tenants, placements, busy = 5_000, 4, 100
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	p := &paper{Sweeper: w}
	s.labelled(t, "w1", "40 zone=a,disk=ssd,gpu=no,size=l")
	labels := []string{"zone=a", "disk=ssd", "gpu=no", "size=l"}
	pipe := s.rdb.Pipeline()
	for n := range tenants {
		tenant := fmt.Sprintf("t%05d", n)
		p.tenants = append(p.tenants, tenant)
		pipe.SAdd(ctx, tenantsKey, tenant)
		pipe.ZAdd(ctx, pooledKey, redis.Z{Score: float64(ms(s.now())), Member: tenant})
		for _, l := range labels[:placements] {
			pipe.ZAdd(ctx, poolsKey(tenant), redis.Z{Score: float64(ms(s.now())), Member: l})
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range p.tenants[:busy] {
		s.placedJobs(t, tenant, labels[0], 2)
	}
	p.pass(ctx, releasePass, p.release) // it writes the windows of all
	const groups = tenants / redisconn.AtOnce
	for _, turn := range []string{"first", "then"} {
		c := p.measure(t, releasePass+", "+turn, func() { p.pass(ctx, releasePass, p.release) })
		if trips, commands := 5*groups+10, 12*tenants+50*busy; c.trips > trips || c.commands > commands {
			t.Errorf("%s: it took %d round trips and %d commands, want %d and %d at most", turn, c.trips, c.commands, trips, commands)
		}
	}
	// Windows that are other ones are those of the next pass.
	before := s.rdb.HGet(ctx, windowsKey(p.tenants[0]), labels[0]).Val()
	s.labelled(t, "w2", "4000 zone=a")
	p.pass(ctx, releasePass, p.release)
	if after := s.rdb.HGet(ctx, windowsKey(p.tenants[0]), labels[0]).Val(); before == "" || after == before {
		t.Errorf("with a hundred times the workers a window is %s, it was %s", after, before)
	}
}
