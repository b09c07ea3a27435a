package podman_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// The suite runs on the service and the images that infra/setup.sh makes.
var suite struct {
	once   sync.Once
	podman *podman.Sandboxes
	socket string
	image  string
}

// open returns the suite's Podman, which lives until the end of the last test, when it is the test's turn.
func open(tb testing.TB) *podman.Sandboxes {
	tb.Helper()
	gbtest.Require(tb, "podman")
	gbtest.WhenIdle(tb)
	suite.once.Do(func() {
		suite.socket = service(tb)
		suite.podman = openAs(tb, "suite")
		suite.image = runtimeImage(tb)
	})
	if suite.podman == nil || suite.image == "" {
		tb.Fatal("the sandbox suite could not be set up; the first test says why")
	}
	return suite.podman
}

func agentPath() string {
	if agent := os.Getenv("GLOVEBOX_TEST_AGENT"); agent != "" {
		return agent
	}
	return filepath.Join(gbtest.ToolsDir, "glovebox-agent")
}

func openAs(tb testing.TB, worker string) *podman.Sandboxes {
	tb.Helper()
	p, err := podman.Open(tb.Context(), podman.Config{
		Socket: suite.socket, Agent: agentPath(), Instance: instance, Worker: worker,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// ample are the defaults of this suite's programs: no limit of time ends what a busy machine
// makes slow.
var ample = job.Limits{WallMS: 60_000}

// inShort returns the cases; in short, each nth from the first on that is asked for.
func inShort[C any](first, n int, cases []C) (chosen []C) {
	if !testing.Short() {
		return cases
	}
	for i := first; i < len(cases); i += n {
		chosen = append(chosen, cases[i])
	}
	return chosen
}

// namesInShort is inShort of the names of cases, in their order.
func namesInShort[C any](first, n int, cases map[string]C) []string {
	return inShort(first, n, slices.Sorted(maps.Keys(cases)))
}

// program is a Python program with the default limits, but ample time.
func program(source string, options ...func(*sandbox.Program)) sandbox.Program {
	p := sandbox.Program{
		JobID: "test", Epoch: 1,
		Command: []string{"python3", "main.py"},
		Env:     map[string]string{"PYTHONDONTWRITEBYTECODE": "1"},
		Files:   []sandbox.File{{Name: "main.py", Content: []byte(source)}},
		Limits:  job.Limits{}.Filled(ample),
	}
	for _, o := range options {
		o(&p)
	}
	return p
}

// bash is a shell program with the limits of [program].
func bash(source string, options ...func(*sandbox.Program)) sandbox.Program {
	return program("", append([]func(*sandbox.Program){func(p *sandbox.Program) {
		p.Command = []string{"bash", "main.sh"}
		p.Files = []sandbox.File{{Name: "main.sh", Content: []byte(source)}}
	}}, options...)...)
}

// limits changes a program's limits.
func limits(l job.Limits) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Limits = l.Filled(ample) }
}

// kept is a sink that keeps everything.
type kept struct {
	stdout, stderr bytes.Buffer
	artifacts      []artifact
	keepBytes      bool
}

type artifact struct {
	name   string
	size   int64
	sha256 string
	bytes  string
}

func (k *kept) Stdout(p []byte) error { k.stdout.Write(p); return nil }
func (k *kept) Stderr(p []byte) error { k.stderr.Write(p); return nil }

func (k *kept) Artifact(_ context.Context, name string, size int64, r io.Reader) error {
	h := sha256.New()
	var b bytes.Buffer
	w := io.Writer(h)
	if k.keepBytes {
		w = io.MultiWriter(h, &b)
	}
	n, err := io.Copy(w, r)
	if err != nil {
		return err
	}
	if n != size {
		return io.ErrUnexpectedEOF
	}
	k.artifacts = append(k.artifacts, artifact{name, size, hex.EncodeToString(h.Sum(nil)), b.String()})
	return nil
}

func (k *kept) names() string {
	names := make([]string, len(k.artifacts))
	for i, a := range k.artifacts {
		names[i] = a.name
	}
	return strings.Join(names, " ")
}

// run runs the program; Glovebox must not fail.
func run(tb testing.TB, p sandbox.Program) (sandbox.Outcome, *kept) {
	tb.Helper()
	k, sandboxes := &kept{keepBytes: true}, open(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), gbtest.Patience) // longer than any program's time
	defer cancel()
	if p.Image == "" {
		p.Image = suite.image
	}
	o, err := sandboxes.Run(ctx, p, k)
	if err != nil {
		tb.Fatalf("%v\nstderr: %s", err, k.stderr.String())
	}
	return o, k
}
