package podman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// warm opens Podman and keeps most sandboxes of the suite's image started, at least one when it
// returns. Its instance is its own: another test's Reap takes what is of workers that it doesn't
// know.
func warm(tb testing.TB, worker string, most int, log ...*slog.Logger) *podman.Sandboxes {
	tb.Helper()
	return keepWarm(tb, worker, most, nil, log...)
}

// fromSnapshots begins the names of workers whose sandboxes all go on from a snapshot, withSnapshots of those
// whose sandboxes do as a worker's own.
const fromSnapshots, withSnapshots = "snapshot-", "auto-"

func snapshotsOf(worker string) (some, only bool) {
	only = strings.HasPrefix(worker, fromSnapshots)
	return only || strings.HasPrefix(worker, withSnapshots), only
}

// canPause ends the names of workers whose sessions can be paused.
const canPause = "-paused"

func keepWarm(tb testing.TB, worker string, most int, preloads map[string]podman.Preload, log ...*slog.Logger) *podman.Sandboxes {
	tb.Helper()
	open(tb)
	log = append(log, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	config := podman.Config{
		Socket: suite.socket, Agent: agentPath(), Instance: instance + "-" + worker, Worker: worker, Log: log[0],
	}
	if strings.HasSuffix(worker, canPause) {
		config.PauseDir, config.PauseBytes = tb.TempDir(), 1<<30
	}
	p, err := podman.Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Close()
		if left := containersOf(tb, worker); len(left) > 0 {
			tb.Errorf("%v are left", left)
		}
	})
	if _, err := p.SelfTest(tb.Context(), suite.image); err != nil {
		tb.Fatal(err)
	}
	each := podman.IdleMB + preloads[suite.image].MemoryMB
	some, only := snapshotsOf(worker)
	p.KeepWarm(tb.Context(), podman.Warm{
		Images: map[string]job.Limits{
			suite.image: job.Limits{}.Filled(job.Limits{}), "localhost/glovebox/none:such": job.Limits{}.Filled(job.Limits{}), // which is in nobody's way
		},
		Preloads: preloads, MaxMemoryMB: 1024, Most: most, MemoryMB: int64(most)*each + podman.IdleMB, // and one of the other
		Snapshots: some, OnlySnapshots: only,
	})
	awaitWarm(tb, p, 1)
	return p
}

