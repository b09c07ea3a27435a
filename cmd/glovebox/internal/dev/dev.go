package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/supervise"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/shell"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// defaultUser is whom infra/setup.sh adds.
const defaultUser = "glovebox"

// startTimeout is how long the programs may take to get ready.
const startTimeout = 60 * time.Second

// Config says what to run, and where.
type Config struct {
	// Dir is the data directory. It has no default.
	Dir string
	// Addr is where the API listens, host:port. Port 0 takes a free one.
	Addr string
	// Isolation is what programs are isolated by. Defaults to gVisor; with job.Process there is no Podman.
	Isolation job.Isolation
	// PodmanUser runs Podman and the worker where we are root. Defaults to "glovebox".
	PodmanUser string
	// RuntimeDir is our XDG_RUNTIME_DIR, for where we are not root. Defaults to
	// /run/user/<uid>.
	RuntimeDir string
	// Bin is where glovebox-worker and glovebox-agent lie.
	Bin string
	// Command is how the user called this program, for the hints at what to do next.
	// Defaults to "glovebox".
	Command string
	// Grace is how long jobs and deliveries may go on after Ctrl-C; then jobs go back to
	// the queue. Defaults to 3 s.
	Grace time.Duration
	// Extra is added to the environment of the api and the worker, as NAME=value.
	Extra []string
	// Runtimes are those that can be had, of which First are built before anything starts, and each other one by Build when
	// a job first asks for it. Built says which images there are. Without Build, nothing is built.
	Runtimes runtimes.Set
	First    []string
	Build    BuildFunc
	Built    func(context.Context) (map[string]bool, error)
	// Out is told what runs where, and what happens that is important.
	Out io.Writer
}

// stack is one run of everything.
type stack struct {
	Config
	began    time.Time
	data     *data
	user     podmanUser
	tools    tools
	programs staged
	// socketDir is for our sockets, podmanDir for those of the Podman user.
	socketDir, podmanDir string
	s3Addr               string            // ours, which leads to the S3 server's socket
	listener             *os.File          // the API's, which api inherits
	metrics              map[string]socket // of api and worker
	url, localURL        string
	exposed              bool // other machines may reach the API

	mu      sync.Mutex // guards what follows, and Out
	logs    map[string]*logFile
	running []*supervise.Process // in the order of their start
	closers []func() error
}

// Run starts everything, says so, and ends it when ctx ends: the api takes no more, the
// worker drains, then Podman, S3 and Redis go. What was accepted is kept.
func Run(ctx context.Context, c Config) (err error) {
	if c.PodmanUser == "" {
		c.PodmanUser = defaultUser
	}
	if c.Grace == 0 {
		c.Grace = 3 * time.Second
	}
	if c.Command == "" {
		c.Command = "glovebox"
	}
	s := &stack{Config: c, began: time.Now(), logs: map[string]*logFile{}}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	defer s.stop()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // Ctrl-C while it started
		}
		return err
	}
	hooks, err := s.webhookSecrets(ctx)
	if err != nil {
		return err
	}
	if err := s.data.writeEnv(s.localURL, s.user.name, s.Isolation, hooks); err != nil {
		return err
	}
	unbuild, err := s.buildWhenAsked(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, unbuild()) }()
	if err := s.welcome(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	s.say("\nStopping (Ctrl-C again kills at once)…\n")
	return nil
}

// prepare does all that can fail before a program is started.
func (s *stack) prepare(ctx context.Context) (err error) {
	if s.tools, err = findTools(s.Bin, s.withPodman()); err != nil {
		return err
	}
	if s.user, err = s.findUser(); err != nil {
		return err
	}
	if s.data, err = openData(ctx, s.Dir); err != nil {
		return err
	}
	s.later(s.data.close)
	if s.socketDir, s.podmanDir, err = s.user.socketDir(s.data.secrets[instance]); err != nil {
		return err
	}
	s.later(func() error { return os.RemoveAll(s.socketDir) })
	if err := s.listen(ctx); err != nil {
		return err
	}
	if err := s.listenMetrics(ctx); err != nil {
		return err
	}
	if err := s.listenS3(ctx); err != nil {
		return err
	}
	s.programs = staged{worker: s.tools.worker, agent: s.tools.agent}
	if s.user.credential != nil {
		if s.programs, err = stage(s.tools, filepath.Join(ToolsDir, "staged")); err != nil {
			return err
		}
		s.later(s.programs.lock.Close)
	}
	return s.firstRuntimes(ctx)
}

// withPodman reports whether programs are run in gVisor.
func (s *stack) withPodman() bool { return s.Isolation.Or() == job.GVisor }

// listen opens the API's socket, so that a port that is taken is found out at once and
// nobody can take it while the api starts again.
func (s *stack) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("listen on %s: the port is taken; --api 127.0.0.1:0 takes a free one", s.Addr)
	}
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	defer l.Close()
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return fmt.Errorf("listen for the API: %s is no TCP address", s.Addr)
	}
	if s.listener, err = tcp.File(); err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	s.later(s.listener.Close)
	s.url, s.localURL, s.exposed = urls(l.Addr())
	return nil
}

// socket is one that a program inherits.
type socket struct {
	file *os.File
	addr string
}

// WorkerMetricsAddr is where the metrics of the worker are, unless somebody else is there.
const WorkerMetricsAddr = "127.0.0.1:8439"

// metricsAddr is the same of each.
var metricsAddr = map[string]string{"api": "127.0.0.1:8438", "worker": WorkerMetricsAddr}

