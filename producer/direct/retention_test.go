package direct_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

const garbageKey = "gb:{default}:garbage"

// sweep runs a sweeper on the world's Redis and bucket until the test ends.
func sweep(t *testing.T, w *producertest.Env) {
	t.Helper()
	sweeper := &record.Sweeper{Records: w.Records, Log: slog.New(slog.DiscardHandler), DeleteObjects: w.Objects.SweepJob, DeleteUpload: w.Objects.SweepUpload}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { sweeper.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// due makes what is to be looked at of the job due, as time would.
func due(t *testing.T, w *producertest.Env, id string) {
	t.Helper()
	if err := w.Raw.ZAddXX(t.Context(), garbageKey, redis.Z{Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, w *producertest.Env) int64 {
	t.Helper()
	tenant, err := w.Client.GetTenant(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	return tenant.Usage.BytesStored
}

// ended submits a job and ends it with a file, as a worker would.
func ended(t *testing.T, w *producertest.Env, spec job.Spec) string {
	t.Helper()
	spec.Runtime, spec.Source = "python", "1"
	j, err := w.Client.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	w.End(t, w.Start(t, j.ID), map[string]string{"plot.txt": "a plot"}, nil)
	return j.ID
}

func TestNothingIsLeftAfterTheRetention(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	id := ended(t, w, job.Spec{RetentionSeconds: 1, Callback: &job.Callback{URL: "https://example.com/"}})
	longer := ended(t, w, job.Spec{})
	if stored(t, w) == 0 || len(w.Kept(t, "tenants/default/jobs/"+id+"/")) != 2 {
		t.Fatal("nothing is stored")
	}
	gbtest.Eventually(t, "the record is gone", func() bool {
		_, err := w.Client.Get(t.Context(), id)
		return errors.Is(err, job.ErrNotFound)
	})
	sweep(t, w)
	due(t, w, id)
	rdb := w.Raw
	gbtest.Eventually(t, "it is swept", func() bool { return rdb.ZScore(t.Context(), garbageKey, id).Err() != nil })
	if left := w.Kept(t, "tenants/default/jobs/"+id+"/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
	keys, err := rdb.Keys(t.Context(), "gb:*"+id+"*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys are left: %v, %v", keys, err)
	}
	for _, entry := range rdb.ZRange(t.Context(), "gb:{default}:jobs", 0, -1).Val() {
		if strings.Contains(entry, id) {
			t.Error("it is still in the list")
		}
	}
	kept := rdb.HGetAll(t.Context(), "gb:{default}:kept").Val()
	if len(kept) != 1 || kept[longer] == "" {
		t.Errorf("kept are %v, want only %s", kept, longer)
	}
	sizes := int64(0)
	for _, size := range w.Kept(t, "tenants/default/jobs/") {
		sizes += size
	}
	if got := stored(t, w); got != sizes {
		t.Errorf("%d bytes are counted, %d are stored", got, sizes)
	}
}

// The bucket goes away in the middle of a purge: the job is gone all the same, and so
// are its objects and bytes when the bucket is back.
func TestPurgeOverAnOutageOfTheBucket(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	id := ended(t, w, job.Spec{})
	w.S3.Kill()
	if err := w.Client.Purge(t.Context(), id); err != nil {
		t.Fatalf("purge without a bucket: %v", err)
	}
	if _, err := w.Client.Get(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if stored(t, w) == 0 {
		t.Error("bytes that are still stored are not counted")
	}
	w.S3.Restart()
	sweep(t, w)
	gbtest.Eventually(t, "the bytes are given back", func() bool { due(t, w, id); return stored(t, w) == 0 })
	if left := w.Kept(t, "tenants/default/jobs/"+id+"/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
}

// A backup holds what a job that is purged meanwhile has in the bucket: it goes after the backup.
func TestPurgeUnderAHold(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	id := ended(t, w, job.Spec{})
	before := w.Kept(t, "tenants/default/jobs/"+id+"/")
	hold, _, err := record.TakeHold(t.Context(), w.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Purge(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.Get(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if diff := cmp.Diff(before, w.Kept(t, "tenants/default/jobs/"+id+"/")); len(before) == 0 || diff != "" {
		t.Errorf("what is held has changed: %s", diff)
	}
	if err := hold.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweep(t, w)
	gbtest.Eventually(t, "the bytes are given back", func() bool { due(t, w, id); return stored(t, w) == 0 })
	if left := w.Kept(t, "tenants/default/jobs/"+id+"/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
}

// A result that has left Redis is answered from the bucket, and is the same.
func TestResultFromTheBucket(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	id := ended(t, w, job.Spec{Metadata: map[string]string{"course": "cs1"}})
	before, err := w.Client.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.Raw.Del(t.Context(), "gb:{default}:result:"+id).Val(); n != 1 {
		t.Fatal("there was no result in Redis")
	}
	after, err := w.Client.Get(t.Context(), id)
	if err != nil || !after.Ended() {
		t.Fatalf("got %+v, %v", after, err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

func TestRetentionIsBounded(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{RetentionSeconds: 3600}); err != nil {
		t.Fatal(err)
	}
	for seconds, ok := range map[int64]bool{0: true, 1: true, 3600: true, 3601: false, -1: false, job.MaxRetentionSeconds + 1: false} {
		_, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", RetentionSeconds: seconds})
		var invalid job.Invalid
		switch {
		case ok && err != nil:
			t.Errorf("%d: %v", seconds, err)
		case !ok && (!errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "retention_seconds"):
			t.Errorf("%d: got %v, want what is wrong with retention_seconds", seconds, err)
		}
	}
}

// An upload counts as stored until it is swept, put or not.
func TestUploadsAreSwept(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{BytesStored: 3000}}); err != nil {
		t.Fatal(err)
	}
	f, err := producer.UploadFile(t.Context(), w.Client, "in", strings.NewReader(strings.Repeat("x", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	never := strings.Repeat("0", 64)
	if _, err := w.Client.PrepareUpload(t.Context(), never, 2000); err != nil {
		t.Fatal(err)
	}
	var full *job.Error
	if _, err := producer.UploadFile(t.Context(), w.Client, "in", strings.NewReader("one more")); !errors.As(err, &full) || full.Code != job.CodeQuotaExceeded {
		t.Errorf("got %v, want quota_exceeded", err)
	}
	if got := stored(t, w); got != 3000 {
		t.Errorf("%d bytes are counted, want 3000", got)
	}
	sweep(t, w)
	due(t, w, "upload:"+f.Upload)
	gbtest.Eventually(t, "its bytes are given back", func() bool { return stored(t, w) == 2000 })
	if left := w.Kept(t, "tenants/default/inputs/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
	due(t, w, "upload:"+never)
	gbtest.Eventually(t, "all bytes are given back", func() bool { return stored(t, w) == 0 })
}

// TestResultOfAnotherPlace: a worker says where a result is, and may read less of the bucket than the api.
func TestResultOfAnotherPlace(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	const ref = "tenants/other/jobs/x/1/result.json"
	if _, err := w.Objects.PutBytes(t.Context(), ref, "application/json", []byte(`{"stdout":"secret"}`)); err != nil {
		t.Fatal(err)
	}
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Worker.End(t.Context(), w.Start(t, j.Summary.ID), record.Ending{Status: job.Succeeded, ResultRef: ref}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Client.Get(t.Context(), j.Summary.ID); err == nil {
		t.Errorf("got the result %q", got.Result.Stdout)
	}
}

// TestResultOfAnotherJob: the links of a result lead to its own job's files, whichever job a worker names in it.
func TestResultOfAnotherJob(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	id := j.Summary.ID
	forged, err := job.Marshal(job.Result{ID: job.NewID("other"), Status: job.Succeeded, StdoutURL: "stdout", Artifacts: []job.Artifact{{Name: "a", URL: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Worker.End(t.Context(), w.Start(t, id), record.Ending{Status: job.Succeeded, Result: forged}); err != nil {
		t.Fatal(err)
	}
	got, err := w.Client.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{got.Result.StdoutURL, got.Result.Artifacts[0].URL} {
		if got.Result.ID != id || !strings.Contains(link, id) || strings.Contains(link, "other-") {
			t.Errorf("got %s of job %s, want links to job %s", link, got.Result.ID, id)
		}
	}
}

// resultOf is where the bucket has a job's result.
func resultOf(t *testing.T, id string) string {
	t.Helper()
	keys, err := artifacts.JobKeys("default", id)
	if err != nil {
		t.Fatal(err)
	}
	return keys.Result(1)
}

// TestUnreadableResults: a result that can't be read is an error in its place, and the batch's others are answered.
func TestUnreadableResults(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	ctx := t.Context()
	jobs := []struct {
		name  string
		spoil func(record, result, id string) error
		code  string
	}{
		{"the first", nil, ""},
		{"no object", func(_, result, id string) error {
			return errors.Join(w.Raw.Del(ctx, result).Err(), w.Objects.Remove(ctx, resultOf(t, id)))
		}, job.CodeNotFound},
		{"no JSON", func(_, result, _ string) error { return w.Raw.Set(ctx, result, "{", 0).Err() }, job.CodeInternal},
		{"a spoiled record", func(record, _, _ string) error { return w.Raw.HSet(ctx, record, "metadata", "{").Err() }, job.CodeInternal},
		{"a record of another type", func(record, _, _ string) error { return w.Raw.Set(ctx, record, "x", 0).Err() }, job.CodeInternal},
		{"a result of another type", func(_, result, _ string) error {
			return errors.Join(w.Raw.Del(ctx, result).Err(), w.Raw.HSet(ctx, result, "x", "y").Err())
		}, job.CodeInternal},
		{"purged", func(_, _, id string) error { return w.Client.Purge(ctx, id) }, job.CodeNotFound},
		{"the last", nil, ""},
	}
	b, err := w.Client.SubmitBatch(ctx, producer.BatchOptions{}, oneByOne(slices.Repeat([]job.Spec{{Runtime: "python", Source: "1"}}, len(jobs))...))
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range jobs {
		id := job.ItemID(b.ID, i)
		w.End(t, w.Start(t, id), nil, nil)
		if tt.spoil == nil {
			continue
		}
		if err := tt.spoil("gb:{default}:job:"+id, "gb:{default}:result:"+id, id); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
	}
	next := 0
	for r, err := range w.Client.BatchResults(ctx, b.ID, 0) {
		if err != nil {
			t.Fatalf("behind %d: %v", next, err)
		}
		tt, code := jobs[r.Index], ""
		if r.Error != nil {
			code = r.Error.Code
		}
		if r.Index != next || r.ID != job.ItemID(b.ID, next) || code != tt.code || (r.Result != nil) != (tt.code == "") {
			t.Errorf("%s: got %+v, want the code %q", tt.name, r, tt.code)
		}
		next++
	}
	if next != len(jobs) {
		t.Errorf("got %d results, want %d", next, len(jobs))
	}
}

// TestWaitUnreadable: who waits for a job whose result can't be read is told so at once, and what that took of memory is given back.
func TestWaitUnreadable(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	id := j.Summary.ID
	if _, err := w.Objects.PutBytes(t.Context(), resultOf(t, id), "application/json", []byte(strings.Repeat(" ", 300<<10))); err != nil {
		t.Fatal(err)
	}
	if err := w.Worker.End(t.Context(), w.Start(t, id), record.Ending{Status: job.Succeeded, ResultRef: resultOf(t, id)}); err != nil {
		t.Fatal(err)
	}
	m := &counted{}
	if _, err := w.Client.ForAnswer("default", m).Wait(inTime(t), id); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want why the result can't be read", err)
	}
	if held, _ := m.now(); held != 0 || m.takes != 1 {
		t.Errorf("got %d bytes held, and %d reads of the result, want 0 and 1", held, m.takes)
	}
}
