package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/runtimes"
)

const (
	podmanFloor = "4.3.1"
	// podmanSafe has the fixes for images of strangers (CVE-2026-94603 and others).
	podmanSafe    = "6.2.0"
	podmanTimeout = time.Minute
)

// podmanInfo is what we read of podman info.
type podmanInfo struct {
	Host struct {
		CgroupVersion string
		LogDriver     string
		OCIRuntime    struct{ Name, Path string }
		Security      struct{ Rootless bool }
	}
	Store struct {
		GraphDriverName string
		GraphRoot       string
		GraphStatus     map[string]string
	}
	Version struct{ Version string }
}

// podman reports whether Podman works at all.
func (r *report) podman(ctx context.Context) bool {
	out, err := r.runPodman(ctx, "info", "--format", "json")
	if err != nil {
		r.problem("podman", err.Error(), r.setup())
		return false
	}
	var info podmanInfo
	if err := json.Unmarshal(out, &info); err != nil {
		r.problem("podman", "what podman info says can't be read: "+err.Error(), r.setup())
		return false
	}
	switch v := info.Version.Version; {
	case Older(v, podmanFloor):
		r.problem("podman", v+" is too old, "+podmanFloor+" is needed", "a later release of the distribution")
	case Older(v, podmanSafe):
		r.warning("podman", v+": good for the images that are built here; before you run images of strangers, have "+podmanSafe, "a later release of the distribution")
	default:
		r.ok("podman", v)
	}
	if info.Host.Security.Rootless {
		r.ok("rootless", "as "+r.PodmanUser)
	} else {
		r.problem("rootless", "Podman runs as root", r.setup())
	}
	if name := info.Host.OCIRuntime.Name; name == "glovebox-runtime" {
		r.ok("OCI runtime", name+", "+info.Host.OCIRuntime.Path)
	} else {
		r.problem("OCI runtime", fmt.Sprintf("%q: jobs would not run in gVisor, so none will run", name), r.setup())
	}
	r.storage(info)
	r.cgroups(info.Host.CgroupVersion, r.services())
	r.roots = filepath.Join(filepath.Dir(info.Store.GraphRoot), "roots")
	return true
}

func (r *report) storage(info podmanInfo) {
	switch driver := info.Store.GraphDriverName; {
	case driver != "overlay":
		r.problem("storage", driver+": every sandbox would copy its whole image", r.setup())
	case info.Store.GraphStatus["Native Overlay Diff"] == "false":
		r.warning("storage", "overlay by FUSE, which is slower than the kernel's own", "a kernel of "+kernelFloor+" or later")
	default:
		r.ok("storage", "native overlay in "+info.Store.GraphRoot)
	}
	if info.Host.LogDriver != "none" {
		r.problem("log driver", info.Host.LogDriver+": what jobs print would fill the disk", r.setup())
	}
}

// sandbox starts one, if there is an image, and looks whether its kernel is gVisor's.
func (r *report) sandbox(ctx context.Context) {
	out, err := runtimes.BesideBuilds(ctx, func() ([]byte, error) {
		return r.runPodman(ctx, "images", "--no-trunc", "--filter", "reference=localhost/glovebox/*", "--format", "{{.Repository}}:{{.Tag}} {{.Id}}")
	})
	if err != nil {
		r.problem("images", err.Error(), r.setup())
		return
	}
	there := map[string]string{} // ids by names
	for line := range strings.Lines(string(out)) {
		if name, id, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			there[name] = strings.TrimPrefix(id, "sha256:")
		}
	}
	var missing []string
	ids := map[string]string{} // of what is built, by its runtime
	for _, name := range slices.Sorted(maps.Keys(r.Images)) {
		if id, ok := there[r.Images[name]]; ok {
			ids[name] = id
		} else if slices.Contains(r.Core, name) {
			missing = append(missing, name)
		}
	}
	built := slices.Sorted(maps.Keys(ids))
	switch {
	case len(built) == 0:
		r.problem("images", "none is built", "glovebox runtimes build")
		return
	case len(missing) > 0:
		r.warning("images", "built: "+strings.Join(built, ", ")+"; missing: "+strings.Join(missing, ", "), "glovebox runtimes build")
	default:
		r.ok("images", strings.Join(built, ", "))
	}
	r.oldImages(ctx)
	r.rootImages(ctx, ids)
	began := time.Now()
	out, err = r.runPodman(ctx, "run", "--rm", "--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges",
		"--pull=never", r.Images[built[0]], "cat", "/proc/version")
	switch {
	case err != nil:
		r.problem("sandbox", err.Error(), r.setup())
	case !bytes.Contains(out, []byte("gvisor")):
		r.problem("sandbox", "its kernel is not gVisor's: "+strings.TrimSpace(string(out)), r.setup())
	default:
		r.ok("sandbox", fmt.Sprintf("starts, and its kernel is gVisor's (%.1f s)", time.Since(began).Seconds()))
	}
}

// oldImages says what earlier versions have left on the disk.
func (r *report) oldImages(ctx context.Context) {
	if r.OldImages == nil {
		return
	}
	old, err := r.OldImages(ctx)
	if err != nil {
		r.warning("old images", err.Error(), r.setup())
	} else if len(old) > 0 {
		r.warning("old images", fmt.Sprintf("%d of earlier versions of the runtimes take up disk", len(old)), "glovebox runtimes prune")
	}
}

// rootImageSuffix is of the names that infra/root-images.sh gives.
const rootImageSuffix = ".1.erofs"

// rootImages looks for the root image of each image that is there: its id by the runtime's name.
func (r *report) rootImages(ctx context.Context, ids map[string]string) {
	// In what is above them: there may be no root image yet, nor their directory.
	out, err := r.runPodman(ctx, "unshare", "find", filepath.Dir(r.roots), "-maxdepth", "2", "-name", "*.erofs")
	if err != nil {
		r.warning("root images", err.Error(), r.setup())
		return
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		if !bytes.Contains(out, []byte("/"+ids[name]+rootImageSuffix+"\n")) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		r.warning("root images", "missing: "+strings.Join(missing, ", ")+": their sandboxes take a sixth more CPU time to start, and a process of gVisor's that serves them directories of the host",
			"glovebox runtimes build")
		return
	}
	r.ok("root images", "all there, in "+r.roots)
}

func (r *report) runPodman(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, podmanTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Podman[0], append(slices.Clone(r.Podman[1:]), args...)...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		last := bytes.TrimSpace(exit.Stderr)
		if i := bytes.LastIndexByte(last, '\n'); i >= 0 {
			last = last[i+1:]
		}
		return nil, fmt.Errorf("podman %s: %w: %s", args[0], err, last)
	}
	if err != nil {
		return nil, fmt.Errorf("podman %s: %w", args[0], err)
	}
	return out, nil
}
