package podman_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// trace is by what a sandbox could be found after its end.
type trace struct {
	job, container, layer string
}

// traceOf looks at the sandbox of a job whose Run goes on, which the filter finds.
func traceOf(t *testing.T, jobID string, filter string) trace {
	t.Helper()
	id, err := podmanCLI("ps", "-a", "-q", "--no-trunc", "--filter", filter) // it may have ended, as its sink waits
	if err != nil || id == "" {
		t.Errorf("got %q, %v, want the container of job %s", id, err, jobID)
		return trace{}
	}
	out, err := podmanCLI("inspect", id)
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

// claims is a log that remembers which warm sandbox each job has got.
type claims struct {
	mu sync.Mutex
	of map[string]string // job → container's name
}

func (c *claims) Enabled(context.Context, slog.Level) bool { return true }
func (c *claims) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *claims) WithGroup(string) slog.Handler            { return c }

func (c *claims) Handle(_ context.Context, r slog.Record) error {
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool { said[a.Key] = a.Value.String(); return true })
	if r.Message != "warm sandbox claimed" {
		_, err := fmt.Fprintln(os.Stderr, r.Level, r.Message, said)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]string{}
	}
	c.of[said["job_id"]] = said["container"]
	return nil
}

func (c *claims) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

// filter finds the container of a job, warm or not, for podman ps.
func (c *claims) filter(jobID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name := c.of[jobID]; name != "" {
		return "name=" + name
	}
	return "label=run.glovebox.job=" + jobID
}

// nothingLeft waits until no process, container, mount, cgroup or file of these sandboxes
// is left, and no volume at all: Glovebox makes none.
func nothingLeft(t *testing.T, traces []trace) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(200 * time.Millisecond) {
		if left = leftOf(t, traces); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %s", strings.Join(left, "\n"))
	}
	t.Logf("looked for %d sandboxes", len(traces))
}

// podmanLists is what a podman that lists says. A container that goes meanwhile fails the whole list of older versions (its issue 23492).
func podmanLists(tb testing.TB, args ...string) (out string) {
	tb.Helper()
	gbtest.Eventually(tb, "podman lists its containers", func() bool {
		var err error
		if out, err = podmanCLI(args...); err != nil {
			tb.Logf("podman %v: %v", args, err)
		}
		return err == nil
	})
	return out
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
		for line := range strings.Lines(podmanLists(t, args...)) {
			look("podman "+args[0], line)
		}
	}
	list("ps", "-a", "--no-trunc", "--format", "{{.ID}}")
	list("ps", "-a", "--no-trunc", "--external", "--format", "{{.ID}}")
	if out, err := podmanCLI("volume", "ls", "-q"); err != nil || out != "" {
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
	for _, root := range []string{store.Dir, os.Getenv("XDG_RUNTIME_DIR"), "/sys/fs/cgroup", gbtest.Leaves()} {
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
			if d.IsDir() && filepath.Dir(path) == filepath.Join(store.Dir, "storage/overlay") && d.Name() != "l" {
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
