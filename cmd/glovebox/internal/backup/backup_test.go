package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a Redis and a bucket of a test.
type place struct {
	options *redis.Options
	redis   *redis.Client
	objects *artifacts.Store
}

func newPlace(t *testing.T) place {
	t.Helper()
	return newPlaceAt(t, gbtest.Redis(t).Admin())
}

func newPlaceAt(t *testing.T, url string) place {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s3 := gbtest.S3(t)
	objects, err := artifacts.Open(t.Context(), artifacts.Config{Endpoint: s3.Endpoint, Region: s3.Region, Bucket: "glovebox", PathStyle: true, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Close)
	if err := objects.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := place{o, redis.NewClient(o), objects}
	t.Cleanup(func() { p.redis.Close() })
	return p
}

func (p place) target(replace bool) Target {
	return Target{Redis: p.redis, Objects: p.objects, Replace: replace}
}

func id(n int) string { return fmt.Sprintf("acme-%026d", n) }

// end stores an object and then a record that names it, as a job's end does.
func (p place) end(t *testing.T, n int) {
	t.Helper()
	key := "tenants/acme/jobs/" + id(n) + "/1/result.json"
	if _, err := p.objects.PutBytes(t.Context(), key, "application/json", []byte(id(n))); err != nil {
		t.Error(err)
	}
	if err := p.redis.HSet(t.Context(), "gb:{acme}:job:"+id(n), "state", "succeeded", "result", key).Err(); err != nil {
		t.Error(err)
	}
}

func (p place) save(t *testing.T) ([]byte, Report) {
	t.Helper()
	var file bytes.Buffer
	r, err := Save(t.Context(), p.options, p.redis, p.objects, &file, "test")
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), r
}

// agree fails where a record names an object that isn't there, and returns how many records there are.
func (p place) agree(t *testing.T) (jobs int) {
	t.Helper()
	keys := p.redis.Scan(t.Context(), 0, "gb:{acme}:job:*", 1000).Iterator()
	for keys.Next(t.Context()) {
		jobs++
		key := p.redis.HGet(t.Context(), keys.Val(), "result").Val()
		if b, err := p.objects.GetBytes(t.Context(), key, 1000); err != nil || !strings.Contains(key, string(b)) {
			t.Errorf("%s names %s: %q, %v", keys.Val(), key, b, err)
		}
	}
	return jobs
}

// TestBackup: a backup that is made while jobs end has every object that its records name, and no
// more comes back than they name.
func TestBackup(t *testing.T) {
	t.Parallel()
	from, to := newPlace(t), newPlace(t)
	for n := range 50 {
		from.end(t, n)
	}
	passed := time.Now().Add(time.Hour).Truncate(time.Second)
	from.redis.Set(t.Context(), "gb:{acme}:idem:x", "y", 0)
	from.redis.ExpireAt(t.Context(), "gb:{acme}:idem:x", passed)
	from.redis.Set(t.Context(), "gb:worker:host-abcdefghij", "{}", 0)
	from.redis.LPush(t.Context(), "asynq:{normal}:pending", "x")
	stop, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for n := 50; ; n++ {
			select {
			case <-stop:
				return
			default:
				from.end(t, n)
			}
		}
	})
	file, report := from.save(t)
	close(stop)
	ended.Wait()
	if from.redis.Exists(t.Context(), "gb:backup").Val() != 0 {
		t.Error("deletions are still held")
	}
	got, err := Verify(bytes.NewReader(file))
	if err != nil || got != report || got.Records.Jobs < 50 || got.Objects < got.Records.Jobs {
		t.Fatalf("got %+v, %v, want %+v", got, err, report)
	}
	done, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, to.target(false))
	if err != nil {
		t.Fatal(err)
	}
	if jobs := to.agree(t); jobs != report.Records.Jobs || done.LeftOut != report.Objects-jobs {
		t.Errorf("got %d jobs, %d objects left out; %+v", jobs, done.LeftOut, report)
	}
	if left := to.redis.ExpireTime(t.Context(), "gb:{acme}:idem:x").Val(); int64(left.Seconds()) != passed.Unix() {
		t.Errorf("expiry: got %s", left)
	}
	if n := to.redis.Exists(t.Context(), "gb:worker:host-abcdefghij", "asynq:{normal}:pending", "gb:backup").Val(); n != 0 {
		t.Errorf("%d keys came back that are of the moment", n)
	}

	// Once more: not over what is there, unless it is to go.
	to.end(t, 100_000)
	if _, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, to.target(false)); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into a Redis with records: got %v", err)
	}
	if done, err = Restore(t.Context(), bytes.NewReader(file), report.SHA256, to.target(true)); err != nil || done.Deleted != 1 {
		t.Errorf("got %+v, %v, want one object deleted", done, err)
	}
	if jobs := to.agree(t); jobs != report.Records.Jobs {
		t.Errorf("got %d jobs, want %d", jobs, report.Records.Jobs)
	}
}