func awaitWarm(tb testing.TB, p *podman.Sandboxes, n int) {
	tb.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for p.WarmOf(suite.image) < n {
		if time.Now().After(deadline) {
			tb.Fatalf("%d warm sandboxes after five minutes, want %d", p.WarmOf(suite.image), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// containersOf lists the containers that the worker of warm has.
func containersOf(tb testing.TB, worker string) []string {
	tb.Helper()
	return strings.Fields(podmanLists(tb, "ps", "-a", "-q", "--filter", "label=run.glovebox.instance="+instance+"-"+worker))
}

// TestWarm: a warm sandbox is as good as a fresh one, is used once, and is replaced.
func TestWarm(t *testing.T) {
	t.Parallel()
	p := warm(t, "warm", 2)
	// What it leaves must be nowhere in the next.
	const source = `import os
print(sorted(os.listdir('/work')), os.path.exists('/tmp/left'), os.path.exists('/dev/shm/left'), os.getuid())
for dir in ('/tmp', '/dev/shm', '/work'):
    open(dir + '/left', 'w').write('x')
`
	for i := range 5 {
		sink := &kept{}
		o, err := p.Run(t.Context(), programOf(source), sink)
		if err != nil || o.Status != job.Succeeded {
			t.Fatalf("run %d: %+v, %v: %s", i, o, err, sink.stderr.String())
		}
		if want := "['main.py'] False False 1000\n"; sink.stdout.String() != want || sink.names() != "left" {
			t.Errorf("run %d: got %q and %s, want %q and its file", i, sink.stdout.String(), sink.names(), want)
		}
		if !o.Warm || o.Timing.Created != 0 || o.Startup <= 0 || o.ImageDigest == "" || o.LimitsEnforced == "" || !strings.Contains(o.Kernel, "gvisor") {
			t.Errorf("run %d: got %+v, want a warm one", i, o)
		}
		awaitWarm(t, p, 2) // in demand now
	}
}

// TestWarmLimits: what is given to a warm sandbox bounds it as it would a fresh one.
func TestWarmLimits(t *testing.T) {
	t.Parallel()
	p := warm(t, "warm-limits", 1)
	for name, c := range map[string]struct {
		source string
		limits job.Limits
		want   job.Status
	}{
		"memory":  {"b = bytearray(300 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('survived')", job.Limits{MemoryMB: 64}, job.OutOfMemory},
		"shm":     {"f = open('/dev/shm/x', 'wb')\nfor i in range(300): f.write(bytes(1 << 20))\nprint('survived')", job.Limits{MemoryMB: 64, FileMB: 1024}, job.OutOfMemory},
		"more":    {"b = bytearray(300 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1", job.Limits{MemoryMB: 512}, job.Succeeded},
		"time":    {"while True: pass", job.Limits{WallMS: 500}, job.TimedOut},
		"output":  {"while True: print('x' * 1000)", job.Limits{OutputKB: 16}, job.OutputLimitExceeded},
		"threads": {"import threading, time\nfor i in range(99): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()", job.Limits{Processes: 8}, job.Failed},
	} {
		awaitWarm(t, p, 1)
		sink := &kept{}
		program := program(c.source, limits(c.limits))
		program.Image = suite.image
		o, err := p.Run(t.Context(), program, sink)
		if err != nil || o.Status != c.want || !o.Warm {
			t.Errorf("%s: got %+v, %v: %.300s, want %s in a warm one", name, o, err, sink.stderr.String(), c.want)
		}
	}
}

// TestKeepMoreWarm: sandboxes of an image that has come later wait beside those of the others.
func TestKeepMoreWarm(t *testing.T) {
	t.Parallel()
	p := warm(t, "more-warm", 1)
	program := bashJob(t, "echo hello")
	if o, err := p.Run(t.Context(), program, &kept{}); err != nil || o.Warm {
		t.Errorf("got %+v, %v, want a fresh one", o, err)
	}
	limits := job.Limits{}.Filled(job.Limits{})
	w := podman.Warm{
		Images: map[string]job.Limits{suite.image: limits, program.Image: limits}, MaxMemoryMB: 1024, Most: 1, MemoryMB: 2 * podman.IdleMB,
	}
	p.KeepMoreWarm(w)
	gbtest.Eventually(t, "one of each waits", func() bool { return p.WarmOf(program.Image) == 1 && p.WarmOf(suite.image) == 1 })
	sink := &kept{}
	if o, err := p.Run(t.Context(), program, sink); err != nil || !o.Warm || sink.stdout.String() != "hello\n" {
		t.Errorf("got %+v, %v, %q, want a warm one", o, err, sink.stdout.String())
	}
}

// TestNotWarm: a program that asks for what a warm sandbox can't be gets a fresh one.
func TestNotWarm(t *testing.T) {
	t.Parallel()
	p := warm(t, "not-warm", 1)
	for name, change := range map[string]func(*sandbox.Program){
		"another disk":     func(p *sandbox.Program) { p.Limits.DiskMB++ },
		"more memory":      func(p *sandbox.Program) { p.Limits.MemoryMB = 1025 },
		"a fresh one":      func(p *sandbox.Program) { p.Fresh = true },
		"a longer time":    nil,
		"one that is left": nil,
	} {
		program := program("print('ok')")
		program.Image = suite.image
		ctx := t.Context()
		wantWarm := false
		switch {
		case change != nil:
			change(&program)
		case name == "a longer time":
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 2*time.Hour)
			defer cancel()
		default:
			wantWarm = true
		}
		awaitWarm(t, p, 1)
		sink := &kept{}
		o, err := p.Run(ctx, program, sink)
		if err != nil || o.Status != job.Succeeded || o.Warm != wantWarm {
			t.Errorf("%s: got %+v, %v, want warm: %v", name, o, err, wantWarm)
		}
	}
}

// programOf is a program in the suite's image.
func programOf(source string) sandbox.Program {
	p := program(source)
	p.Image = suite.image
	return p
}

// TestWarmDies: a sandbox that ends as it waits is replaced, and costs no program its run.
func TestWarmDies(t *testing.T) {
	t.Parallel()
	p := warm(t, "warm-dies", 1)
	for range 3 {
		awaitWarm(t, p, 1)
		killed := 0
		for _, id := range containersOf(t, "warm-dies") { // one that is being removed can't be
			if _, err := podmanCLI("kill", id); err == nil {
				killed++
			}
		}
		if killed == 0 {
			t.Fatal("no sandbox could be killed")
		}
		sink := &kept{}
		if o, err := p.Run(t.Context(), programOf("print('ok')"), sink); err != nil || o.Status != job.Succeeded || sink.stdout.String() != "ok\n" {
			t.Errorf("got %+v, %v, %q", o, err, sink.stdout.String())
		}
	}
	awaitWarm(t, p, 1)
	if o, err := p.Run(t.Context(), programOf("print('ok')"), &kept{}); err != nil || !o.Warm {
		t.Errorf("after all that: got %+v, %v, want a warm one", o, err)
	}
}

// TestWarmInput: an input that can't be read is no reason to read the others again.
func TestWarmInput(t *testing.T) {
	t.Parallel()
	p := warm(t, "warm-input", 1)
	opened := 0
	program := programOf("print('ok')")
	gone := errors.New("it is gone")
	for _, err := range []error{nil, gone} {
		program.Files = append(program.Files, sandbox.File{Name: fmt.Sprintf("input-%v", err), Size: 1, Open: func(context.Context) (io.ReadCloser, error) {
			opened++
			return io.NopCloser(strings.NewReader("x")), err
		}})
	}
	if o, err := p.Run(t.Context(), program, &kept{}); !errors.Is(err, gone) || opened != 2 {
		t.Errorf("got %+v, %v, and %d inputs opened, want %v after 2", o, err, opened, gone)
	}
}

// TestWarmEnds: as long as nobody wants more, there is one; nobody takes it away; and
// nothing is left of a pool whose worker ends.
func TestWarmEnds(t *testing.T) {
	t.Parallel()
	p := warm(t, "warm-ends", 3)
	if removed, err := p.Reap(t.Context(), func(string) bool { return true }); err != nil || removed != 0 {
		t.Errorf("Reap took %d, %v, want it to leave what waits", removed, err)
	}
	gbtest.Eventually(t, "there is one container", func() bool { return len(containersOf(t, "warm-ends")) == 1 })
}

// holding is a way to Podman that holds what is asked about one image once it is told to.
type holding struct {
	socket string
	holds  atomic.Bool
	held   chan struct{} // gets a value for each inspection that is held
}

func holdInspections(tb testing.TB, image string) *holding {
	tb.Helper()
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // a socket's path is short
	if err != nil {
		tb.Fatal(err)
	}
	h := &holding{socket: filepath.Join(dir, "podman.sock"), held: make(chan struct{}, 100)}
	l, err := new(net.ListenConfig).Listen(tb.Context(), "unix", h.socket)
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", suite.socket)
	}}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "podman"
	}}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, err := url.PathUnescape(r.URL.EscapedPath()); err == nil && h.holds.Load() && strings.HasSuffix(path, "/images/"+image+"/json") {
			h.held <- struct{}{}
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	tb.Cleanup(func() { srv.Close(); <-served; transport.CloseIdleConnections(); os.RemoveAll(dir) })
	return h
}

