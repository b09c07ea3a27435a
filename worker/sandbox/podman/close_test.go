package podman_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// unserved is what systemd's socket is while Podman is being started again: whoever
// connects waits.
func unserved(t *testing.T, socket string) net.Listener {
	t.Helper()
	if err := os.RemoveAll(socket); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestCloseWithoutPodman: systemd starts a Podman that died when its worker has ended, so
// that doesn't wait for removals that nobody serves. The next worker's reaper makes them.
func TestCloseWithoutPodman(t *testing.T) {
	t.Parallel()
	open(t)
	service := gbtest.Podman(t)
	config := podman.Config{Socket: service.Socket, Agent: agentPath(), Instance: "close-" + rand.Text(), Worker: "first"}
	p, err := podman.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	prog := bash("echo on; sleep 100", limits(job.Limits{WallMS: 100_000}))
	prog.Image = suite.image
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := &signalSink{on: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := p.Run(ctx, prog, sink)
		done <- err
	}()
	select {
	case <-sink.on:
	case err := <-done:
		t.Fatalf("the program ended: %v", err)
	}
	service.Kill()
	hanging := unserved(t, service.Socket)
	cancel()
	if err := <-done; err == nil {
		t.Error("a run whose Podman died gave a result")
	}

	began := time.Now()
	p.Close()
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("Close took %s, want some 6 s", took)
	} else {
		t.Logf("Close took %s", took)
	}

	hanging.Close()
	service.Restart()
	config.Worker = "next"
	next, err := podman.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if n, err := next.Reap(t.Context(), func(worker string) bool { return worker == "next" }); n != 1 || err != nil {
		t.Errorf("the next worker's reaper removed %d containers, %v, want 1", n, err)
	}
}

func TestOpenWhilePodmanHangs(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := podman.Config{Socket: filepath.Join(dir, "podman.sock"), Agent: "/agent", Instance: "i", Worker: "w", StartTimeout: time.Second}
	unserved(t, config.Socket)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = podman.Open(ctx, config)
	if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), config.Socket+" did not answer within 1s") {
		t.Errorf("got %v, want ErrUnavailable that says how long it waited for whom", err)
	}
}
