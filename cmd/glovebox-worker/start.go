package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/pausedisk"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
	"github.com/glovebox-run/glovebox/worker/sandbox/process"
)

// bucketTimeout is how long the bucket may take to answer.
const bucketTimeout = 10 * time.Second

// startup gets, one after the other, everything that a worker needs.
type startup struct {
	config  config.Worker
	id      string
	set     runtimes.Set
	metrics *workerMetrics
	tracer  *tracing.Tracer
	log     *slog.Logger

	records   *record.Store
	objects   *artifacts.Store
	sandboxes worker.Sandboxes
	podman    *podman.Sandboxes // nil where programs are isolated by less than gVisor
	warm      warmth
}

// need is something that a worker waits for.
type need struct {
	what string
	get  func(context.Context) error
}

// sandboxNeeds are those for sandboxes. There is no way from one isolation to another.
func (s *startup) sandboxNeeds() []need {
	if s.config.Isolation == job.GVisor {
		return []need{{"Podman", s.reachPodman}, {"a sandbox", s.selfTest}, {"Podman", s.planWarm}}
	}
	return []need{{"a sandbox", s.openProcesses}}
}

// run waits for what the worker needs, one after the other, and runs it.
func (s *startup) run(ctx context.Context) error {
	s.lookAtDisk()
	c := s.config
	defer s.close()               //nolint:contextcheck // ctx has ended by then
	s.metrics.worker.Paused(true) // until it takes jobs
	for _, need := range append([]need{{"Redis", s.reachRedis}, {"the bucket", s.reachBucket}}, s.sandboxNeeds()...) {
		if err := await.Until(ctx, s.log, need.what, need.get); err != nil {
			return err
		}
	}
	var onRuntimes func(images []string)
	if c.Warm > 0 && s.podman != nil {
		s.podman.KeepWarm(ctx, s.warm.plan)
		onRuntimes = s.keepMoreWarm
	}
	s.observeSnapshots()
	w, err := worker.New(s.workerConfig(onRuntimes))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// workerConfig is what the worker has of the settings. Its spool's files have no names, so the cache's directory is good for both.
func (s *startup) workerConfig(onRuntimes func(images []string)) worker.Config {
	c := s.config
	return worker.Config{
		ID: s.id, Version: version.Read().Version, Records: s.records, Objects: s.objects, Sandboxes: s.sandboxes, Isolation: c.Isolation, Runtimes: s.set, Images: c.Images, Labels: c.Labels, Only: c.Only, Signer: c.Signer, Secrets: c.Secrets,
		Concurrency: c.Concurrency, MemoryMB: c.MemoryMB - s.warm.reserved, OnRuntimes: onRuntimes, Poll: c.Poll, Grace: c.Grace,
		SpoolDir: cacheDir(), CacheMB: c.CacheMB, CacheDir: cacheDir(), PauseAfter: c.PauseAfter, Metrics: s.metrics.worker, Tracer: s.tracer, Log: s.log,
	}
}

// cacheDir is a directory on a disk.
func cacheDir() string { return pausedisk.Dir(os.Getenv("CACHE_DIRECTORY")) }

// lookAtDisk makes sure that sessions can be paused, if they are to be, and says where what belongs on a disk is in memory.
func (s *startup) lookAtDisk() {
	switch memory, err := pausedisk.InMemory(cacheDir()); {
	case err != nil:
		s.log.Warn("there is no place for long outputs", "error", err)
	case memory:
		s.log.Warn("long outputs take memory that nobody has reserved: CACHE_DIRECTORY is to be on a disk", "dir", cacheDir())
	}
	if s.config.PauseMB == 0 {
		s.config.PauseAfter = 0
		return
	}
	err := errors.Join(pausedisk.Try(cacheDir()), pausedisk.Room(cacheDir(), s.config.PauseMB<<20))
	switch {
	case errors.Is(err, pausedisk.ErrUseless):
		s.log.Warn("no session is paused", "error", err)
		s.config.PauseMB, s.config.PauseAfter = 0, 0
	case err != nil:
		s.log.Warn("the disk has little room for paused sessions: some may stay in memory", "error", err)
	}
}

func (s *startup) close() {
	if s.podman != nil {
		s.podman.Close()
	}
	if s.objects != nil {
		s.objects.Close()
	}
	if s.records != nil {
		s.records.Close()
	}
}

func (s *startup) reachRedis(ctx context.Context) (err error) {
	c := s.config.Redis
	c.Log, c.Observer, c.Prices = s.log, s.metrics.records, s.config.Prices
	if s.records, err = record.Open(ctx, c); err != nil {
		return err
	}
	s.records.Redis().AddHook(s.metrics.redis)
	return nil
}

func (s *startup) reachBucket(ctx context.Context) (err error) {
	if s.objects == nil {
		c := s.config.S3
		c.Observe = s.metrics.s3.Observe
		if s.objects, err = artifacts.Open(ctx, c); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return s.objects.Ping(ctx)
}

func (s *startup) reachPodman(ctx context.Context) (err error) {
	dir, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // systemd.exec(5): /tmp is the worker's own there
	s.podman, err = podman.Open(ctx, podman.Config{
		Socket: s.config.PodmanSocket, Agent: s.config.Agent, Instance: s.config.Instance, Worker: s.id, Log: s.log, Dir: dir,
		PauseDir: cacheDir(), PauseBytes: s.config.PauseMB << 20,
	})
	s.sandboxes = s.podman
	return err
}

// openProcesses opens sandboxes of the isolation process, and finds out which runtimes this host has for them.
func (s *startup) openProcesses(ctx context.Context) error {
	if s.config.RequireCgroups {
		return fmt.Errorf("%w: limits are soft where programs are isolated by %s, and %s forbids that", await.ErrSettings, job.Process, requireCgroups)
	}
	sandboxes, err := process.Open(ctx, process.Config{Agent: s.config.Agent, Log: s.log})
	if err != nil {
		return err
	}
	s.log.Warn("PROGRAMS RUN ON THIS HOST'S KERNEL, isolated by processes: for code that is trusted. Only jobs that accept it come here; limits are soft", "isolation", job.Process)
	s.sandboxes, s.set = sandboxes, sandboxes.Runtimes(ctx, s.set)
	return nil
}

// selfTest runs a sandbox of the first image that is in Podman's store.
func (s *startup) selfTest(ctx context.Context) error {
	image := ""
	for _, i := range append(s.set.Images(), s.config.Images...) {
		there, err := s.hasImage(ctx, i)
		if err != nil {
			return err
		}
		if there {
			image = i
			break
		}
	}
	if image == "" {
		return fmt.Errorf("%w: no runtime's image, and none of GLOVEBOX_IMAGES, is in Podman's store, so no job could run: build them with `glovebox runtimes build`", await.ErrSettings)
	}
	found, err := s.podman.SelfTest(ctx, image)
	switch {
	case err != nil:
		return err
	case found.Hard:
		s.log.Info("limits are hard: the kernel enforces those of the self-test's sandbox, also after they were changed")
	case s.config.RequireCgroups:
		return fmt.Errorf("%w: limits are soft, and %s forbids that: %s", await.ErrSettings, requireCgroups, found.Reason)
	default:
		s.log.Warn("limits are soft: the agent and the worker watch each sandbox", "reason", found.Reason)
	}
	return nil
}

// hasImage reports whether an image is in Podman's store and can be run. It fails if Podman
// doesn't say.
func (s *startup) hasImage(ctx context.Context, image string) (bool, error) {
	_, err := s.sandboxes.Image(ctx, image)
	if errors.Is(err, sandbox.ErrNoImage) || errors.Is(err, sandbox.ErrImageRefused) {
		return false, nil
	}
	return err == nil, err
}
