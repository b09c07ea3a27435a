package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// recorder is a sink that keeps everything.
type recorder struct {
	stdout, stderr strings.Builder
	artifacts      map[string]string
}

func (r *recorder) Stdout(p []byte) error { r.stdout.Write(p); return nil }
func (r *recorder) Stderr(p []byte) error { r.stderr.Write(p); return nil }
func (r *recorder) Artifact(_ context.Context, name string, _ int64, from io.Reader) error {
	b, err := io.ReadAll(from)
	r.artifacts[name] = string(b)
	return err
}

// fakeCgroup records what it is told to enforce.
type fakeCgroup struct {
	extraMB int64
	err     error
	killed  bool
}

func (c *fakeCgroup) Bound(_ job.Limits, extraMB int64) error { c.extraMB = extraMB; return c.err }
func (c *fakeCgroup) OOMKilled() bool                         { return c.killed }

// fileOf is an input that is read while it is sent.
func fileOf(name, content string, size int64, err error) sandbox.File {
	return sandbox.File{Name: name, Size: size, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), err
	}}
}

var errInput = errors.New("the store is down")

func TestServe(t *testing.T) {
	t.Parallel()
	exit := func(r *rogue, e agentwire.Exit) {
		r.send(agentwire.TypeExit, e)
		r.send(agentwire.TypeEnd, agentwire.End{})
	}
	tests := []struct {
		name   string
		task   Task
		cgroup *fakeCgroup
		warm   bool // the sandbox waited
		act    func(*rogue)
		err    error
		says   string          // what the error contains
		want   sandbox.Outcome // as far as it is compared
		stdout string
		stderr string
		files  map[string]string // artifacts
	}{
		{
			name: "output and artifacts",
			act: func(r *rogue) {
				r.started()
				r.send(agentwire.TypeStdout, "out")
				r.send(agentwire.TypeStderr, "err")
				r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Exited})
				r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "a", Size: 6})
				r.send(agentwire.TypeArtifactData, "abc")
				r.send(agentwire.TypeArtifactData, "def")
				r.send(agentwire.TypeArtifactEnd, nil)
				r.send(agentwire.TypeSkipped, agentwire.Skipped{Name: "fifo", Reason: "is a FIFO"})
				r.send(agentwire.TypeEnd, agentwire.End{SkippedTotal: 3})
			},
			want:   sandbox.Outcome{Status: job.Succeeded, Skipped: []job.Skipped{{Name: "fifo", Reason: "is a FIFO"}}, SkippedTotal: 3},
			stdout: "out", stderr: "err", files: map[string]string{"a": "abcdef"},
		},
		{
			name: "more output than the window",
			act: func(r *rogue) {
				r.started()
				r.print(agentwire.TypeStdout, strings.Repeat("x", 3*window/2))
				exit(r, agentwire.Exit{Cause: agentwire.Exited})
			},
			want: sandbox.Outcome{Status: job.Succeeded}, stdout: strings.Repeat("x", 3*window/2),
		},
		{
			name: "exit code",
			act: func(r *rogue) {
				r.started()
				exit(r, agentwire.Exit{Cause: agentwire.Exited, ExitCode: 7})
			},
			want: sandbox.Outcome{Status: job.Failed, ExitCode: 7},
		},
		{
			name: "time-out, after half a line",
			act: func(r *rogue) {
				r.started()
				r.send(agentwire.TypeStderr, "half")
				exit(r, agentwire.Exit{Cause: agentwire.Wall, ExitCode: 124})
			},
			want: sandbox.Outcome{Status: job.TimedOut, ExitCode: 124, Limit: "wall_ms"}, stderr: "half\nExecution timed out\n",
		},
		{
			name: "refused",
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeRefused, agentwire.Refused{Message: "no room"})
				r.send(agentwire.TypeEnd, agentwire.End{})
			},
			want: sandbox.Outcome{Status: job.Failed, ExitCode: 1}, stderr: "no room\n",
		},
		{
			name: "compile step fails",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeCompileOutput, "main.c:1: error")
				r.send(agentwire.TypeCompiled, agentwire.Compiled{ExitCode: 2, WallMS: 5})
				r.send(agentwire.TypeEnd, agentwire.End{})
			},
			want: sandbox.Outcome{Status: job.CompileFailed, ExitCode: 2, Compile: &job.Compile{ExitCode: 2, WallMS: 5, Output: "main.c:1: error"}},
		},
		{
			name: "compile step succeeds",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeCompiled, agentwire.Compiled{})
				r.send(agentwire.TypeStarted, agentwire.Started{})
				exit(r, agentwire.Exit{Cause: agentwire.Exited})
			},
			want: sandbox.Outcome{Status: job.Succeeded, Compile: &job.Compile{}},
		},
		{
			name: "what the compile step left is read for longer than the program may run",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeCompiled, agentwire.Compiled{})
				time.Sleep(time.Duration(job.DefaultLimits.WallMS)*time.Millisecond + collectTimeout)
				r.send(agentwire.TypeStarted, agentwire.Started{})
				exit(r, agentwire.Exit{Cause: agentwire.Exited})
			},
			want: sandbox.Outcome{Status: job.Succeeded, Compile: &job.Compile{}},
		},
		{
			name: "compile step never ends",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeCompileOutput, "main.c:1: warning\n")
			},
			want: sandbox.Outcome{Status: job.CompileFailed, ExitCode: job.TimedOutExitCode, Compile: &job.Compile{
				ExitCode: job.TimedOutExitCode, WallMS: job.DefaultLimits.WallMS + grace.Milliseconds(), Output: "main.c:1: warning\nCompilation timed out\n",
			}, Silent: true},
		},
		{
			name: "program never ends",
			act:  func(r *rogue) { r.started(); r.send(agentwire.TypeStdout, "begins\n") },
			want: sandbox.Outcome{Status: job.TimedOut, ExitCode: job.TimedOutExitCode, Limit: "wall_ms", Silent: true}, stdout: "begins\n", stderr: "Execution timed out\n",
		},
		{
			name: "compile step says nothing",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act:  func(r *rogue) { r.ready() },
			want: sandbox.Outcome{Status: job.CompileFailed, ExitCode: job.TimedOutExitCode, Compile: &job.Compile{
				ExitCode: job.TimedOutExitCode, WallMS: job.DefaultLimits.WallMS + grace.Milliseconds(), Output: "Compilation timed out\n",
			}, Silent: true},
		},
		{
			name: "compile step of a sandbox that waited says nothing after an input was read",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}, Files: []sandbox.File{fileOf("a", "abc", 3, nil)}}}, warm: true,
			act: func(r *rogue) { r.ready() },
			want: sandbox.Outcome{Status: job.CompileFailed, ExitCode: job.TimedOutExitCode, Compile: &job.Compile{
				ExitCode: job.TimedOutExitCode, WallMS: job.DefaultLimits.WallMS + grace.Milliseconds(), Output: "Compilation timed out\n",
			}, Silent: true, Warm: true},
		},
		{
			name: "compile step of a sandbox that waited says nothing",
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}}, warm: true,
			act: func(r *rogue) { r.ready() },
			err: errOverdue, // and it gets another sandbox
		},
		{
			name: "compile step killed by the kernel, and nobody says so", cgroup: &fakeCgroup{killed: true},
			task: Task{Program: sandbox.Program{Compile: []string{"cc"}}},
			act:  func(r *rogue) { r.ready() },
			want: sandbox.Outcome{Status: job.OutOfMemory, ExitCode: 137, Signal: "SIGKILL", Limit: "memory_mb"},
		},
		{
			name: "inputs",
			task: Task{Program: sandbox.Program{Files: []sandbox.File{{Name: "a", Content: []byte("a")}, fileOf("b", "bcd", 3, nil), fileOf("c", "", 0, nil)}}},
			act: func(r *rogue) {
				r.started()
				exit(r, agentwire.Exit{Cause: agentwire.Exited})
			},
			want: sandbox.Outcome{Status: job.Succeeded},
		},
		{
			name: "an input that can't be read",
			task: Task{Program: sandbox.Program{Files: []sandbox.File{fileOf("a", "", 0, errInput)}}},
			act:  func(r *rogue) { r.ready() },
			err:  errInput,
		},
		{
			name: "an input of another size",
			task: Task{Program: sandbox.Program{Files: []sandbox.File{fileOf("a", "abc", 4, nil)}}},
			act:  func(r *rogue) { r.ready() },
			says: `read input "a": it does not have the 4 bytes`,
		},
		{
			name: "a cgroup that can't bound it", cgroup: &fakeCgroup{err: errors.New("cpu.max is missing")},
			act: func(r *rogue) { r.ready() },
			err: sandbox.ErrUnavailable,
		},
		{
			name: "killed by the kernel, and nobody says so", cgroup: &fakeCgroup{killed: true},
			act:  func(r *rogue) { r.started() },
			want: sandbox.Outcome{Status: job.OutOfMemory, ExitCode: 137, Signal: "SIGKILL", Limit: "memory_mb"},
		},
		{
			name: "not prepared, yet preloaded",
			task: Task{Preloaded: true, PreloadMB: 100}, cgroup: &fakeCgroup{},
			act: func(r *rogue) {
				r.ready()
				<-r.told
				r.send(agentwire.TypeStarted, agentwire.Started{Preloaded: true})
			},
			err: agentwire.ErrProtocol,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sink := &recorder{artifacts: map[string]string{}}
				task := tt.task
				task.Sink = sink
				task.Program.Command, task.Program.Limits = []string{"x"}, job.Limits{OutputKB: 2000}.Filled(job.Limits{})
				s, err := serve(t, task, tt.cgroup, &rogue{act: tt.act, before: func(s *Session) { s.Outcome.Warm = tt.warm }})
				if failed := tt.err != nil || tt.says != ""; failed != (err != nil) || tt.err != nil && !errors.Is(err, tt.err) {
					t.Fatalf("got %v, want %v", err, tt.err)
				}
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want %q in it", err, tt.says)
				}
				if tt.cgroup != nil && tt.cgroup.extraMB != task.PreloadMB {
					t.Errorf("its cgroup got %d MiB more, want %d", tt.cgroup.extraMB, task.PreloadMB)
				}
				if err != nil {
					return
				}
				if !s.Begun() {
					t.Error("the program is not taken for begun")
				}
				got := s.Outcome
				got.Kernel, got.Timing, got.Startup, got.Usage = "", sandbox.Timing{}, 0, job.Usage{}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("outcome (-want +got)\n%s", diff)
				}
				if sink.stdout.String() != tt.stdout || sink.stderr.String() != tt.stderr {
					t.Errorf("got stdout %.100q, stderr %.100q, want %.100q, %.100q", sink.stdout.String(), sink.stderr.String(), tt.stdout, tt.stderr)
				}
				if len(tt.files) > 0 && !cmp.Equal(tt.files, sink.artifacts) {
					t.Errorf("got artifacts %q, want %q", sink.artifacts, tt.files)
				}
			})
		})
	}
}

