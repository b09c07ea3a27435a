package record

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// The fleet's keys.
const (
	slotsKey       = "gb:slots"
	slotsTotalKey  = "gb:slots:total"
	runtimesKey    = "gb:runtimes"
	imagesKey      = "gb:images"
	keysKey        = "gb:keys"
	secretsKeysKey = "gb:secretkeys"
)

// beatLife is how long a worker lives after its last beat.
const beatLife = 15 * time.Second

func workerKey(worker string) string { return "gb:worker:" + worker }

// slots are those of the fleet, as they were within the last three seconds.
func (s *Store) slots(ctx context.Context) (int64, error) {
	slots, _, err := s.readCapacity(ctx)
	return slots, err
}

// storeOf is a store whose workers run so many jobs at once.
func storeOf(tb testing.TB, slots int) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), Config{URL: gbtest.Redis(tb).URL(), Log: slog.New(slog.NewTextHandler(tb.Output(), nil))})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	s.resize(tb, slots)
	return s
}

// resize makes the fleet another, at once and for good.
func (s *Store) resize(tb testing.TB, slots int) {
	tb.Helper()
	if err := s.Fleet.Beat(tb.Context(), fleet.Worker{ID: "w", Concurrency: slots}); err != nil {
		tb.Fatal(err)
	}
	s.rdb.Persist(tb.Context(), workerKey("w"))
	s.recount(tb)
}

// recount makes the store count its slots anew.
func (s *Store) recount(tb testing.TB) {
	tb.Helper()
	if err := s.rdb.Del(tb.Context(), slotsTotalKey).Err(); err != nil {
		tb.Fatal(err)
	}
	s.capacity.mu.Lock()
	defer s.capacity.mu.Unlock()
	s.capacity.read = time.Time{}
}

func (s *Store) mustCreate(t *testing.T, tenant string, priority job.Priority) string {
	t.Helper()
	id := job.NewID(tenant)
	if err := s.Create(t.Context(), id, job.Spec{Runtime: "bash", Priority: priority}, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

func (s *Store) mustStart(t *testing.T, id string, epoch int) Record {
	t.Helper()
	j, err := s.Start(t.Context(), id, epoch, "w")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (s *Store) mustEnd(t *testing.T, j Record) {
	t.Helper()
	if err := s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
}

// opened lists the tenant's released jobs.
func (s *Store) opened(t *testing.T, tenant string) []string {
	t.Helper()
	ids, err := s.rdb.ZRange(t.Context(), openKey(tenant), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// behind lists the tenant's backlog of one priority.
func (s *Store) behind(t *testing.T, tenant string, p job.Priority) []string {
	t.Helper()
	ids, err := s.rdb.ZRange(t.Context(), backlogKey(tenant, p), 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func (s *Store) usage(t *testing.T, tenant string) job.TenantUsage {
	t.Helper()
	r, err := s.ReadTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return r.Usage
}

func openStore(t *testing.T, c Config) *Store {
	t.Helper()
	c.URL = gbtest.Redis(t).URL()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// passes makes the release pass.
func (s *Store) passes(t *testing.T, tenants ...string) {
	t.Helper()
	w := &Sweeper{Records: s, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := w.release(t.Context(), tenants...); err != nil {
		t.Fatal(err)
	}
}
