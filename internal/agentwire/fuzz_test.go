package agentwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// FuzzFromAgent feeds the worker's end any bytes: it refuses them or keeps its
// promises, and never holds more than one frame.
func FuzzFromAgent(f *testing.F) {
	f.Add(agentSession(f, false), false)
	f.Add(agentSession(f, true), true)
	f.Add([]byte{byte(TypeStdout), 255, 255, 255, 255}, false)
	f.Fuzz(func(t *testing.T, stream []byte, compile bool) {
		const granted = 1 << 16
		a := FromAgent{Limits: filled, Compile: compile, Prepare: true, Preload: true}
		a.Granted(granted)
		r := FromAgentReader(bytes.NewReader(stream))
		var bulk, artifacts int64
		for {
			frame, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrProtocol) {
					t.Fatalf("got %v, want io.EOF or ErrProtocol", err)
				}
				return
			}
			if len(frame.Payload) > MaxPayload {
				t.Fatalf("a payload of %d bytes", len(frame.Payload))
			}
			over := a.Over()
			message, err := a.Accept(frame)
			if over && err == nil {
				t.Fatal("a frame after the end is accepted")
			}
			if err != nil {
				return
			}
			bulk += frame.Cost()
			if bulk > granted {
				t.Fatal("more than the credit is accepted")
			}
			if a, ok := message.(ArtifactBegin); ok {
				artifacts++
				if problem := job.CheckName(a.Name); problem != "" || a.Size > filled.ArtifactMB<<20 || artifacts > filled.Artifacts {
					t.Fatalf("accepted artifact %d, %+v: %s", artifacts, a, problem)
				}
			}
		}
	})
}

// FuzzTests feeds the worker's end any bytes of an agent that is to run tests: no run passes a limit,
// none comes that was not announced, and there are no artifacts.
func FuzzTests(f *testing.F) {
	f.Add(testsSession(f))
	f.Add(agentSession(f, true))
	f.Fuzz(func(t *testing.T, stream []byte) {
		a := FromAgent{Limits: filled, Compile: true, Tests: true}
		a.Granted(1 << 20)
		r := FromAgentReader(bytes.NewReader(stream))
		announced, started, exited := 0, 0, 0
		var stdout, stderr int
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			if _, err := a.Accept(frame); err != nil {
				return
			}
			switch frame.Type {
			case TypeStarted:
				started, stdout, stderr = started+1, 0, 0
			case TypeStdout:
				stdout += len(frame.Payload)
			case TypeStderr:
				stderr += len(frame.Payload)
			case TypeExit:
				exited++
			case TypeCleared:
				if started != exited {
					t.Fatal("accepted that a run that goes on has left nothing")
				}
				if announced < 3 {
					a.NextTest()
					announced++
				} else {
					a.Done()
				}
			case TypeArtifactBegin, TypeSkipped:
				t.Fatalf("accepted %s", frame.Type)
			case TypeEnd:
				if started != exited {
					t.Fatal("accepted the end of a run that goes on")
				}
			}
			if started > announced || exited > started || int64(stdout) > filled.OutputKB<<10 || stderr > MaxTestStderr {
				t.Fatalf("accepted %d runs of %d, %d exits, %d and %d bytes", started, announced, exited, stdout, stderr)
			}
		}
	})
}

// FuzzTurns feeds the worker's end any bytes of a session's agent: no turn passes a limit, none comes that was not
// announced, and none begins before the one before it has sent its files.
func FuzzTurns(f *testing.F) {
	f.Add(turnsSession(f))
	f.Add(agentSession(f, true))
	f.Fuzz(func(t *testing.T, stream []byte) {
		a := FromAgent{Limits: filled, Session: true}
		a.Granted(1 << 20)
		a.NextTurn(nil)
		r := FromAgentReader(bytes.NewReader(stream))
		announced, started, ended := 1, 0, 0
		var stdout, shown, artifacts int64
		for {
			frame, err := r.Next()
			if err != nil {
				return
			}
			message, err := a.Accept(frame)
			if err != nil {
				return
			}
			if exit, ok := message.(Exit); ok && (exit.ShownLeftOut < 0 || exit.ShownLeftOut > 1<<30) {
				t.Fatalf("accepted %d results that were left out", exit.ShownLeftOut)
			}
			switch frame.Type {
			case TypeStarted:
				started, stdout, shown, artifacts = started+1, 0, 0, 0
			case TypeStdout:
				stdout += int64(len(frame.Payload))
			case TypeShown:
				shown += int64(len(frame.Payload))
			case TypeArtifactBegin:
				artifacts++
			case TypeTurned:
				ended++
				if announced < 3 {
					a.NextTurn(nil)
					announced++
				} else {
					a.Done()
				}
			}
			if started > announced || ended > started || started > ended+1 || stdout > filled.OutputKB<<10 || shown > MaxShown || artifacts > filled.Artifacts {
				t.Fatalf("accepted %d turns of %d, %d ends, %d bytes, %d shown, %d artifacts", started, announced, ended, stdout, shown, artifacts)
			}
		}
	})
}

