package record

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// What a spoiled entry doesn't give back goes with the last job of its tenant.
func TestRecordedEndsWithTheLastJob(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	j := s.done(t, job.Spec{Runtime: "python"}, Ending{Status: job.Succeeded, ResultRef: "k"})
	if s.rdb.Get(ctx, recordedKey("default")).Val() == "" {
		t.Fatal("it counts nothing")
	}
	kept := s.rdb.HGet(ctx, script.Key("default", "kept"), j.ID).Val()
	pipe := s.rdb.Pipeline()
	pipe.HSet(ctx, script.Key("default", "kept"), j.ID, kept[:strings.LastIndexByte(kept, ' ')]+" 0") // without what it counts
	pipe.Del(ctx, jobKey("default", j.ID))
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.forget(ctx, "default", j.ID, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if left := s.rdb.Get(ctx, recordedKey("default")).Val(); left != "" {
		t.Errorf("%s bytes are counted of a tenant that has nothing", left)
	}
}

// However jobs end and go, and in whatever order it is repeated, the count is that of
// the jobs that are kept.
func TestBytesStoredAreExact(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	const each, jobs = 1000, 60
	ids := make([]string, jobs)
	var all sync.WaitGroup
	for i := range ids {
		j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: each + int64(i)})
		ids[i] = j.ID
		if err := s.End(ctx, j, Ending{Status: job.Succeeded, ResultRef: "k", Stored: each}); !errors.Is(err, job.ErrEnded) { // its answer got lost
			t.Errorf("a second end: got %v, want job.ErrEnded", err)
		}
	}
	want := int64(0)
	for i, id := range ids {
		switch i % 4 {
		case 0: // stays
			want += each + int64(i)
			continue
		case 1: // expires
			if err := s.rdb.Del(ctx, jobKey("default", id)).Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.rdb.ZAdd(ctx, garbageKey("default"), redis.Z{Member: id}).Err(); err != nil {
				t.Fatal(err)
			}
		case 2: // is purged, the objects by the sweeper
			if err := s.Purge(ctx, id); err != nil {
				t.Fatal(err)
			}
		case 3: // is purged
			all.Go(func() {
				if err := errors.Join(s.Purge(ctx, id), s.Purged(ctx, id)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range 3 { // as many api processes
		all.Go(func() {
			if err := w.sweepGarbage(ctx, "default"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.mustStore(t, want)
	if n := s.rdb.HLen(ctx, script.Key("default", "kept")).Val(); n != jobs/4 {
		t.Errorf("%d jobs are kept, want %d", n, jobs/4)
	}
	if n := s.rdb.ZCard(ctx, jobsKey("default")).Val(); n != jobs/4 {
		t.Errorf("%d jobs are listed, want %d", n, jobs/4)
	}
}

func TestQuotaOfBytesStored(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	ctx := t.Context()
	if _, err := s.CreateTenant(ctx, "default", job.Terms{Quotas: job.Quotas{BytesStored: 1000}}); err != nil {
		t.Fatal(err)
	}
	s.done(t, job.Spec{}, Ending{Status: job.Succeeded, ResultRef: "k", Stored: 999})
	j := s.done(t, job.Spec{}, Ending{Status: job.Succeeded, ResultRef: "k", Stored: 5000}) // its own limits' business
	var full *job.Error
	err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python"}, "")
	if !errors.As(err, &full) || full.Code != job.CodeQuotaExceeded || !strings.Contains(full.Message, "bytes_stored (1000)") {
		t.Errorf("got %v, want quota_exceeded for bytes_stored", err)
	}
	if err := s.CheckRoom(ctx, "default", 1); !errors.As(err, &full) {
		t.Errorf("check: got %v, want quota_exceeded", err)
	}
	if now, err := s.ReadTenant(ctx, "default"); err != nil || now.Usage.BytesStored != 5999 {
		t.Errorf("got usage %+v, %v", now.Usage, err)
	}
	if err := errors.Join(s.Purge(ctx, j.ID), s.Purged(ctx, j.ID)); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, job.NewID("default"), job.Spec{Runtime: "python"}, ""); err != nil {
		t.Errorf("after a purge: %v", err)
	}
}
