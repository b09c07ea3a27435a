package session

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestRealAgent: the real agent, outside a sandbox, is given no program: it says why it refuses
// to run, and ends with its stream.
func TestRealAgent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/glovebox-run/glovebox/cmd/glovebox-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pipes, in, out, errs := agentPipes(t)
	agent := exec.CommandContext(t.Context(), path)
	agent.Stdin, agent.Stdout, agent.Stderr = in, out, errs
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{in, out, errs} {
		f.Close()
	}
	s := New(time.Now(), pipes)
	program := sandbox.Program{Command: []string{"true"}, Limits: job.Limits{}.Filled(job.Limits{})}
	err := s.Serve(t.Context(), Task{Program: program, Sink: &discard{}}, time.Minute)
	if err == nil || !strings.HasPrefix(err.Error(), "agent: refuse to run") {
		t.Errorf("got %v, want the agent's refusal", err)
	}
	if s.Begun() {
		t.Error("its program is taken for begun")
	}
	if !s.endsWithin(time.Minute) {
		t.Error("the agent stays though its worker has gone")
	}
	s.Close()
	if err := agent.Wait(); err == nil {
		t.Error("an agent that refused ended with status 0")
	}
}
