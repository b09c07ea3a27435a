// Package doctor looks at a machine, and at the servers that Glovebox is told to use,
// for what would keep it from working, or from working safely.
//
// It changes nothing, except for one sandbox that it starts and removes. Start at [Run].
package doctor

import (
	"context"
	"slices"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/toolsdir"
	"github.com/glovebox-run/glovebox/job"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // it works, and could be better
	Problem Level = "problem" // it doesn't work, or not safely
)

// Finding is what one check came to.
type Finding struct {
	Level Level  `json:"level"`
	Name  string `json:"name"`
	Text  string `json:"text"`
	// Fix is what to do about it, a command where there is one.
	Fix string `json:"fix,omitempty"`
}

// Config says what to look at.
type Config struct {
	// Isolation is what programs on this machine are to be isolated by. Defaults to gVisor.
	Isolation job.Isolation
	// ToolsDir is where what no package of the distribution has lies.
	ToolsDir string
	// Podman is the command that runs Podman as Glovebox's service does.
	Podman []string
	// PodmanUser is the name of the user who runs it.
	PodmanUser string
	// WorkerHost says that infra/worker-host.sh, or the package glovebox-worker, made the
	// machine: what only dev needs is not missing there.
	WorkerHost bool
	// Images are the images that this build of Glovebox runs jobs in, by runtime.
	Images map[string]string
	// OldImages lists what earlier versions of the runtimes have left. Defaults to nothing.
	OldImages func(ctx context.Context) ([]string, error)
	// Core are the runtimes whose images are built unless others are asked for.
	Core []string
	// Redis, if it has a URL, and S3, if it has a bucket, are what production uses.
	// Without them only what dev needs is looked for.
	Redis record.Config
	S3    artifacts.Config
	// PauseMB is how much of the disk paused sessions may take, MiB. Defaults to 0: none is paused.
	PauseMB int64
	// WorkerMetrics is where this machine's worker serves metrics, host:port.
	WorkerMetrics string
	// Faults are settings with which this host's worker does not start.
	Faults []string
	// Warnings are what internal/config says of the settings.
	Warnings []string
	// URL and Token are of the API, empty to leave it out.
	URL, Token string
}

// report collects findings.
type report struct {
	Config
	findings []Finding
	roots    string // where root images lie
}

func (r *report) ok(name, text string)           { r.add(OK, name, text, "") }
func (r *report) warning(name, text, fix string) { r.add(Warning, name, text, fix) }
func (r *report) problem(name, text, fix string) { r.add(Problem, name, text, fix) }

func (r *report) add(level Level, name, text, fix string) {
	r.findings = append(r.findings, Finding{level, name, text, fix})
}

// setup is the fix for whatever infra/setup.sh, or the package glovebox-worker, installs.
func (r *report) setup() string {
	if r.ToolsDir == toolsdir.Packaged {
		return "apt-get install --reinstall glovebox-worker glovebox-runsc"
	}
	return "infra/setup.sh (make setup)"
}

// Run checks everything and returns what it found, in a fixed order.
func Run(ctx context.Context, c Config) []Finding {
	r := &report{Config: c}
	for _, fault := range c.Faults {
		r.problem("settings", fault, "correct it in /etc/glovebox/worker.env: the worker doesn't start with it; glovebox-worker --help explains each")
	}
	r.isolation()
	if r.Isolation.Or() == job.GVisor {
		r.kernel(kernelFloor, "can't mount overlays for ordinary users")
		r.namespaces()
		r.subordinateIDs()
		r.tools(ctx)
		if r.podman(ctx) {
			r.sandbox(ctx)
		}
		r.pausedSessions()
		r.snapshots(ctx)
	} else {
		r.kernel(processFloor, "does not count the processes of each sandbox for itself")
		r.processNamespaces()
	}
	r.redis(ctx)
	r.s3(ctx)
	r.api(ctx)
	return r.findings
}

// Healthy reports whether there is no problem among the findings.
func Healthy(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Problem })
}