// TestPreload: a process that was preloaded, and only one, can be the program's.
func TestPreload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := &rogue{act: func(r *rogue) {
			r.ready()
			<-r.prepares
			r.send(agentwire.TypePrepared, agentwire.Prepared{CPUMS: 5, MemoryBytes: 1 << 20})
			<-r.told
			r.send(agentwire.TypeStarted, agentwire.Started{Preloaded: true})
			r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Exited})
			r.send(agentwire.TypeEnd, agentwire.End{})
		}}
		agent.before = func(s *Session) {
			if err := s.AwaitReady(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			if err := s.Prepare(agentwire.Prepare{Protocol: agentwire.Version, Command: []string{"x"}}, time.Minute); err != nil {
				t.Error(err)
			}
			if got := <-s.Prepared(); got.MemoryBytes != 1<<20 {
				t.Errorf("got %+v", got)
			}
			s.Claim(time.Now())
		}
		limits := job.Limits{}.Filled(job.Limits{})
		s, err := serve(t, Task{Program: sandbox.Program{Command: []string{"x"}, Limits: limits}, Sink: &discard{}, PreloadMB: 10, Preloaded: true}, nil, agent)
		if err != nil || !s.Outcome.Preloaded || s.Outcome.Start() != "preloaded" || !bytes.Contains(agent.start, []byte(`"prepared_mb":10`)) {
			t.Errorf("got %+v, %v, with start %s", s.Outcome, err, agent.start)
		}
	})
}
