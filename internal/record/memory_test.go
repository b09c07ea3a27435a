package record

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// usedMemory is what Redis itself says that it uses.
func (s *Store) usedMemory(t *testing.T) (bytes int64) {
	t.Helper()
	// What scripts have left behind for Lua's collector is nobody's record.
	if err := s.rdb.Eval(t.Context(), "collectgarbage() collectgarbage() return 1", []string{"gb:{default}:"}).Err(); err != nil {
		t.Fatal(err)
	}
	// Nor is what other connections have room for: Redis gives that back when they have been idle for a while.
	if err := s.rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	info := s.rdb.Info(t.Context(), "memory").Val()
	_, of, _ := strings.Cut(info, "\r\nused_memory:")
	if _, err := fmt.Sscan(of, &bytes); err != nil {
		t.Fatalf("read used_memory in %q: %v", info, err)
	}
	return bytes
}

// recorded is what counts as recorded for the tenant default.
func (s *Store) recorded(t *testing.T) int64 {
	t.Helper()
	pipe := s.rdb.Pipeline()
	count := s.countRecorded(t.Context(), pipe, "default")
	_, _ = pipe.Exec(t.Context()) // redis.Nil where nothing was counted
	n, err := count()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// angles is the largest metadata of characters that HTML escapes would make six times as long.
func angles() map[string]string {
	m := map[string]string{}
	for i := range 15 {
		m[fmt.Sprintf("%02d", i)] = strings.Repeat("<", job.MaxMetadataBytes)
	}
	return m
}

func full(err error, quota string) bool {
	var said *job.Error
	return errors.As(err, &said) && said.Code == job.CodeQuotaExceeded && strings.Contains(said.Message, quota)
}

// A tenant that stays within what it may queue fills Redis up to its quota and no further:
// it submits, cancels, and begins anew.
func TestOneTenantCannotFillRedis(t *testing.T) {
	t.Parallel()
	const quota = 8 << 20
	for name, c := range map[string]struct {
		terms  job.Terms
		config Config
	}{
		"its own quota":    {terms: job.Terms{Quotas: job.Quotas{JobsQueued: 10, BytesQueued: 1 << 20, BytesRecorded: quota}}},
		"the operator's":   {config: Config{RecordBytes: quota}},
		"the smaller one":  {terms: job.Terms{Quotas: job.Quotas{BytesRecorded: quota}}, config: Config{RecordBytes: 1 << 30}},
		"the larger, ours": {terms: job.Terms{Quotas: job.Quotas{BytesRecorded: quota}}, config: Config{RecordBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := openStore(t, c.config), t.Context()
			if c.terms.Quotas.BytesRecorded > 0 {
				if _, err := s.CreateTenant(ctx, "default", c.terms); err != nil {
					t.Fatal(err)
				}
			}
			spec := job.Spec{Runtime: "python", Source: "1", Metadata: angles()}
			if err := spec.Check([]string{"python"}, nil, job.DefaultMaximums); err != nil {
				t.Fatal(err)
			}
			fill := func() (ids []string, err error) {
				for range 2 * quota / jobCost {
					id := job.NewID("default")
					if err := s.Create(ctx, id, spec, ""); err != nil {
						return ids, err
					}
					ids = append(ids, id)
					if _, err := s.Cancel(ctx, id, []byte("{}")); err != nil {
						t.Fatal(err)
					}
				}
				return ids, nil
			}
			before := s.usedMemory(t)
			ids, err := fill()
			if !full(err, "bytes_recorded (8388608)") {
				t.Fatalf("after %d jobs: got %v, want the quota to refuse it", len(ids), err)
			}
			grown, counted := s.usedMemory(t)-before, s.recorded(t)
			t.Logf("%d jobs: Redis uses %d bytes more, %d are counted", len(ids), grown, counted)
			if grown > quota || counted > quota || counted < quota*9/10 {
				t.Errorf("Redis uses %d bytes more, %d are counted; the quota is %d", grown, counted, quota)
			}
			if err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python", Source: strings.Repeat("#", quota-int(counted))}, ""); !full(err, "bytes_recorded") {
				t.Errorf("a spec larger than what is left: got %v", err)
			}
			if c.config.RecordBytes != 1 {
				if err := s.Create(ctx, job.NewID("other"), spec, ""); err != nil {
					t.Errorf("another tenant: %v", err)
				}
			}
			// What is purged, or is no longer kept, makes room.
			if err := errors.Join(s.Purge(ctx, ids[0]), s.Purged(ctx, ids[0])); err != nil {
				t.Fatal(err)
			}
			if again, err := fill(); len(again) != 1 || !full(err, "bytes_recorded") {
				t.Errorf("after a purge: %d jobs, %v; want room for one", len(again), err)
			}
		})
	}
}

