package sandbox_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// trace is by what a sandbox could be found after its end.
type trace struct {
	job, container, layer string
}

// traceOf looks at the sandbox of a job that runs.
func traceOf(t *testing.T, jobID string) trace {
	t.Helper()
	id, err := podman("ps", "-q", "--no-trunc", "--filter", "label=run.glovebox.job="+jobID, "--filter", "label=run.glovebox.instance="+instance)
	if err != nil || id == "" {
		t.Errorf("got %q, %v, want the container of job %s", id, err, jobID)
		return trace{}
	}
	out, err := podman("inspect", id)
	if err != nil {
		t.Error(err)
		return trace{}
	}
	var found []struct {
		GraphDriver struct{ Data struct{ UpperDir string } }
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 1 || found[0].GraphDriver.Data.UpperDir == "" {
		t.Errorf("no layer of container %s: %v, %.300s", id, err, out)
		return trace{}
	}
	return trace{job: jobID, container: id, layer: filepath.Base(filepath.Dir(found[0].GraphDriver.Data.UpperDir))}
}

// nothingLeft waits until no process, container, mount, cgroup or file of these sandboxes
// is left, and no volume at all: Glovebox makes none.
func nothingLeft(t *testing.T, traces []trace) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if left = leftOf(t, traces); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
	t.Logf("looked for %d sandboxes", len(traces))
}

func leftOf(t *testing.T, traces []trace) (left []string) {
	t.Helper()
	look := func(kind, text string) {
		for _, tr := range traces {
			if tr.container != "" && (strings.Contains(text, tr.container) || strings.Contains(text, tr.layer)) {
				left = append(left, tr.job+": "+kind+" "+text)
			}
		}
	}
	list := func(args ...string) {
		out, err := podman(args...)
		if err != nil {
			t.Fatalf("podman %v: %v", args, err)
		}
		for line := range strings.Lines(out) {
			look("podman "+args[0], line)
		}
	}
	list("ps", "-a", "--no-trunc", "--format", "{{.ID}}")
	list("ps", "-a", "--no-trunc", "--external", "--format", "{{.ID}}")
	if out, err := podman("volume", "ls", "-q"); err != nil || out != "" {
		left = append(left, "volumes "+out)
	}

	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		if b, err := os.ReadFile(path); err == nil { // it may have ended
			look("process "+path, string(b))
		}
	}
	// The service's namespace is that of all of the user's sandboxes.
	mounts, err := os.ReadFile("/proc/" + strconv.Itoa(podmanService.Process.Pid) + "/mountinfo")
	if err != nil || !strings.Contains(string(mounts), " / ") {
		t.Fatalf("read the service's mounts: %v", err)
	}
	for line := range strings.Lines(string(mounts)) {
		look("mount", line)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(home, ".local/share/glovebox/storage")
	for _, root := range []string{store, os.Getenv("XDG_RUNTIME_DIR"), "/sys/fs/cgroup", gbtest.Leaves()} {
		if root == "" {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
				return nil // another user's, or gone by now
			}
			if err != nil {
				return err
			}
			look("file", path)
			if target, err := os.Readlink(path); err == nil {
				look("link "+path, target)
			}
			if d.IsDir() && filepath.Dir(path) == filepath.Join(store, "overlay") && d.Name() != "l" {
				return fs.SkipDir // a layer's content
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return left
}
