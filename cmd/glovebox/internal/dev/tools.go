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
func findTools(bin string, withPodman bool) (tools, error) {
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
		if !regular(path) {
			errs = append(errs, fmt.Errorf("%s is missing%s", path, remedy))
		}
		return path
	}
	redis, err := toolsdir.Redis()
	if err != nil {
		errs = append(errs, err)
	}
	t := tools{
		redis:  redis,
		worker: file(bin, "glovebox-worker", ": make build puts it beside glovebox"),
		agent:  file(bin, "glovebox-agent", ": make build puts it beside glovebox"),
	}
	if !withPodman {
		if t.versitygw = filepath.Join(ToolsDir, "versitygw"); !regular(t.versitygw) { // infra/setup.sh did not run here
			t.versitygw = look("versitygw")
		}
		if len(errs) > 0 {
			return t, fmt.Errorf("%w\n%w", errors.Join(errs...), ErrBareSetup)
		}
		return t, nil
	}
	t.podman, t.versitygw = look("podman"), file(ToolsDir, "versitygw", "")
	for _, name := range []string{"runsc", "glovebox-runtime", "podman/containers.conf", "podman/storage.conf"} {
		file(ToolsDir, name, "")
	}
	if len(errs) > 0 {
		return t, fmt.Errorf("%w\n%w", errors.Join(errs...), ErrSetup)
	}
	return t, nil
}

func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ErrBareSetup means that this machine lacks one of the few things that dev needs without Podman.
var ErrBareSetup = errors.New(`install it: "apt-get install redis-server" (or valkey-server), "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0" with ~/go/bin in PATH, "make build"; infra/setup.sh does all of that`)

// ErrSetup means that this machine lacks what infra/setup.sh installs.
var ErrSetup = errors.New(`run infra/setup.sh (make setup) and "make build"; "glovebox doctor" looks further`)