// TestServer: a Valkey is called that, by its own version.
func TestServer(t *testing.T) {
	t.Parallel()
	for want, head := range map[string]Head{"Redis 8.2.9": {Redis: "8.2.9"}, "Valkey 9.0.5": {Redis: "7.2.4", Valkey: "9.0.5"}} {
		if got := head.Server(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOtherDB: a backup of one database is checked as it is, and comes into another, whole. One without
// records replaces none.
func TestOtherDB(t *testing.T) {
	t.Parallel()
	from, to := newPlace(t), newPlace(t)
	from.use(t, 3)
	from.end(t, 1)
	file, _ := from.save(t)
	to.end(t, 2)
	report, err := Verify(bytes.NewReader(file))
	if err != nil || report.Records.Jobs != 1 || report.Head.DB != 3 {
		t.Fatalf("got %+v, %v, want one job, of database 3", report, err)
	}
	if _, err := Restore(t.Context(), bytes.NewReader(file), report.SHA256, to.target(true)); err != nil {
		t.Fatal(err)
	}
	if jobs := to.agree(t); jobs != 1 || to.redis.Exists(t.Context(), "gb:{acme}:job:"+id(1)).Val() != 1 {
		t.Errorf("got %d jobs, want that of the backup", jobs)
	}
	from.use(t, 4)
	file, _ = from.save(t)
	if report, err := Verify(bytes.NewReader(file)); !errors.Is(err, ErrEmpty) {
		t.Errorf("a backup without records: got %+v, %v", report, err)
	}
}

// TestOlderRedis: what Redis doesn't take replaces nothing.
func TestOlderRedis(t *testing.T) {
	t.Parallel()
	to := newPlace(t)
	to.end(t, 1)
	var file bytes.Buffer
	// Of a version that no Redis has.
	archive(t, &file, "REDIS0080\xfe\x00\x00\x04gb:k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	report, err := Verify(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	done, err := Restore(t.Context(), bytes.NewReader(file.Bytes()), report.SHA256, to.target(true))
	if !errors.Is(err, ErrOlder) || done.Begun {
		t.Errorf("got %+v, %v, want %v before anything is deleted", done, err, ErrOlder)
	}
	if jobs := to.agree(t); jobs != 1 {
		t.Errorf("got %d jobs, want the one that was there", jobs)
	}
}

// TestStrangers: what others put beside Glovebox's objects is not in a backup, and doesn't spoil it.
func TestStrangers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.end(t, 1)
	for _, key := range []string{"tenants/readme.txt", "tenants/acme/notes/x", "tenants/acme/empty/"} {
		var content []byte
		if !strings.HasSuffix(key, "/") {
			content = []byte("x")
		}
		if _, err := p.objects.PutBytes(t.Context(), key, "text/plain", content); err != nil {
			t.Fatal(err)
		}
	}
	file, report := p.save(t)
	if report.Objects != 1 || report.Skipped != 3 {
		t.Errorf("got %+v, want one object, and 3 skipped", report)
	}
	if got, err := Verify(bytes.NewReader(file)); err != nil || got.Objects != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// use makes db the database that the place has its records in.
func (p *place) use(t *testing.T, db int) {
	t.Helper()
	o := *p.options
	o.DB = db
	p.options, p.redis = &o, redis.NewClient(&o)
	client := p.redis
	t.Cleanup(func() { client.Close() })
}

// archive writes a backup of that snapshot.
func archive(tb testing.TB, file io.Writer, snapshot string) {
	tb.Helper()
	w, err := newWriter(file, Head{Format: format})
	if err == nil {
		err = w.begin(redisName, int64(len(snapshot)), nil)
	}
	if err == nil {
		_, err = io.WriteString(w.tar, snapshot)
	}
	if err == nil {
		_, err = w.close()
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// TestDamaged: a backup that was cut off, or of which any byte that counts was changed, is refused.
func TestDamaged(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for n := range 3 {
		p.end(t, n)
	}
	file, _ := p.save(t)
	whole := len(file) - 2*blockSize // behind it is the end of every tar archive
	for size := 0; size < whole-blockSize; size += 97 {
		if _, err := Verify(bytes.NewReader(file[:size])); err == nil {
			t.Errorf("%d bytes of %d: got no error", size, len(file))
		}
	}
	for at := 0; at < whole-2*blockSize; at += 53 {
		damaged := bytes.Clone(file)
		damaged[at] ^= 0x20
		if _, err := Verify(bytes.NewReader(damaged)); err == nil {
			t.Errorf("byte %d of %d changed: got no error", at, len(file))
		}
	}
}

// TestOwner: an object is put nowhere but where Glovebox has objects.
func TestOwner(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "glovebox-private", "tenants/acme", "tenants/acme/jobs", "tenants/acme/jobs/../x", "tenants/../jobs/x/1", "tenants/acme/inputs/xyz", "tenants/acme/other/x", "tenants/acme/", "tenants/acme/jobs/" + id(1), "tenants/acme/jobs/" + id(1) + "/", "tenants/acme/jobs/" + id(1) + "/1/", "tenants/acme/jobs/" + strings.Repeat("x", 2000)} {
		if _, _, err := owner(key); !errors.Is(err, ErrDamaged) {
			t.Errorf("%.60q: got %v", key, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	var file bytes.Buffer
	archive(f, &file, "REDIS0011\xfe\x00\x00\x04gb:k\x01v\xff\x00\x00\x00\x00\x00\x00\x00\x00")
	if _, err := Verify(bytes.NewReader(file.Bytes())); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = Verify(io.LimitReader(bytes.NewReader(b), 1<<20)) // it ends, and doesn't panic
	})
}