// listenMetrics opens the sockets at which Prometheus may ask, on loopback only.
func (s *stack) listenMetrics(ctx context.Context) error {
	s.metrics = map[string]socket{}
	for name, addr := range metricsAddr {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			l, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
		}
		if err != nil {
			return fmt.Errorf("listen for metrics of the %s: %w", name, err)
		}
		file, err := l.(*net.TCPListener).File()
		addr = l.Addr().String()
		l.Close()
		if err != nil {
			return fmt.Errorf("listen for metrics of the %s: %w", name, err)
		}
		s.later(file.Close)
		s.metrics[name] = socket{file, addr}
	}
	return nil
}

// start starts the stores and Podman side by side, then what needs them.
func (s *stack) start(ctx context.Context) error {
	s.say("Starting Glovebox in %s\n\n", s.data.dir)
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	redis, err := s.redis()
	if err != nil {
		return err
	}
	stores, storesCtx := errgroup.WithContext(ctx)
	stores.Go(func() error { return s.run(storesCtx, redis, "unix socket in "+s.socketDir) })
	stores.Go(func() error { return s.run(storesCtx, s.s3(), "http://"+s.s3Addr+", bucket "+bucket) })
	if s.withPodman() {
		stores.Go(func() error { return s.run(storesCtx, s.podman(), "rootless, as "+s.user.name) })
	}
	if err := stores.Wait(); err != nil {
		return err
	}
	servers, serversCtx := errgroup.WithContext(ctx)
	servers.Go(func() error { return s.run(serversCtx, s.api(), s.url+", with the deliverer of webhooks") })
	servers.Go(func() error { return s.run(serversCtx, s.worker(), "as "+s.user.name) })
	return servers.Wait()
}

// listenS3 opens the address of the S3 server. The server itself has a socket in a directory
// of ours: no other user of this machine can take its place, neither before it listens nor
// while it is started again.
func (s *stack) listenS3(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the S3 server: %w", err)
	}
	s.s3Addr = l.Addr().String()
	s.later(forward(l, s.s3Socket())) //nolint:contextcheck // it runs until close, after all that use it have ended
	return nil
}

// run starts one program and waits until it is ready.
func (s *stack) run(ctx context.Context, c supervise.Command, where string) error {
	began := time.Now()
	log, err := openLog(s.data.path("logs", c.Name+".log"), func(line string) {
		if text, ok := important(line); ok {
			s.say("  %-8s %s\n", c.Name, printable(text))
		}
	})
	if err != nil {
		return err
	}
	s.later(log.close)
	c.Output = log
	var ready atomic.Bool
	c.Restarted = func(why error) {
		if !ready.Load() {
			return // WaitReady says it, and that is the end
		}
		s.say("  %-8s died (%v) and is started again; see %s\n", c.Name, why, log.path)
	}
	p, err := supervise.Start(c) //nolint:contextcheck // it runs until stop, which has an order of its own
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.running = append(s.running, p)
	s.mu.Unlock()
	if err := p.WaitReady(ctx); err != nil {
		p.Stop()
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
			return err // another one failed, or Ctrl-C: that is the news
		}
		return fmt.Errorf("%w\nthe last lines of %s:\n%s", err, log.path, log.last())
	}
	ready.Store(true)
	s.say("  %-8s %s (%.1f s)\n", c.Name, where, time.Since(began).Seconds())
	return nil
}

// stop ends the programs in the reverse order of what needs what.
func (s *stack) stop() {
	s.mu.Lock()
	running := slices.Clone(s.running)
	s.mu.Unlock()
	for _, name := range []string{"api", "worker", "podman", "s3", "redis"} {
		for _, p := range running {
			if p.Name == name {
				p.Stop()
			}
		}
	}
	if len(running) > 0 {
		s.say("Stopped. What was accepted is in %s.\n", s.data.dir)
	}
}

// later has f called at the end, after everything has stopped.
func (s *stack) later(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closers = append(s.closers, f)
}

func (s *stack) close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// say prints, one at a time. Nobody is left to tell when that fails.
func (s *stack) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.Out, format, args...)
}

// welcome says how to use what runs now.
func (s *stack) welcome(ctx context.Context) error {
	list, err := s.published(ctx)
	if err != nil {
		return err
	}
	s.say("\nGlovebox is ready at %s, with %s.\n\n%s\n", s.url, languages(list), s.hints())
	if !s.withPodman() {
		s.say("PROGRAMS ARE ISOLATED BY PROCESSES ONLY, on this machine's own kernel: run code here that you trust.\nJobs have to accept that (\"isolation\": \"process\"); those of this command line do, as %s says.\n", s.data.path("env"))
	}
	if s.exposed {
		s.say("The API may be reached from other machines, without TLS; files can be downloaded on this one only.\n")
	}
	s.say("Ctrl-C stops everything. Logs are in %s; metrics at http://%s/metrics (api)\nand http://%s/metrics (worker).\n\n",
		s.data.path("logs"), s.metrics["api"].addr, s.metrics["worker"].addr)
	return nil
}

// hints are commands for the next terminal, to copy.
func (s *stack) hints() string {
	set := ""
	if here, err := filepath.Abs(".glovebox"); err != nil || here != s.data.dir {
		set = "  export GLOVEBOX_DATA=" + shell.Quote(s.data.dir) + "\n"
	}
	command := shell.Quote(s.Command)
	chart := "  echo 'import pylab; pylab.plot([3, 1, 4]); pylab.show()' | " + command + " submit -r python --out charts -\n"
	if !s.withPodman() { // the host's Python may have no pylab
		chart = ""
	}
	return "In another terminal, in this directory:\n\n" + set +
		"  echo 'print(6 * 7)' | " + command + " submit --runtime python --wait -\n" + chart +
		"  " + command + " help\n"
}

func languages(list []fleet.Runtime) string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.Name + " " + r.Version
	}
	return strings.Join(names, ", ")
}

// printable keeps what a child prints from moving the terminal's cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
