package podman_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/runtimes"
)

// instance keeps the suite's containers apart from those of a Glovebox that runs on
// the same machine.
var instance = "test-" + rand.Text()

// podmanService is the suite's own; a test's process would end with that test.
var podmanService *exec.Cmd

// serviceSays is what it complains about: shown when a test has failed, because every
// sandbox that is destroyed gives it reason to.
var serviceSays bytes.Buffer

func TestMain(m *testing.M) {
	gbtest.ManyWait(0)
	if _, err := exec.LookPath("podman"); err == nil && os.Getuid() != 0 {
		if store, err = gbtest.UseStore(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if suite.podman != nil {
		suite.podman.Close()
		if left := containersLeft(); left != "" && code == 0 {
			fmt.Fprintln(os.Stderr, "containers are left behind:", left)
			code = 1
		}
	}
	if podmanService != nil {
		if err := podmanService.Process.Kill(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = podmanService.Wait() // killed: always an error
		if code != 0 {
			fmt.Fprintf(os.Stderr, "podman's service said:\n%s", serviceSays.String())
		}
		os.RemoveAll(filepath.Dir(suite.socket))
	}
	if store != nil {
		if err := store.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 && suite.podman != nil {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// store is where the suite's service keeps its sandboxes, and the images that tests build:
// other suites, and what is built beside them, have other locks.
var store *gbtest.Store

// podmanEnv is the service's environment.
func podmanEnv() []string { return gbtest.PodmanEnv() }

// podmanCLI runs a podman command as the service does.
func podmanCLI(args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), "podman", args...)
	cmd.Env = append(os.Environ(), podmanEnv()...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("podman %s: %w: %.500s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func containersLeft() string {
	out, err := podmanCLI("ps", "-a", "-q", "--filter", "label=run.glovebox.instance="+instance)
	if err != nil {
		return err.Error()
	}
	return out
}

func service(tb testing.TB) string {
	tb.Helper()
	gbtest.PodmanNamespace(tb)
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // it outlives the first test
	if err != nil {
		tb.Fatal(err)
	}
	socket := filepath.Join(dir, "podman.sock")
	podmanService = exec.CommandContext(context.Background(), "podman", "system", "service", "-t", "0", "unix://"+socket)
	podmanService.Env = append(os.Environ(), podmanEnv()...)
	podmanService.Stderr = &serviceSays
	if err := podmanService.Start(); err != nil {
		tb.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if listens(tb.Context(), socket) {
			return socket
		}
	}
	tb.Fatal("podman's service does not listen")
	return ""
}

// listens reports whether something answers at the socket.
func listens(ctx context.Context, socket string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// runtimeImage is the image of the suite's runtime: python, or where its tests are
// not run GLOVEBOX_TEST_RUNTIME.
func runtimeImage(tb testing.TB) string {
	tb.Helper()
	name := cmp.Or(os.Getenv("GLOVEBOX_TEST_RUNTIME"), "python")
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, ok := set.Lookup(name)
	if !ok {
		tb.Fatalf("there is no runtime %s", name)
	}
	if _, err := podmanCLI("image", "exists", r.Image()); err != nil {
		tb.Fatalf("no image of the runtime %s: run infra/setup.sh: %v", name, err)
	}
	return r.Image()
}
