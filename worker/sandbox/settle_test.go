package sandbox_test

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
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestServiceDiesWithASandbox: the Podman service is killed when runsc has made the
// sandbox and Podman has not noted it. Nothing of it may stay.
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
	deadly, pid := filepath.Join(dir, "glovebox-runtime"), filepath.Join(dir, "pid")
	script := fmt.Sprintf("#!/bin/sh\n%s \"$@\"; status=$?\ncase \" $* \" in *\" create \"*) kill -9 -$(cat %s);; esac\nexit $status\n", ours, pid)
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
	p, err := sandbox.Open(t.Context(), sandbox.Config{
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
	found := strays(t, deadly)
	if len(found) == 0 {
		t.Fatalf("the service was killed too early: there is no sandbox to forget (%v)", err)
	}
	service.Setenv("CONTAINERS_CONF", conf)
	service.Restart()
	p.Close() // waits until the container is gone
	for deadline := time.Now().Add(10 * time.Second); len(found) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		found = strays(t, deadly)
	}
	if len(found) > 0 {
		t.Errorf("left: %q", found)
	}
}

// strays lists the processes of conmon that work with this OCI runtime.
func strays(t *testing.T, runtime string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("conmon\x00")) && bytes.Contains(b, []byte(runtime)) {
			found = append(found, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}
