package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/attest"
)

// commands are the programs of the tree that are installed, by where they lie in an archive.
var commands = []string{"bin/glovebox", "bin/glovebox-worker", "lib/glovebox-runtime", "lib/glovebox-agent"}

// podmanTags are what the Podman bindings need to be compiled without C: the Makefile's.
const podmanTags = "remote containers_image_openpgp exclude_graphdriver_btrfs"

// program is one that was compiled.
type program struct {
	path   string // in the archive
	sha256 string
	info   *debug.BuildInfo // what the linker noted in it
}

// source is what a program was built from, as the linker noted it.
type source struct {
	version, commit, goVersion string
	date                       time.Time
}

// name is the version in the names of files: 0.1.0.
func (s source) name() string { return strings.TrimPrefix(s.version, "v") }

// debian is the version as a Debian package has it, which sorts what is before a release before it.
func (s source) debian() string {
	version := strings.Replace(s.name(), "-", "~", 1)
	return strings.ReplaceAll(version, "-", ".")
}

// cloneCommit clones the tree's last commit. A tree with changes is refused: whoever looks at the release
// would look for them there in vain.
func cloneCommit(ctx context.Context, tree, to string) error {
	status := exec.CommandContext(ctx, "git", "status", "--porcelain")
	status.Dir = tree
	changes, err := status.Output()
	if err != nil {
		return fmt.Errorf("look for changes in %s: %w", tree, err)
	}
	if len(changes) > 0 {
		return fmt.Errorf("the tree has changes that are not committed:\n%s", changes)
	}
	// Go finds no commit in what git worktree makes; in a clone of that it does.
	return quietly(exec.CommandContext(ctx, "git", "clone", "-q", tree, to))
}

// compile builds the programs for an architecture below root, and the two of other projects: runsc, and the S3 server
// that infra/install.sh starts.
func (r *release) compile(ctx context.Context, root, arch string) ([]program, error) {
	var programs []program
	for _, path := range commands {
		r.say("compile", path+" for "+arch)
		out := filepath.Join(root, path)
		if err := build(ctx, r.tree, "./cmd/"+filepath.Base(path), out, arch); err != nil {
			return nil, err
		}
		p, err := readProgram(out, path)
		if err != nil {
			return nil, err
		}
		from, err := sourceOf(p.info)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.source == (source{}) {
			r.source = from
		} else if r.source != from {
			return nil, fmt.Errorf("%s was built from %+v, others from %+v: did the tree change meanwhile?", path, from, r.source)
		}
		programs = append(programs, p)
	}
	for _, other := range []struct {
		path string
		make func(out string) error
	}{
		{"lib/runsc", func(out string) error {
			return quietly(exec.CommandContext(ctx, filepath.Join(r.tree, "infra/runsc/build.sh"), out, arch))
		}},
		{"lib/versitygw", func(out string) error {
			version, err := versionIn(r.tree, versitygwVersion)
			if err != nil {
				return err
			}
			return install(ctx, r.work, "github.com/versity/versitygw/cmd/versitygw@"+version, out, arch)
		}},
	} {
		r.say("compile", other.path+" for "+arch)
		out := filepath.Join(root, other.path)
		if err := other.make(out); err != nil {
			return nil, err
		}
		p, err := readProgram(out, other.path)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	return programs, nil
}

// The files that name the versions of the programs of other projects.
const (
	runscVersion     = "infra/runsc/version"
	versitygwVersion = "infra/versitygw/version"
)

// versionIn reads such a file.
func versionIn(tree, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(tree, file))
	return strings.TrimSpace(string(b)), err
}

// build compiles a package of a tree to a static program, the same wherever the tree lies.
func build(ctx context.Context, tree, pkg, out, arch string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-tags", podmanTags, "-ldflags=-s -w -buildid=", "-o", out, pkg)
	cmd.Dir = tree
	cmd.Env = static(arch)
	return quietly(cmd)
}

// static is the environment in which Go makes a static program for an architecture, whatever the caller's own says.
func static(arch string) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
}

// install compiles a program of another module, name@version, with the versions of others that it names itself.
func install(ctx context.Context, work, pkg, out, arch string) error {
	cache, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("find Go's cache of modules: %w", err)
	}
	dir, err := os.MkdirTemp(work, "install-")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags=-s -w -buildid=", pkg)
	cmd.Dir = work
	// Go refuses GOBIN for another architecture than this one's.
	cmd.Env = append(static(arch), "GOBIN=", "GOPATH="+dir, "GOMODCACHE="+strings.TrimSpace(string(cache)))
	if err := quietly(cmd); err != nil {
		return err
	}
	name, _, _ := strings.Cut(filepath.Base(pkg), "@")
	for _, made := range []string{filepath.Join(dir, "bin", name), filepath.Join(dir, "bin", "linux_"+arch, name)} {
		if err := os.Rename(made, out); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("go install %s made no %s", pkg, name)
}

func readProgram(file, path string) (program, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return program{}, fmt.Errorf("read what %s was built from: %w", path, err)
	}
	is, err := attest.SubjectOf(file)
	return program{path, is.Digest.SHA256, info}, err
}

// sourceOf refuses what no other machine could build again: changes, or no commit.
func sourceOf(info *debug.BuildInfo) (source, error) {
	s := source{version: info.Main.Version, goVersion: info.GoVersion}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.commit = setting.Value
		case "vcs.modified":
			if setting.Value != "false" {
				return s, errors.New("the clone has changes that are not committed: what makes them?")
			}
		case "vcs.time":
			var err error
			if s.date, err = time.Parse(time.RFC3339, setting.Value); err != nil {
				return s, fmt.Errorf("read the commit's date: %w", err)
			}
		}
	}
	if s.commit == "" || s.date.IsZero() || !strings.HasPrefix(s.version, "v") {
		return s, fmt.Errorf("no commit is known of version %q: build in a clone of the repository", s.version)
	}
	return s, nil
}

// quietly runs a command, whose output becomes part of the error when it fails.
func quietly(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

func (r *release) say(what, of string) { fmt.Fprintf(r.stdout, "  %-9s %s\n", what, of) }
