package podman_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestLostWorkerHelper is no test: it is the worker that TestLostWorker kills.
func TestLostWorkerHelper(t *testing.T) {
	socket := os.Getenv("GLOVEBOX_TEST_LOST_SOCKET")
	if socket == "" {
		t.Skip("only for TestLostWorker")
	}
	suite.socket = socket
	instance = os.Getenv("GLOVEBOX_TEST_LOST_INSTANCE")
	p := program("print('on', flush=True); import time; time.sleep(300)", limits(job.Limits{WallMS: 300_000}))
	p.Image = os.Getenv("GLOVEBOX_TEST_LOST_IMAGE")
	p.JobID = "lost"
	_, err := openAs(t, "lost-worker").Run(t.Context(), p, &printSink{})
	t.Fatal("the worker was not killed:", err)
}

type printSink struct{ kept }

func (*printSink) Stdout(p []byte) error { fmt.Printf("%s", p); return nil }
func (*printSink) Stderr([]byte) error   { return nil }

// TestLostWorker: kill -9 of a worker ends its sandbox by itself, and the next Reap
// removes what is left of it, and nothing of a living worker.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	open(t)
	// Of its own: Reap takes what is of workers that are not alive, as other tests' are not.
	lost := instance + "-lost"
	p, err := podman.Open(t.Context(), podman.Config{Socket: suite.socket, Agent: agentPath(), Instance: lost, Worker: "reaper"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	helper := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLostWorkerHelper$", "-test.v")
	helper.Env = append(os.Environ(), "GLOVEBOX_TEST_LOST_SOCKET="+suite.socket, "GLOVEBOX_TEST_LOST_INSTANCE="+lost, "GLOVEBOX_TEST_LOST_IMAGE="+suite.image)
	helper.Stderr = os.Stderr
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasSuffix(lines.Text(), "on") {
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := helper.Wait(); err == nil {
		t.Error("the killed worker ended well")
	}

	state := func() string {
		return podmanLists(t, "ps", "-a", "--filter", "label=run.glovebox.job=lost", "--filter", "label=run.glovebox.instance="+lost, "--format", "{{.State}}")
	}
	began := time.Now()
	for state() == "running" {
		if time.Since(began) > gbtest.AtOnce {
			t.Fatal("the sandbox outlives its worker")
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("the sandbox ended %v after its worker", time.Since(began))

	if _, err := p.Reap(t.Context(), func(worker string) bool { return worker == "lost-worker" }); err != nil {
		t.Fatal(err)
	}
	if state() == "" {
		t.Fatal("Reap removed the container of a worker that is alive")
	}
	n, err := p.Reap(t.Context(), func(string) bool { return false })
	if err != nil || n != 1 {
		t.Errorf("got %d, %v, want 1", n, err)
	}
	if s := state(); s != "" {
		t.Errorf("after Reap there is still a container: %s", s)
	}
}

// TestLostSandbox: a sandbox that is killed from outside is an error, not a result.
func TestLostSandbox(t *testing.T) {
	t.Parallel()
	p := open(t)
	prog := program("print('on', flush=True); import time; time.sleep(100)", limits(job.Limits{WallMS: 100_000}))
	prog.Image, prog.JobID = suite.image, "lost-sandbox"
	sink := &signalSink{on: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		_, err := p.Run(t.Context(), prog, sink)
		done <- err
	}()
	<-sink.on
	id, err := podmanCLI("ps", "-q", "--filter", "label=run.glovebox.job=lost-sandbox", "--filter", "label=run.glovebox.instance="+instance)
	if err != nil || id == "" {
		t.Fatal(id, err)
	}
	if _, err := podmanCLI("kill", id); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err == nil {
			t.Error("a sandbox that was killed gave a result")
		}
	case <-time.After(gbtest.Patience):
		t.Error("Run did not notice that its sandbox is gone")
	}
}

// TestFailsClosed: a service with another OCI runtime is refused.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "podman")
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	conf := filepath.Join(dir, "containers.conf")
	if err := os.WriteFile(conf, []byte("[engine]\nruntime = \"crun\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "podman.sock")
	cmd := exec.CommandContext(t.Context(), "podman", "system", "service", "-t", "0", "unix://"+socket)
	cmd.Env = append(append(os.Environ(), podmanEnv()...), "CONTAINERS_CONF="+conf)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// t.Context ends before the clean-ups, and the service with it.
	t.Cleanup(func() {
		if err := cmd.Wait(); err == nil {
			t.Error("the killed service ended well")
		}
	})
	config := podman.Config{Socket: socket, Agent: "/agent", Instance: "i", Worker: "w"}
	gbtest.Eventually(t, "podman's service listens", func() bool { return listens(t.Context(), socket) })
	p, err := podman.Open(t.Context(), config)
	if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "crun") {
		t.Errorf("got %v, %v, want ErrUnavailable that names crun", p, err)
	}
}

func TestOpenWithoutService(t *testing.T) {
	t.Parallel()
	_, err := podman.Open(context.Background(), podman.Config{Socket: "/nowhere/podman.sock", Agent: "/agent", Instance: "i", Worker: "w"})
	if !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, err := podman.Open(context.Background(), podman.Config{}); err == nil {
		t.Error("an empty Config is accepted")
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	p := open(t)
	if err := p.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	digest, err := p.Image(t.Context(), suite.image)
	if err != nil || !strings.HasPrefix(digest, "sha256:") || len(digest) != 71 {
		t.Errorf("got %q, %v, want a digest", digest, err)
	}
}
