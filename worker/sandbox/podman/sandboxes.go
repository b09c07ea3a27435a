package podman

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/sirupsen/logrus"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Config says which Podman service to use and how.
type Config struct {
	// Socket is the path of the rootless service's unix socket. Required.
	Socket string
	// Agent is the path, on the service's host, of the static glovebox-agent. Required.
	Agent string
	// Instance labels every container with the Glovebox installation it belongs to, so
	// that two can share a Podman user. Required.
	Instance string
	// Worker labels every container with the worker that made it. Required.
	Worker string
	// Dir is where the worker has a socket that Podman's user reaches. Defaults to
	// os.TempDir().
	Dir string
	// Log receives what is handled here: removals that fail, agents that write to stderr.
	// Defaults to discarding.
	Log *slog.Logger
	// StartTimeout bounds the time from the container's creation to the agent's first
	// word, and the time in which the service has to answer Open: it may have much to do,
	// or a busy disk. Defaults to 1 minute.
	StartTimeout time.Duration
	// Backstop is how long a container may live before Podman itself kills it, should
	// everything else have failed. It has to cover the upload of artifacts. Defaults to
	// 2 hours.
	Backstop time.Duration
}

func (c Config) withDefaults() (Config, error) {
	for name, value := range map[string]string{"Socket": c.Socket, "Agent": c.Agent, "Instance": c.Instance, "Worker": c.Worker} {
		if value == "" {
			return c, fmt.Errorf("open sandbox: %w: %s is missing", await.ErrSettings, name)
		}
	}
	for name, value := range map[string]string{"Socket": c.Socket, "Agent": c.Agent} {
		if !filepath.IsAbs(value) {
			return c, fmt.Errorf("open sandbox: %w: %s %q is not absolute", await.ErrSettings, name, value)
		}
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	if c.Backstop == 0 {
		c.Backstop = 2 * time.Hour
	}
	return c, nil
}

// Sandboxes runs programs, each in a sandbox of its own. It may be used by many goroutines at
// once.
type Sandboxes struct {
	config     Config
	conn       context.Context //nolint:containedctx // the bindings keep their connection in one
	http       *bindings.Connection
	ociRuntime string // its name and version
	ociPath    string
	graphRoot  string // of the service's store
	runRoot    string // of what it keeps while containers run
	// cgroupParent has the sandboxes' cgroups; "" until SelfTest has proven them.
	cgroupParent string
	images       imageCache
	pipes        *pipeServer
	pool         *pool                     // nil until KeepWarm
	programs     atomic.Int64              // how many are being run
	lastEnd      atomic.Pointer[time.Time] // when the last one ended; nil before
	noProcAccess atomic.Bool               // the worker can't read the /proc of sandboxes

	mu     sync.Mutex
	active map[string]bool // names of containers in use here, the spares' too
	idle   []idleContainer // the oldest first
	closed bool
	// Since when Podman knows nothing of a container, and how long that may be.
	reaping   sync.Mutex
	forgotten map[orphan]time.Time
	orphanAge time.Duration
	// background is what a Run leaves behind and does not wait for: removals above all.
	background sync.WaitGroup
	// removals ends with giveUp, and with it removals that still go on.
	removals context.Context //nolint:containedctx // they outlive every Run, and its context
	giveUp   context.CancelFunc
}

// ociRuntime is the file name of the OCI runtime that means gVisor, and ociNames are what Podman
// may call it. Anything else is refused, and so is bare runsc, which doesn't request the worker's
// pipes.
const ociRuntime = "glovebox-runtime"

var ociNames = map[string]bool{ociRuntime: true, "runsc": true}

const (
	// closePingInterval is how often Close, while removals go on, asks whether the service
	// is there at all, and closePingTimeout how long that may take to answer.
	closePingInterval = 2 * time.Second
	closePingTimeout  = 4 * time.Second
)

// Open connects to the service. It fails with [ErrUnavailable] when the service does not
// answer in time, is not rootless, or would use an OCI runtime other than ours; the latter
// two are await.ErrSettings, too.
func Open(ctx context.Context, config Config) (*Sandboxes, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	silence()
	opening, cancel := context.WithTimeout(ctx, config.StartTimeout)
	defer cancel()
	p, err := connect(opening, config)
	if err != nil && opening.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: podman at %s did not answer within %s: is its service stuck? restart it (%w)", sandbox.ErrUnavailable, config.Socket, config.StartTimeout, err)
	}
	return p, err
}

