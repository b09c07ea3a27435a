package podman_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestServiceDiesWithASandbox: the Podman service is killed when runsc has made the
// sandbox and Podman has not noted it. Nothing of it may stay. (Its conmon ends at once where
// the service is gone before it could be told, which kills the sandbox, or else goes on.)
func TestServiceDiesWithASandbox(t *testing.T) {
	t.Parallel()
	open(t)
	dir := t.TempDir()
	ours, err := gbtest.Tool("glovebox-runtime")
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(gbtest.ToolsDir, "podman/containers.conf")
	usual, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	deadly, pid, made := filepath.Join(dir, "glovebox-runtime"), filepath.Join(dir, "pid"), filepath.Join(dir, "made")
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\"; status=$?\ncase \" $* \" in *\" create \"*) [ $status != 0 ] || echo $* >%s; kill -9 -$(cat %s);; esac\nexit $status\n", ours, made, pid)
	for name, content := range map[string]string{deadly: script, filepath.Join(dir, "containers.conf"): strings.ReplaceAll(string(usual), ours, deadly)} {
		syscall.ForkLock.RLock() // or a child of another test holds the script open, and nobody can execute it
		err := os.WriteFile(name, []byte(content), 0o700)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}

	service := gbtest.Podman(t)
	service.Kill()
	service.Setenv("CONTAINERS_CONF", filepath.Join(dir, "containers.conf"))
	service.Restart()
	if err := os.WriteFile(pid, fmt.Appendf(nil, "%d", service.PID()), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := podman.Open(t.Context(), podman.Config{
		Socket: service.Socket, Agent: agentPath(), Instance: instance + "-settle", Worker: "w",
	})
	if err != nil {
		t.Fatal(err)
	}
	program := bash("echo hello")
	program.Image = suite.image
	o, err := p.Run(t.Context(), program, &kept{})
	if err == nil {
		t.Fatalf("got %+v, want an error: the service was killed", o)
	}
	<-service.Done()
	b, err := os.ReadFile(made)
	if err != nil {
		t.Fatalf("there is no sandbox to forget: %v", err)
	}
	words := strings.Fields(string(b))
	id := words[len(words)-1]
	service.Setenv("CONTAINERS_CONF", conf)
	service.Restart()
	p.Close() // waits until the container is gone
	left := processesOf(t, id)
	for deadline := time.Now().Add(gbtest.Patience); len(left) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		left = processesOf(t, id)
	}
	for _, process := range left {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.Pid))
		t.Errorf("left: %q, %v", bytes.ReplaceAll(b, []byte{0}, []byte{' '}), err)
	}
	gbtest.Eventually(t, "runsc keeps nothing of it", func() bool {
		states, err := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "runsc", "*"+id+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(states) == 0
	})
}
