package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// Config says how to run programs.
type Config struct {
	// Agent is the path of the static glovebox-agent. Required.
	Agent string
	// Log receives what is handled here: agents that write to stderr. Defaults to discarding.
	Log *slog.Logger
	// StartTimeout bounds the time to the agent's first word, and for each piece of a program that it is to read. Defaults to 1 minute.
	StartTimeout time.Duration
}

// Sandboxes runs programs, each in namespaces of its own. It may be used by many goroutines at once, and has nothing to close: a
// sandbox is gone when its Run returns.
type Sandboxes struct {
	config Config
	kernel string // the host's, as its /proc/version says
}

// Open starts one sandbox to see whether the kernel gives it. If not, it fails with [sandbox.ErrUnavailable] and await.ErrSettings.
func Open(ctx context.Context, c Config) (*Sandboxes, error) {
	if !filepath.IsAbs(c.Agent) {
		return nil, fmt.Errorf("open sandbox: %w: Agent %q is not absolute", await.ErrSettings, c.Agent)
	}
	if os.Geteuid() == 0 {
		return nil, fmt.Errorf("open sandbox: %w: programs must not run as root", await.ErrSettings)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	version, err := os.ReadFile("/proc/version")
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", err)
	}
	s := &Sandboxes{config: c, kernel: agentwire.Printable(strings.TrimSpace(string(version)), 256)} // as an agent reports it
	if err := s.try(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w: this host's kernel gives no process sandbox, and there is no way to run with less: %w", await.ErrSettings, sandbox.ErrUnavailable, err)
	}
	return s, nil
}

// try starts a sandbox, and ends it.
func (s *Sandboxes) try(ctx context.Context) error {
	i, err := s.start(time.Now(), job.Limits{}.Filled(job.Limits{}))
	if err != nil {
		return err
	}
	defer i.close()
	return i.awaitReady(ctx, s.config.StartTimeout)
}

// Image is for the worker, whose runtimes have none here.
func (s *Sandboxes) Image(_ context.Context, name string) (digest string, err error) {
	if name != "" {
		return "", fmt.Errorf("%w: %s: the isolation process has no images", sandbox.ErrImageRefused, name)
	}
	return "", nil
}

// Reap has nothing to remove: sandboxes end with their worker.
func (s *Sandboxes) Reap(context.Context, func(worker string) bool) (int, error) { return 0, nil }

// WarmOf is 0: a sandbox starts in milliseconds.
func (s *Sandboxes) WarmOf(string) int { return 0 }

// PreloadedOf is 0, as WarmOf.
func (s *Sandboxes) PreloadedOf(string) int { return 0 }

// Ping fails if the agent is gone.
func (s *Sandboxes) Ping(context.Context) error {
	if _, err := os.Stat(s.config.Agent); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}
