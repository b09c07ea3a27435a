package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is what a worker needs, and the settings that name it.
type host struct {
	t      *testing.T
	redis  *gbtest.RedisServer
	s3     *gbtest.S3Server
	podman *gbtest.PodmanService
	env    map[string]string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, redis: gbtest.Redis(t), s3: gbtest.S3(t), podman: gbtest.Podman(t)}
	agent, err := gbtest.Tool("glovebox-agent")
	if err != nil {
		t.Fatal(err)
	}
	store, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: h.s3.Endpoint, Region: h.s3.Region, Bucket: "glovebox", AccessKey: h.s3.AccessKey, SecretKey: h.s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.env = map[string]string{
		"GLOVEBOX_REDIS_URL": h.redis.URL(), "GLOVEBOX_S3_ENDPOINT": h.s3.Endpoint, "GLOVEBOX_S3_REGION": h.s3.Region, "GLOVEBOX_S3_BUCKET": "glovebox",
		"GLOVEBOX_S3_ACCESS_KEY": h.s3.AccessKey, "GLOVEBOX_S3_SECRET_KEY": h.s3.SecretKey, "GLOVEBOX_PODMAN_SOCKET": h.podman.Socket,
		"GLOVEBOX_AGENT": agent, "GLOVEBOX_INSTANCE": job.NewID("i"), "GLOVEBOX_CONCURRENCY": "1", "GLOVEBOX_WARM": "0",
	}
	h.podman.RemoveAfter(t, h.env["GLOVEBOX_INSTANCE"])
	return h
}

// started is a worker that was started.
type started struct {
	t     *testing.T
	said  gbtest.Buffer
	stop  context.CancelFunc
	ended chan int
}

// start starts a worker with the host's settings except for these.
func (h *host) start(but map[string]string) *started {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	w := &started{t: h.t, stop: stop, ended: make(chan int, 1)}
	getenv := func(name string) string {
		if v, ok := but[name]; ok {
			return v
		}
		return h.env[name]
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- run(ctx, nil, getenv, io.Discard, io.MultiWriter(&w.said, h.t.Output()))
	}()
	h.t.Cleanup(func() { stop(); <-done })
	return w
}

func (w *started) says(words string) {
	w.t.Helper()
	for deadline := time.Now().Add(gbtest.Patience); !strings.Contains(w.said.String(), words); time.Sleep(10 * time.Millisecond) {
		select {
		case status := <-w.ended:
			w.t.Fatalf("it ended with status %d before it said %q", status, words)
		default:
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("it did not say %q within %s", words, gbtest.Patience)
		}
	}
}

func (w *started) ends(status int) {
	w.t.Helper()
	select {
	case got := <-w.ended:
		if got != status {
			w.t.Errorf("it ended with status %d, want %d", got, status)
		}
	case <-time.After(gbtest.Patience):
		w.t.Errorf("it did not end within %s", gbtest.Patience)
	}
}

// TestWaitsForWhatIsAway: a worker that starts while everything is away takes jobs once
// all of it is there, and ends well when it is told to as it waits.
func TestWaitsForWhatIsAway(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.redis.Kill()
	h.s3.Kill()
	h.podman.Kill()
	w := h.start(nil)
	for _, need := range []struct {
		what    string
		process *gbtest.Process
	}{{"Redis", h.redis.Process}, {"the bucket", h.s3.Process}, {"Podman", h.podman.Process}} {
		w.says(`msg="waiting for ` + need.what + `"`)
		told := h.start(nil)
		told.says(`msg="waiting for ` + need.what + `"`)
		told.stop()
		told.ends(0)
		need.process.Restart()
		w.says("there is " + need.what + " now")
	}
	w.says("worker takes jobs")
	w.stop()
	w.ends(0)
}

// TestEndsForWrongSettings: what only a changed setting mends is not waited for.
func TestEndsForWrongSettings(t *testing.T) {
	t.Parallel()
	h, cluster := newHost(t), gbtest.StartRedisCluster(t)
	for name, c := range map[string]struct {
		but  map[string]string
		says string
	}{
		"no password":        {map[string]string{"GLOVEBOX_REDIS_URL": "redis://" + h.redis.Addr + "/0"}, "NOAUTH"},
		"a wrong password":   {map[string]string{"GLOVEBOX_REDIS_URL": "redis://:wrong@" + h.redis.Addr + "/0"}, "WRONGPASS"},
		"no such database":   {map[string]string{"GLOVEBOX_REDIS_URL": strings.Replace(h.redis.URL(), "/0?", "/99?", 1)}, "out of range"},
		"a Redis Cluster":    {map[string]string{"GLOVEBOX_REDIS_URL": cluster.Nodes[1].Worker()}, "Redis Cluster is not supported"},
		"no such bucket":     {map[string]string{"GLOVEBOX_S3_BUCKET": "another"}, "StatusCode: 404"},
		"a wrong secret key": {map[string]string{"GLOVEBOX_S3_SECRET_KEY": "wrong"}, "StatusCode: 403"},
		"a relative socket":  {map[string]string{"GLOVEBOX_PODMAN_SOCKET": "podman.sock"}, "not absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := (&host{t: t, env: h.env}).start(c.but)
			w.ends(1)
			if said := w.said.String(); !strings.Contains(said, c.says) || !strings.Contains(said, "wrong settings") || strings.Contains(said, h.redis.Password) {
				t.Errorf("it said %s", said)
			}
		})
	}
}

// TestOutputsOnDisk: what is too long for memory is where a disk is, and where a disk is none the worker says so.
func TestOutputsOnDisk(t *testing.T) {
	var said gbtest.Buffer
	s := startup{log: slog.New(slog.NewTextHandler(&said, nil)), metrics: &workerMetrics{}}
	disk, err := os.MkdirTemp("/var/tmp", "outputs") //nolint:usetesting // what TMPDIR names may be memory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(disk) })
	t.Setenv("CACHE_DIRECTORY", "")
	t.Setenv("TMPDIR", "/dev/shm")
	if c := s.workerConfig(nil); c.SpoolDir != "/var/tmp" || c.CacheDir != c.SpoolDir {
		t.Errorf("outputs are in %q, and the cache in %q, want both in /var/tmp", c.SpoolDir, c.CacheDir)
	}
	for _, c := range []struct{ dir, says string }{{disk, ""}, {"/dev/shm", "is to be on a disk"}, {disk + "/none", "no place for long outputs"}} {
		t.Setenv("CACHE_DIRECTORY", c.dir)
		if got := s.workerConfig(nil).SpoolDir; got != c.dir {
			t.Errorf("outputs are in %q, want %s", got, c.dir)
		}
		before := len(said.String())
		s.lookAtDisk()
		if got := said.String()[before:]; !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s: it said %q, want %q", c.dir, got, c.says)
		}
	}
}

// What can't be meant so is refused before anything is asked for.
func TestEndsForMalformedURL(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	w := h.start(map[string]string{"GLOVEBOX_REDIS_URL": "user:hush@localhost:6379"})
	w.ends(2)
	if said := w.said.String(); !strings.Contains(said, "GLOVEBOX_REDIS_URL is no URL of a Redis: want redis://") || strings.Contains(said, "hush") {
		t.Errorf("it said %s", said)
	}
}