func connect(ctx context.Context, config Config) (*Sandboxes, error) {
	// The connection outlives ctx: the bindings take it from a context, but bind no
	// request to it that is made later with another.
	conn, err := bindings.NewConnection(ctx, "unix://"+config.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to podman: %w", sandbox.ErrUnavailable, err)
	}
	client, err := bindings.GetClient(conn)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to podman: %w", sandbox.ErrUnavailable, err)
	}
	if t, ok := client.Client.Transport.(*http.Transport); ok {
		t.MaxIdleConnsPerHost = 64 // with the default of 2, most requests would dial
	}
	p := &Sandboxes{
		config: config, conn: context.WithoutCancel(conn), http: client,
		active: map[string]bool{}, orphanAge: forgottenAge,
	}
	p.removals, p.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	err = p.checkService(ctx)
	if err == nil {
		p.pipes, err = newPipeServer(config.Dir, config.Socket, config.Log)
	}
	if err != nil {
		p.giveUp()
		client.Client.CloseIdleConnections()
		return nil, err
	}
	return p, nil
}

// silence turns off the logger that the bindings share, which warns of every program
// that exits before its stdin is closed.
var silence = sync.OnceFunc(func() {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.PanicLevel)
})

func (p *Sandboxes) checkService(ctx context.Context) error {
	info, err := system.Info(p.with(ctx), nil)
	if err != nil {
		return fmt.Errorf("%w: ask podman what it is: %w", sandbox.ErrUnavailable, err)
	}
	oci := info.Host.OCIRuntime
	if oci == nil {
		return fmt.Errorf("%w: %w: podman names no OCI runtime", sandbox.ErrUnavailable, await.ErrSettings)
	}
	if !ociNames[oci.Name] || filepath.Base(oci.Path) != ociRuntime {
		return fmt.Errorf("%w: %w: podman's OCI runtime is %q (%s), it has to be %s: "+
			"start the service with CONTAINERS_CONF of infra/podman", sandbox.ErrUnavailable, await.ErrSettings, oci.Name, oci.Path, ociRuntime)
	}
	if !info.Host.Security.Rootless {
		return fmt.Errorf("%w: %w: podman runs as root; it has to be rootless", sandbox.ErrUnavailable, await.ErrSettings)
	}
	p.ociPath = oci.Path
	if info.Store != nil {
		p.graphRoot, p.runRoot = info.Store.GraphRoot, info.Store.RunRoot
	}
	p.ociRuntime = firstLine(oci.Version)
	if p.ociRuntime == "" {
		p.ociRuntime = oci.Name
	}
	return nil
}

// Ping reports whether the service answers.
func (p *Sandboxes) Ping(ctx context.Context) error {
	response, err := p.http.DoRequest(p.with(ctx), nil, http.MethodGet, "/_ping", nil, nil)
	if err != nil {
		return fmt.Errorf("%w: ping podman: %w", sandbox.ErrUnavailable, err)
	}
	defer response.Body.Close()
	if !response.IsSuccess() {
		return fmt.Errorf("%w: ping podman: %s", sandbox.ErrUnavailable, response.Status)
	}
	return nil
}

// OCIRuntime is the OCI runtime's name and version, as the service tells it.
func (p *Sandboxes) OCIRuntime() string { return p.ociRuntime }

// Close waits until every container that was used is removed. While Podman is away it waits for
// some 6 s only: systemd starts a Podman that crashed after its worker has ended, and the next
// worker's Reap removes the containers. No Run may be under way, or start after it.
func (p *Sandboxes) Close() {
	if p.pool != nil {
		p.pool.stop()
		<-p.pool.done
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.dropIdle(func(idleContainer) bool { return true })
	removed := make(chan struct{})
	go func() { p.background.Wait(); close(removed) }()
	for waiting := true; waiting; {
		select {
		case <-removed:
			waiting = false
		case <-time.After(closePingInterval):
			p.giveUpUnlessAnswered()
		}
	}
	p.giveUp()
	p.pipes.close()
	p.http.Client.CloseIdleConnections()
}

// giveUpUnlessAnswered ends the removals that go on, unless Podman answers and is only slow.
func (p *Sandboxes) giveUpUnlessAnswered() {
	ctx, cancel := context.WithTimeout(p.removals, closePingTimeout)
	defer cancel()
	if err := p.Ping(ctx); err != nil && p.removals.Err() == nil {
		p.config.Log.Warn("containers are left to the next worker's reaper", "error", err)
		p.giveUp()
	}
}

// with returns ctx with the connection, which the bindings look for in the context.
func (p *Sandboxes) with(ctx context.Context) context.Context {
	return connected{Context: ctx, conn: p.conn}
}

type connected struct {
	context.Context                 //nolint:containedctx // it is a context
	conn            context.Context //nolint:containedctx // and looks into another
}

func (c connected) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.conn.Value(key)
}
