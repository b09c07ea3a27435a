package process_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns sandboxes of an ordinary user: there are none as root.
func open(tb testing.TB) *process.Sandboxes {
	tb.Helper()
	if os.Getuid() == 0 {
		tb.Skip("SKIPPED: run it as an ordinary user: go test -exec $PWD/infra/as-podman-user.sh")
	}
	s, err := process.Open(tb.Context(), process.Config{Agent: agentPath(), Log: slog.New(slog.NewTextHandler(tb.Output(), nil))})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func agentPath() string {
	if agent := os.Getenv("GLOVEBOX_TEST_AGENT"); agent != "" {
		return agent
	}
	return filepath.Join(gbtest.ToolsDir, "glovebox-agent")
}

// ample: no limit of time ends what a busy machine makes slow.
var ample = job.Limits{WallMS: 60_000}

// program runs a file with a command that ends with its name.
func program(source string, command ...string) sandbox.Program {
	return sandbox.Program{
		JobID: "test", Epoch: 1, Isolation: job.Process, Command: append(command, "main"),
		Env:    map[string]string{"PYTHONDONTWRITEBYTECODE": "1"},
		Files:  []sandbox.File{{Name: "main", Content: []byte(source)}},
		Limits: job.Limits{}.Filled(ample),
	}
}

func python(source string) sandbox.Program { return program(source, "python3") }
func bash(source string) sandbox.Program   { return program(source, "bash") }

// bounded is the program with other limits.
func bounded(p sandbox.Program, l job.Limits) sandbox.Program {
	p.Limits = l.Filled(ample)
	return p
}

// kept is a sink that keeps everything.
type kept struct {
	stdout, stderr bytes.Buffer
	artifacts      map[string]string
}

func (k *kept) Stdout(p []byte) error { k.stdout.Write(p); return nil }
func (k *kept) Stderr(p []byte) error { k.stderr.Write(p); return nil }

func (k *kept) Artifact(_ context.Context, name string, _ int64, r io.Reader) error {
	var b strings.Builder
	if _, err := io.Copy(&b, r); err != nil {
		return err
	}
	if k.artifacts == nil {
		k.artifacts = map[string]string{}
	}
	k.artifacts[name] = b.String()
	return nil
}

// run runs the program; Glovebox must not fail.
func run(tb testing.TB, p sandbox.Program) (sandbox.Outcome, *kept) {
	tb.Helper()
	k := &kept{}
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	o, err := open(tb).Run(ctx, p, k)
	if err != nil {
		tb.Fatalf("%v\nstderr: %s", err, k.stderr.String())
	}
	return o, k
}
