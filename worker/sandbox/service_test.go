package sandbox_test

import (
	"crypto/rand"
	"encoding/json"
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
)

// instance keeps the suite's containers apart from those of a Glovebox that runs on
// the same machine.
var instance = "test-" + rand.Text()

// podmanService is the suite's own; a test's process would end with that test.
var podmanService *exec.Cmd

func TestMain(m *testing.M) {
	code := m.Run()
	if suite.podman != nil {
		suite.podman.Close()
		if left := containersLeft(); left != "" && code == 0 {
			fmt.Fprintln(os.Stderr, "containers are left behind:", left)
			code = 1
		}
	}
	if podmanService != nil {
		podmanService.Process.Kill()
		podmanService.Wait()
		os.RemoveAll(filepath.Dir(suite.socket))
	}
	if code == 0 && suite.podman != nil {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// podmanEnv is the service's environment.
func podmanEnv() []string { return gbtest.PodmanEnv() }

// podman runs a podman command as the service does.
func podman(args ...string) (string, error) {
	cmd := exec.Command("podman", args...)
	cmd.Env = append(os.Environ(), podmanEnv()...)
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

func containersLeft() string {
	out, err := podman("ps", "-a", "-q", "--filter", "label=run.glovebox.instance="+instance)
	if err != nil {
		return err.Error()
	}
	return out
}

func service(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gb")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "podman.sock")
	podmanService = exec.Command("podman", "system", "service", "-t", "0", "unix://"+socket)
	podmanService.Env = append(os.Environ(), podmanEnv()...)
	podmanService.Stderr = os.Stderr
	if err := podmanService.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			return socket
		}
	}
	t.Fatal("podman's service does not listen")
	return ""
}

// pythonImage is the newest image of the python runtime.
func pythonImage(t testing.TB) string {
	t.Helper()
	out, err := podman("images", "--format", "json", "--filter", "reference=localhost/glovebox/python")
	if err != nil {
		t.Fatal(err)
	}
	var images []struct{ Names []string }
	if err := json.Unmarshal([]byte(out), &images); err != nil {
		t.Fatal(err)
	}
	if len(images) == 0 || len(images[0].Names) == 0 {
		t.Fatal("no python runtime image: run infra/setup.sh")
	}
	return images[0].Names[0]
}
