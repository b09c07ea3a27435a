// Package gbtest starts the real components that tests run against: Redis,
// versitygw (an S3 server) and a rootless Podman service, each on loopback or a
// private socket, each gone when its test ends.
//
// A component that is missing skips the test on a bare laptop and fails it where
// GLOVEBOX_TEST_REQUIRE names it, as `make test` does.
package gbtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/cgroup"
	"github.com/glovebox-run/glovebox/internal/toolsdir"
)

// ToolsDir is where infra/setup.sh puts runsc, versitygw and the Podman configuration.
const ToolsDir = toolsdir.Local

// Require ends the test when component ("redis", "s3", "podman", "npm", "python3", "g++",
// "cgroups") is missing:
// as a failure where GLOVEBOX_TEST_REQUIRE lists it, else as a skip.
func Require(tb testing.TB, component string) {
	tb.Helper()
	if problem := missing(component); problem != "" {
		Missing(tb, component, problem)
	}
}

// Missing skips the test, or fails it where component is required.
func Missing(tb testing.TB, component, problem string) {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv("GLOVEBOX_TEST_REQUIRE"), ","), component) {
		tb.Fatalf("%s is required (GLOVEBOX_TEST_REQUIRE) but %s; run infra/setup.sh", component, problem)
	}
	tb.Skipf("SKIPPED, NOT PROVEN: %s: %s; run infra/setup.sh", component, problem)
}

func missing(component string) string {
	var err error
	switch component {
	case "redis":
		_, err = exec.LookPath(RedisProgram())
	case "s3":
		_, err = Tool("versitygw")
	case "podman":
		if _, err = exec.LookPath("podman"); err == nil {
			_, err = Tool("glovebox-runtime")
		}
		if err == nil && os.Getuid() == 0 {
			return "the test runs as root: use go test -exec infra/as-podman-user.sh"
		}
	case "npm":
		if _, err = exec.LookPath("npm"); err == nil {
			_, err = exec.LookPath("node")
		}
	case "python3", "g++":
		_, err = exec.LookPath(component)
	case "cgroups":
		if Leaves() == "" {
			return "the host delegates no cgroups to this process: make test-vm runs this test where it does"
		}
	default:
		return "gbtest knows no such component"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// Leaves is the directory in which glovebox-runtime makes the cgroups of sandboxes that are
// started by the test's own Podman service; "" where none is delegated.
func Leaves() string {
	path, err := cgroup.Of("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	leaves, err := cgroup.ParentOf(cgroup.Mount, path)
	if err != nil {
		return ""
	}
	return leaves
}

// Tool returns the path of a program that infra/setup.sh installed.
func Tool(name string) (string, error) {
	path := filepath.Join(ToolsDir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("look for %s: %w", name, err)
	}
	return path, nil
}

// Addr returns a loopback address that nobody listens on, and that no other test on this machine is given until this one ends. Its
// port is below those that the kernel hands to outgoing connections.
func Addr(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)) //nolint:gosec // not a secret
		// Abstract sockets are the machine's, as its ports are, and end with their process.
		reserved, err := new(net.ListenConfig).Listen(tb.Context(), "unix", "@glovebox-test-"+addr)
		if err != nil {
			continue
		}
		tb.Cleanup(func() { reserved.Close() })
		// A listener of our own would prove it, too, but a process that another test begins meanwhile has a copy of it until its exec.
		if c, err := dial("tcp", addr); err == nil {
			c.Close()
			continue
		}
		return addr
	}
	tb.Fatal("no free port on 127.0.0.1")
	return ""
}