// What counts is at least what Redis uses, whatever a tenant does, and not far more.
func TestMemoryIsCounted(t *testing.T) {
	t.Parallel()
	const n = 400
	long := strings.Repeat("é", 2000)
	plain := job.Spec{Runtime: "python", Source: strings.Repeat("print(1)", 20)} // more than what fits into a small hash
	told := job.Spec{Runtime: "python", Source: "print(1)", Metadata: angles(), Callback: &job.Callback{URL: "https://example.com/" + strings.Repeat("x", 2000)}}
	create := func(t *testing.T, s *Store, spec job.Spec, key string) string {
		t.Helper()
		made, err := s.CreateMany(t.Context(), "default", []NewJob{{ID: job.NewID("default"), Spec: spec, Key: key}})
		if err != nil || made[0].Err != nil {
			t.Fatal(err, made)
		}
		return made[0].ID
	}
	end := func(t *testing.T, s *Store, id string, e Ending) {
		t.Helper()
		j, err := s.Start(t.Context(), id, 1, "w1")
		if err == nil {
			err = s.End(t.Context(), j, e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	//nolint:thelper // each is a case, not a helper
	for name, do := range map[string]func(t *testing.T, s *Store, i int){
		"queued": func(t *testing.T, s *Store, _ int) { create(t, s, plain, "") },
		"queued, later": func(t *testing.T, s *Store, _ int) {
			create(t, s, job.Spec{Runtime: "python", Source: long, RunAt: time.Now().Add(time.Hour), Deadline: time.Now().Add(2 * time.Hour)}, "")
		},
		"queued, after an outage and unoffered": func(t *testing.T, s *Store, _ int) {
			id := create(t, s, plain, "")
			_, err := s.Start(t.Context(), id, 1, "w1")
			if err == nil {
				_, err = s.Requeue(t.Context(), id, 1, "w1", CostOutage, 0)
			}
			if err == nil {
				err = s.unoffered(t.Context(), queue.Run{ID: id, Epoch: 2}, &NotOfferedError{Name: "python"})
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"queued with a key": func(t *testing.T, s *Store, i int) { create(t, s, told, fmt.Sprint(i)) },
		"canceled": func(t *testing.T, s *Store, _ int) {
			_, _ = s.Cancel(t.Context(), create(t, s, plain, ""), []byte(long))
		},
		"ended": func(t *testing.T, s *Store, _ int) {
			end(t, s, create(t, s, plain, ""), Ending{Status: job.Succeeded, ResultRef: "tenants/default/jobs/x/1/result.json", Stored: 10})
		},
		"ended with a key": func(t *testing.T, s *Store, i int) {
			end(t, s, create(t, s, plain, fmt.Sprint(i)), Ending{Status: job.Succeeded, ResultRef: "k"})
		},
		"ended, to be told": func(t *testing.T, s *Store, _ int) {
			end(t, s, create(t, s, told, ""), Ending{Status: job.InternalError, Result: []byte(long)})
		},
		"uploads": func(t *testing.T, s *Store, i int) {
			_ = s.HoldUpload(t.Context(), Upload{Tenant: "default", SHA256: fmt.Sprintf("%064d", i), Size: 1}, false)
		},
		"sessions that have ended": func(t *testing.T, s *Store, _ int) { s.sessionEnds(t) },
		"news for endpoints": func(t *testing.T, s *Store, i int) {
			if i == 100_000 {
				s.addEndpoints(t, 4)
			}
			_, dids := s.tellOfSession(t, Pace{Most: 16})
			for _, did := range dids {
				s.fails(t, did)
			}
		},
		"tests of endpoints": func(t *testing.T, s *Store, i int) {
			if i == 100_000 {
				s.addEndpoints(t, 1)
			}
			did, err := s.TestEndpoint(t.Context(), "default", s.endpointIDs(t)[0])
			if err != nil {
				t.Fatal(err)
			}
			s.fails(t, did)
		},
		"hosts of callbacks": func(t *testing.T, s *Store, i int) {
			url := fmt.Sprintf("https://r%d.example.com/", i)
			j := endedWith(t, s, "default", url)
			s.fails(t, DeliveryID(j.ID, job.EventCompleted, url))
			if err := errors.Join(s.Purge(t.Context(), j.ID), s.Purged(t.Context(), j.ID)); err != nil {
				t.Fatal(err)
			}
		},
		"batch of rejected":  func(t *testing.T, s *Store, i int) { s.rejected(t, fmt.Sprint(i), 1+i%job.MaxBatchErrors, long) },
		"batches of one job": func(t *testing.T, s *Store, _ int) { s.newBatch(t, 1) },
		"batch": func(t *testing.T, s *Store, i int) {
			if i%100 == 0 {
				s.newBatch(t, 100)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, Config{})
			do(t, s, 100_000) // the scripts themselves
			time.Sleep(time.Millisecond)
			used, counted := s.usedMemory(t), s.recorded(t)
			for i := range n {
				do(t, s, i)
			}
			used, counted = s.usedMemory(t)-used, s.recorded(t)-counted
			t.Logf("Redis uses %d bytes for each, %d are counted", used/n, counted/n)
			if used > counted || counted > 5*used { // Valkey 8.1 takes a third less than Redis 7.0 for some
				t.Errorf("Redis uses %d bytes for each, %d are counted", used/n, counted/n)
			}
		})
	}
}

// rejected makes a batch of so many jobs that are not accepted, and seals it.
func (s *Store) rejected(t *testing.T, key string, n int, message string) Batch {
	t.Helper()
	b, _, err := s.OpenBatch(t.Context(), "default", job.BatchOptions{IdempotencyKey: key})
	if err != nil {
		t.Fatal(err)
	}
	var prints []Fingerprint
	var faults []job.ItemError
	for i := range n {
		prints = append(prints, NewFingerprint(fmt.Append(nil, i)))
		faults = append(faults, job.ItemError{Index: i, Code: "invalid", Message: message})
	}
	if err := s.Reject(t.Context(), b.ID, prints, faults); err != nil {
		t.Fatal(err)
	}
	if b, err = s.SealBatch(t.Context(), b.ID, n); err != nil {
		t.Fatal(err)
	}
	return b
}

// However many processes create, end, purge and sweep at once, what is counted never passes
// the quota, and is nothing once nothing is left.
func TestBytesRecordedAreExact(t *testing.T) {
	t.Parallel()
	const room, tries = 30, 120
	server := gbtest.Redis(t)
	spec := job.Spec{Runtime: "python", Source: "print(1)", Metadata: angles(), Callback: &job.Callback{URL: hook}, RetentionSeconds: 1}
	inline, err := job.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := job.Marshal(spec.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	quota := int64(room*jobMemory(spec, inline, metadata)) + jobCost
	var processes []*Store
	for range 3 {
		s, err := Open(t.Context(), Config{URL: server.URL(), RecordBytes: quota})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		processes = append(processes, s)
	}
	s, ctx := processes[0], t.Context()
	ids := make(chan string, tries)
	var all sync.WaitGroup
	var refused atomic.Int64
	for i := range tries {
		all.Go(func() {
			id := job.NewID("default")
			switch err := processes[i%len(processes)].Create(ctx, id, spec, ""); {
			case err == nil:
				ids <- id
			case full(err, "bytes_recorded"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	close(ids)
	if len(ids) != room || refused.Load() != tries-room {
		t.Errorf("%d are accepted and %d refused, want %d and %d", len(ids), refused.Load(), room, tries-room)
	}
	if used, err := s.readTenants(ctx, "default"); err != nil || len(used) > 0 {
		t.Fatal(used, err) // it has no record
	}
	n := 0
	for id := range ids {
		n++
		i := n
		all.Go(func() {
			p := processes[i%len(processes)]
			if i%2 == 0 {
				if j, err := p.Start(ctx, id, 1, "w1"); err != nil {
					t.Error(err)
				} else if err := p.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"}); err != nil {
					t.Error(err)
				}
			} else if _, err := p.Cancel(ctx, id, []byte("{}")); err != nil {
				t.Error(err)
			}
			if i%3 == 0 { // the others expire
				for range 2 {
					if err := p.Purge(ctx, id); err != nil && !errors.Is(err, job.ErrNotFound) {
						t.Error(err)
					}
					if err := p.Purged(ctx, id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	later := time.Duration(0) // what is not gone yet is put off
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		later += time.Hour
		for _, p := range processes {
			w, _ := sweepingOver(p)
			w.forward(later)
			all.Go(func() {
				if err := errors.Join(w.sweepGarbage(ctx, "default"), w.sweepOutbox(ctx, "default")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if s.rdb.Exists(ctx, recordedKey("default")).Val() == 0 && s.rdb.HLen(ctx, script.Key("default", "kept")).Val() == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still counted, for %v", s.recorded(t), s.rdb.HGetAll(ctx, script.Key("default", "kept")).Val())
		}
	}
}
