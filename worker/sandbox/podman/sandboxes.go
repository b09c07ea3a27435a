package podman

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

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
	// PauseDir is a directory on a disk, for sessions that are paused. Defaults to os.TempDir().
	PauseDir string
	// PauseBytes is what these may take of it together. Defaults to 0: none is paused.
	PauseBytes int64
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
	if c.PauseDir == "" {
		c.PauseDir = os.TempDir()
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
	config  Config
	service *service
	pipes   *pipeServer
	reaper  *orphanReaper
	pool    *pool // nil until KeepWarm
	// cgroupParent has the sandboxes' cgroups; "" until SelfTest has proven them.
	cgroupParent string
	programs     atomic.Int64              // how many are being run
	lastEnd      atomic.Pointer[time.Time] // when the last one ended; nil before
	pauses       diskBudget

	mu     sync.Mutex
	active map[string]bool // names of containers in use here, the idle ones included
	idle   []idleContainer // the oldest first
	closed bool
	// background is what a Run leaves behind and does not wait for: removals above all.
	background sync.WaitGroup
	// removals ends with giveUp, and with it removals that still go on.
	removals context.Context //nolint:containedctx // they outlive every Run, and its context
	giveUp   context.CancelFunc
}

const (
	// closePingInterval is how often Close, while removals go on, asks whether the service
	// is there at all, and closePingTimeout how long that may take to answer.
	closePingInterval = 2 * time.Second
	closePingTimeout  = 4 * time.Second
)

// Open connects to the service. It fails with [sandbox.ErrUnavailable] if the service does not
// answer in time, is not rootless, or would use another OCI runtime than Glovebox's; the last two
// are await.ErrSettings, too.
func Open(ctx context.Context, config Config) (*Sandboxes, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, config.StartTimeout)
	defer cancel()
	service, err := connect(opening, config)
	if err != nil && opening.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: podman at %s did not answer within %s: is its service stuck? restart it (%w)", sandbox.ErrUnavailable, config.Socket, config.StartTimeout, err)
	}
	if err != nil {
		return nil, err
	}
	pipes, err := newPipeServer(config.Dir, config.Socket, config.Log)
	if err != nil {
		service.close()
		return nil, err
	}
	p := &Sandboxes{
		config: config, service: service, pipes: pipes, active: map[string]bool{},
		reaper: &orphanReaper{service: service, age: forgottenAge}, pauses: diskBudget{left: config.PauseBytes},
	}
	p.removals, p.giveUp = context.WithCancel(context.WithoutCancel(ctx))
	return p, nil
}

// Ping fails if the service does not answer.
func (p *Sandboxes) Ping(ctx context.Context) error { return p.service.ping(ctx) }

// OCIRuntime returns the OCI runtime's name and version, as the service tells it.
func (p *Sandboxes) OCIRuntime() string { return p.service.ociRuntime }

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
	p.service.close()
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