// FuzzFromHost feeds the agent's end any bytes.
func FuzzFromHost(f *testing.F) {
	f.Add(hostSession(f, false))
	f.Add(hostSession(f, true))
	f.Add([]byte{byte(TypeStart), 0, 0, 0, 1, '{'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		var h FromHost
		r := FromHostReader(bytes.NewReader(stream))
		for {
			frame, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, ErrProtocol) {
					t.Fatalf("got %v, want io.EOF or ErrProtocol", err)
				}
				return
			}
			if h.Accept(frame) != nil {
				return
			}
			switch frame.Type {
			case TypeFileBegin:
				if problem := job.CheckName(h.File.Name); problem != "" || h.File.Size < 0 {
					t.Fatalf("accepted input %+v: %s", h.File, problem)
				}
			case TypeGo:
				if len(h.Start.Command) == 0 || h.Start.Limits.WallMS <= 0 || h.Start.Limits.MemoryMB <= 0 {
					t.Fatalf("accepted %+v", h.Start)
				}
			}
		}
	})
}

func agentSession(tb testing.TB, compile bool) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	write := func(t Type, v any) {
		p, ok := v.(string)
		if !ok && v != nil {
			j, err := json.Marshal(v)
			if err != nil {
				tb.Fatal(err)
			}
			p = string(j)
		}
		if err := w.Write(t, []byte(p)); err != nil {
			tb.Fatal(err)
		}
	}
	write(TypeReady, Ready{Protocol: Version, Kernel: "k"})
	write(TypePrepared, Prepared{CPUMS: 1, MemoryBytes: 1})
	if compile {
		write(TypeCompileOutput, "warning")
		write(TypeCompiled, Compiled{})
	}
	write(TypeStarted, Started{Preloaded: true})
	write(TypeStdout, "out")
	write(TypeStderr, "err")
	write(TypeExit, Exit{Cause: Exited, Signal: "SIGSEGV", ExitCode: 139})
	write(TypeArtifactBegin, ArtifactBegin{Name: "dir/a.png", Size: 3})
	write(TypeArtifactData, "abc")
	write(TypeArtifactEnd, nil)
	write(TypeSkipped, Skipped{Name: "fifo", Reason: "is a FIFO"})
	write(TypeEnd, End{SkippedTotal: 1})
	return b.Bytes()
}

func testsSession(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	errs := []error{w.WriteJSON(TypeReady, Ready{Protocol: Version, Kernel: "k"}), w.WriteJSON(TypeCompiled, Compiled{})}
	for range 3 {
		errs = append(
			errs, w.Write(TypeCleared, nil), w.WriteJSON(TypeStarted, Started{}), w.Write(TypeStdout, []byte("out")), w.Write(TypeStderr, []byte("err")),
			w.WriteJSON(TypeExit, Exit{Cause: Exited}),
		)
	}
	if err := errors.Join(append(errs, w.Write(TypeCleared, nil), w.WriteJSON(TypeEnd, End{}))...); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func turnsSession(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	errs := []error{w.WriteJSON(TypeReady, Ready{Protocol: Version, Kernel: "k"})}
	for range 3 {
		errs = append(
			errs, w.WriteJSON(TypeStarted, Started{}), w.Write(TypeStdout, []byte("out")), w.Write(TypeShown, []byte("{}\n")),
			w.WriteJSON(TypeExit, Exit{Cause: Exited, Lost: true, ShownLeftOut: 1}),
			w.WriteJSON(TypeArtifactBegin, ArtifactBegin{Name: "a", Size: 1}), w.Write(TypeArtifactData, []byte("a")), w.Write(TypeArtifactEnd, nil),
			w.WriteJSON(TypeTurned, Turned{}),
		)
	}
	if err := errors.Join(append(errs, w.WriteJSON(TypeEnd, End{}))...); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func hostSession(tb testing.TB, tests bool) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	if tests {
		if err := errors.Join(
			w.WriteCredit(1000), w.WriteStart(Start{Protocol: Version, Command: []string{"x"}, Limits: filled, Tests: true}), w.Write(TypeGo, nil),
			w.WriteJSON(TypeTest, Test{Args: []string{"a"}}), w.Write(TypeStdinData, []byte("in")), w.Write(TypeGo, nil),
			w.WriteJSON(TypeTest, Test{}), w.Write(TypeGo, nil), w.Write(TypeDone, nil),
		); err != nil {
			tb.Fatal(err)
		}
		return b.Bytes()
	}
	for _, err := range []error{
		w.WriteCredit(1000),
		w.WriteJSON(TypePrepare, Prepare{Protocol: Version, Command: []string{"x"}}),
		w.WriteStart(Start{Protocol: Version, Command: []string{"x"}, Env: map[string]string{"A": "b"}, Limits: filled, PreparedMB: 100}),
		w.WriteJSON(TypeFileBegin, FileBegin{Name: "dir/a", Size: 3}),
		w.Write(TypeFileData, []byte("abc")),
		w.Write(TypeStdinData, []byte("in")),
		w.Write(TypeGo, nil), w.Write(TypeKill, nil),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return b.Bytes()
}