// TestInspectionThatHangs: Podman never says what one image is. Sandboxes of another are
// started all the same.
func TestInspectionThatHangs(t *testing.T) {
	t.Parallel()
	open(t)
	const worker = "inspection"
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := set.Lookup("bash")
	other := bash.Image()
	h := holdInspections(t, other)
	p, err := podman.Open(t.Context(), podman.Config{
		Socket: h.socket, Agent: agentPath(), Instance: instance + "-" + worker, Worker: worker, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if _, err := p.SelfTest(t.Context(), suite.image); err != nil {
		t.Fatal(err)
	}
	full := job.Limits{}.Filled(job.Limits{})
	p.KeepWarm(t.Context(), podman.Warm{Images: map[string]job.Limits{suite.image: full, other: full}, MaxMemoryMB: 1024, Most: 1, MemoryMB: 1000})
	awaitWarm(t, p, 1)
	gbtest.Eventually(t, "a sandbox of the other image is started", func() bool { return p.WarmOf(other) > 0 })
	h.holds.Store(true)
	select {
	case <-h.held:
	case <-time.After(gbtest.Patience):
		t.Fatal("the pool does not ask what the image is")
	}
	for range 2 {
		if o, err := p.Run(t.Context(), programOf("print(1)"), &kept{}); err != nil || o.Status != job.Succeeded || !o.Warm {
			t.Fatalf("got %+v, %v", o, err)
		}
		awaitWarm(t, p, 1)
	}
}
