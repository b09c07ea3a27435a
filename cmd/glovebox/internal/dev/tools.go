package dev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/glovebox-run/glovebox/internal/toolsdir"
)

// ToolsDir is where what no package of the distribution has lies.
var ToolsDir = toolsdir.Path()

// tools are the programs that dev starts.
type tools struct {
	redis, versitygw, podman string
	worker, agent            string
}

// findTools looks for all programs and says at once everything that is missing. bin is
// where the worker and the agent lie, beside this program.
func findTools(bin string) (tools, error) {
	var errs []error
	look := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not installed", name))
		}
		return path
	}
	file := func(dir, name, remedy string) string {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("%s is missing%s", path, remedy))
		}
		return path
	}
	t := tools{
		redis: look("redis-server"), podman: look("podman"),
		versitygw: file(ToolsDir, "versitygw", ""),
		worker:    file(bin, "glovebox-worker", ": make build puts it beside glovebox"),
		agent:     file(bin, "glovebox-agent", ": make build puts it beside glovebox"),
	}
	for _, name := range []string{"runsc", "glovebox-runtime", "podman/containers.conf", "podman/storage.conf"} {
		file(ToolsDir, name, "")
	}
	if len(errs) > 0 {
		return t, fmt.Errorf("%w\n%w", errors.Join(errs...), ErrSetup)
	}
	return t, nil
}

// ErrSetup means that this machine lacks what infra/setup.sh installs.
var ErrSetup = errors.New(`run infra/setup.sh (make setup) and "make build"; "glovebox doctor" looks further`)
