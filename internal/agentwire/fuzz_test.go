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

// FuzzFromHost feeds the agent's end any bytes.
func FuzzFromHost(f *testing.F) {
	f.Add(hostSession(f))
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

func hostSession(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
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
