package record

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func TestUploads(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	var deleted []string
	away := true
	w.DeleteUpload = func(_ context.Context, tenant, sha256 string) error {
		if away {
			return errors.New("the bucket is away")
		}
		deleted = append(deleted, tenant+"/"+sha256)
		return nil
	}
	u := Upload{Tenant: "default", SHA256: strings.Repeat("a", 64), Size: 1000}
	if err := s.HoldUpload(ctx, u, true); !errors.Is(err, ErrNoUpload) {
		t.Errorf("got %v, want ErrNoUpload", err)
	}
	for range 3 { // counted once
		if err := s.HoldUpload(ctx, u, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.HoldUpload(ctx, u, true); err != nil {
		t.Error(err)
	}
	s.mustStore(t, 1000)
	u.Size = 400 // somebody says: the URL for 1,000 bytes is still good
	for _, known := range []bool{false, true} {
		if err := s.HoldUpload(ctx, u, known); err != nil {
			t.Fatal(err)
		}
		s.mustStore(t, 1000)
	}
	u.Measured = true // the bucket says
	if err := s.HoldUpload(ctx, u, true); err != nil {
		t.Fatal(err)
	}
	s.mustStore(t, 400)
	if n := s.recorded(t); n != uploadCost {
		t.Errorf("%d bytes are recorded, want %d", n, uploadCost)
	}

	sweep := func() error { return w.sweepGarbage(ctx, "default") }
	w.forward(s.retention - time.Minute)
	if err := s.HoldUpload(ctx, u, true); err != nil { // used: it stays for as long again
		t.Fatal(err)
	}
	w.forward(s.retention + time.Minute)
	if err := sweep(); err != nil || len(deleted) > 0 {
		t.Errorf("swept %v, %v; it is in use", deleted, err)
	}
	w.forward(2 * s.retention)
	if err := sweep(); err == nil {
		t.Error("the failure is not told")
	}
	for _, known := range []bool{true, false} { // the object may go at any moment
		if err := s.HoldUpload(ctx, u, known); !errors.Is(err, ErrUploadGoes) {
			t.Errorf("got %v, want ErrUploadGoes", err)
		}
	}
	s.mustStore(t, 400)
	away = false
	w.forward(2*s.retention + garbageRetry + time.Second)
	if err := sweep(); err != nil || len(deleted) != 1 || deleted[0] != "default/"+u.SHA256 {
		t.Errorf("swept %v, %v", deleted, err)
	}
	s.mustStore(t, 0)
	if left := s.traces(t, u.SHA256); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := s.HoldUpload(ctx, u, true); !errors.Is(err, ErrNoUpload) {
		t.Errorf("got %v, want ErrNoUpload", err)
	}
}

// A tenant whose jobs are kept for a moment has a day for its uploads.
func TestUploadLife(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{Retention: time.Minute})
	u := Upload{Tenant: "default", SHA256: strings.Repeat("b", 64), Size: 1}
	if err := s.HoldUpload(t.Context(), u, false); err != nil {
		t.Fatal(err)
	}
	goes := func(want time.Duration) {
		t.Helper()
		due := s.rdb.ZScore(t.Context(), garbageKey("default"), uploadPrefix+u.SHA256).Val()
		if left := time.Until(time.UnixMilli(int64(due))); left < want-time.Minute || left > want {
			t.Errorf("it goes in %s, want %s", left, want)
		}
	}
	goes(uploadLife)
	u.From = time.Now().Add(3 * uploadLife) // run_at
	if err := s.HoldUpload(t.Context(), u, true); err != nil {
		t.Fatal(err)
	}
	goes(4 * uploadLife)
	u.From = time.Time{}
	if err := s.HoldUpload(t.Context(), u, true); err != nil { // sooner is no reason to go sooner
		t.Fatal(err)
	}
	goes(4 * uploadLife)
}

// However many upload at once, no more than the quota is held.
func TestQuotaOfUploads(t *testing.T) {
	t.Parallel()
	s := openStore(t, Config{})
	ctx := t.Context()
	if _, err := s.CreateTenant(ctx, "default", job.Terms{Quotas: job.Quotas{BytesStored: 1000}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	held := 0
	for i := range 26 {
		all.Go(func() {
			err := s.HoldUpload(ctx, Upload{Tenant: "default", SHA256: strings.Repeat(string(rune('a'+i)), 64), Size: 100}, false)
			var full *job.Error
			if err != nil && (!errors.As(err, &full) || full.Code != job.CodeQuotaExceeded) {
				t.Errorf("got %v, want quota_exceeded", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				held++
			}
		})
	}
	all.Wait()
	if held != 10 {
		t.Errorf("%d uploads are held, want 10", held)
	}
	s.mustStore(t, 1000)
}
