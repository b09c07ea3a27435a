package process

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// helloLimits are generous: a host's compilers may have to read their libraries for the first time, and other hellos run beside.
var helloLimits = job.Limits{WallMS: 60_000, CPUMS: 120_000, MemoryMB: 512, CompileWallMS: 60_000}

// Runtimes returns those of the set that programs can be written in here: their commands are the host's, and run the runtime's own "hello" in
// a sandbox. Each has the host's version.
func (s *Sandboxes) Runtimes(ctx context.Context, set runtimes.Set) runtimes.Set {
	var mu sync.Mutex
	versions := map[string]string{}
	var tried sync.WaitGroup
	room := make(chan struct{}, max(runtime.NumCPU(), 2))
	for _, r := range set.List() {
		if !onHost(r) {
			continue
		}
		tried.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			version, problem := s.tryRuntime(ctx, set, r)
			if problem != "" {
				s.config.Log.Info("runtime is not offered: this host's does not run its hello", "runtime", r.Name, "problem", problem)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			versions[r.Name] = version
		})
	}
	tried.Wait()
	return set.OnHost(func(r runtimes.Runtime) string { return versions[r.Name] })
}

// onHost reports whether the runtime's programs are in the directories that a sandbox has.
func onHost(r runtimes.Runtime) bool {
	for _, command := range [][]string{r.Compile, r.Run, r.VersionCommand} {
		if len(command) > 0 && !strings.HasPrefix(command[0], "/tmp/") && !installed(command[0]) {
			return false
		}
	}
	return true
}

func installed(command string) bool {
	if strings.Contains(command, "/") {
		_, err := exec.LookPath(command)
		return err == nil
	}
	return slices.ContainsFunc(strings.Split(sandbox.Program{}.Environment()["PATH"], ":"), func(dir string) bool {
		_, err := exec.LookPath(dir + "/" + command)
		return err == nil
	})
}

// tryRuntime runs a hello of the runtime, and asks for its version.
func (s *Sandboxes) tryRuntime(ctx context.Context, set runtimes.Set, r runtimes.Runtime) (version, problem string) {
	cases, err := set.Cases(r.Name)
	if err != nil {
		return "", err.Error()
	}
	i := slices.IndexFunc(cases, func(c runtimes.Case) bool { return c.Name == "hello" })
	if i < 0 {
		return "", "it has none"
	}
	hello := cases[i]
	program := sandbox.Program{JobID: "hello", Epoch: 1, Isolation: job.Process, Env: r.Env, Limits: helloLimits.Filled(r.Limits), Stdin: []byte(hello.Spec.Stdin)}
	program.Compile, program.Command = r.Command(hello.Spec.Entrypoint, hello.Spec.Args)
	program.Files = append(program.Files, sandbox.File{Name: r.File, Content: []byte(hello.Spec.Source)})
	for _, f := range hello.Spec.Files {
		program.Files = append(program.Files, sandbox.File{Name: f.Name, Content: []byte(f.Content)})
	}
	said, problem := s.say(ctx, program)
	if problem == "" && said.stdout.String() != hello.Want.Stdout {
		problem = "it printed something else"
	}
	if problem != "" {
		return "", problem
	}
	program.Compile, program.Command, program.Files = nil, r.VersionCommand, nil
	if said, problem = s.say(ctx, program); problem != "" {
		return "", problem
	}
	if version = runtimes.AnyVersion(said.stdout.String() + said.stderr.String()); version == "" {
		return "", "it has no version"
	}
	return version, ""
}

// say runs a program that has to succeed.
func (s *Sandboxes) say(ctx context.Context, p sandbox.Program) (said *words, problem string) {
	said = &words{}
	o, err := s.Run(ctx, p, said)
	switch {
	case err != nil:
		return said, err.Error()
	case o.Compile != nil && o.Status == job.CompileFailed:
		return said, "compile step: " + clip(o.Compile.Output)
	case o.Status != job.Succeeded:
		return said, string(o.Status) + ": " + clip(said.stderr.String())
	}
	return said, ""
}

// clip returns the first line of a text.
func clip(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line[:min(len(line), 200)]
}

// words is a sink that keeps what is printed.
type words struct{ stdout, stderr bytes.Buffer }

func (w *words) Stdout(p []byte) error { w.stdout.Write(p); return nil }
func (w *words) Stderr(p []byte) error { w.stderr.Write(p); return nil }

// Artifact drops what a program leaves.
func (w *words) Artifact(context.Context, string, int64, io.Reader) error { return nil }
