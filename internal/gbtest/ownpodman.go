package gbtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// OwnPodman is a Podman service that shares nothing with others but their images, which
// it reads only: its OCI runtime, its configuration and its store are there to be broken.
type OwnPodman struct {
	*PodmanService
	// Lib holds its own glovebox-runtime and runsc.
	Lib string
	// Dir is its store, a file system in memory that only its own processes see.
	Dir string

	tb testing.TB
}

// PodmanOfItsOwn starts a Podman service whose store has megabytes MiB.
func PodmanOfItsOwn(tb testing.TB, megabytes int) *OwnPodman {
	tb.Helper()
	Require(tb, "podman")
	WhenIdle(tb)
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // too long a path for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	p := &OwnPodman{Lib: filepath.Join(dir, "lib"), Dir: filepath.Join(dir, "store"), tb: tb}
	run := filepath.Join(dir, "run")
	for _, d := range []string{p.Lib, p.Dir, run} {
		if err := os.Mkdir(d, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	for _, tool := range []string{"glovebox-runtime", "runsc"} {
		if err := copyFile(filepath.Join(p.Lib, tool), filepath.Join(ToolsDir, tool)); err != nil {
			tb.Fatal(err)
		}
	}
	shared, err := os.ReadFile(filepath.Join(ToolsDir, "podman/containers.conf"))
	if err != nil {
		tb.Fatal(err)
	}
	containers := strings.ReplaceAll(string(withOwnLocks(shared)), ToolsDir+"/glovebox-runtime", p.Lib+"/glovebox-runtime")
	storage := fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\nrootless_storage_path = %q\n[storage.options]\nadditionalimagestores = [%q]\n",
		run+"/containers", p.Dir, dir+"/images")
	if err := copyImages(dir+"/images", os.Getenv("HOME")+"/.local/share/glovebox/storage"); err != nil {
		tb.Fatal(err)
	}
	for name, content := range map[string]string{"containers.conf": containers, "storage.conf": storage} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "podman.sock")
	// The file system is mounted where nobody else sees it: in a mount namespace below
	// Podman's user namespace. The store's is kept over restarts by the first command.
	script := fmt.Sprintf(`mount -t tmpfs -o size=%dm,mode=700 none %s
export XDG_RUNTIME_DIR=%s CONTAINERS_CONF=%s/containers.conf CONTAINERS_STORAGE_CONF=%s/storage.conf
exec podman system service -t 0 unix://%s`, megabytes, p.Dir, run, dir, dir, socket)
	p.PodmanService = &PodmanService{Socket: socket, Process: Start(tb, []string{"podman", "unshare", "unshare", "-m", "sh", "-ec", script}, PodmanEnv(),
		func() bool {
			c, err := dial("unix", socket)
			if err == nil {
				c.Close()
			}
			return err == nil
		})}
	return p
}

// Fill fills the store's disk to its last byte, and Empty undoes it.
func (p *OwnPodman) Fill() {
	p.tb.Helper()
	out, err := p.inside("dd", "if=/dev/zero", "of="+p.Dir+"/fill", "bs=4k")
	if err == nil || !strings.Contains(out, "No space left on device") {
		p.tb.Fatalf("fill %s: %v: %s", p.Dir, err, out)
	}
}

// Empty makes room again.
func (p *OwnPodman) Empty() {
	p.tb.Helper()
	if out, err := p.inside("rm", p.Dir+"/fill"); err != nil {
		p.tb.Fatalf("empty %s: %v: %s", p.Dir, err, out)
	}
}

// inside runs a command in the namespaces of the service.
func (p *OwnPodman) inside(argv ...string) (string, error) {
	service, err := p.service()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), "nsenter", append([]string{"-t", service, "-U", "-m", "--preserve-credentials"}, argv...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

// service is the id of the process that serves: podman starts itself once more.
func (p *OwnPodman) service() (string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(b, []byte("podman\x00system\x00service\x00")) && bytes.Contains(b, []byte(p.Socket)) {
			pid := filepath.Base(filepath.Dir(path))
			if _, err := strconv.Atoi(pid); err == nil {
				return pid, nil
			}
		}
	}
	return "", fmt.Errorf("no service serves %s", p.Socket)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
