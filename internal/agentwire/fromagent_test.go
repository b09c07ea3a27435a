package agentwire

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// The frames of a good session, by short names.
func agentFrames(t *testing.T) map[string]Frame {
	t.Helper()
	return map[string]Frame{
		"cleared":     frame(t, TypeCleared, nil),
		"ready":       frame(t, TypeReady, Ready{Protocol: Version, Kernel: "Linux version 4.19.0-gvisor"}),
		"old ready":   frame(t, TypeReady, Ready{Protocol: Version + 1}),
		"compiling":   frame(t, TypeCompileOutput, "warning"),
		"compiled":    frame(t, TypeCompiled, Compiled{}),
		"miscompile":  frame(t, TypeCompiled, Compiled{ExitCode: 1}),
		"precompiled": frame(t, TypeCompiled, Compiled{Preloaded: true}),
		"started":     frame(t, TypeStarted, Started{}),
		"refused":     frame(t, TypeRefused, Refused{Message: "no\nroom"}),
		"preloaded":   frame(t, TypeStarted, Started{Preloaded: true}),
		"prepared":    frame(t, TypePrepared, Prepared{CPUMS: 1300, MemoryBytes: 100 << 20}),
		"failing":     frame(t, TypePrepared, Prepared{Failure: "no\nway"}),
		"slow":        frame(t, TypePrepared, Prepared{CPUMS: -1}),
		"out":         frame(t, TypeStdout, "out"),
		"err":         frame(t, TypeStderr, "err"),
		"shown":       frame(t, TypeShown, "{}\n"),
		"exit shown":  frame(t, TypeExit, Exit{Cause: Exited, ShownLeftOut: 1}),
		"out 1k":      frame(t, TypeStdout, strings.Repeat("x", 1024)),
		"exit":        frame(t, TypeExit, Exit{Cause: Exited}),
		"exit 256":    frame(t, TypeExit, Exit{Cause: Exited, ExitCode: 256}),
		"exit why":    frame(t, TypeExit, Exit{Cause: "boredom"}),
		"exit sig":    frame(t, TypeExit, Exit{Cause: Exited, Signal: "SIG\x1b"}),
		"exit time":   frame(t, TypeExit, Exit{Cause: Exited, Usage: job.Usage{CPUMS: -1}}),
		"exit age":    frame(t, TypeExit, Exit{Cause: Exited, Usage: job.Usage{WallMS: 1 << 62}}),
		"exit fat":    frame(t, TypeExit, Exit{Cause: Exited, Usage: job.Usage{MemoryPeakBytes: 1 << 62}}),
		"a":           frame(t, TypeArtifactBegin, ArtifactBegin{Name: "a", Size: 3}),
		"b":           frame(t, TypeArtifactBegin, ArtifactBegin{Name: "b"}),
		"c":           frame(t, TypeArtifactBegin, ArtifactBegin{Name: "c"}),
		"../x":        frame(t, TypeArtifactBegin, ArtifactBegin{Name: "../x"}),
		"huge":        frame(t, TypeArtifactBegin, ArtifactBegin{Name: "huge", Size: 1<<20 + 1}),
		"negative":    frame(t, TypeArtifactBegin, ArtifactBegin{Name: "n", Size: -1}),
		"data":        frame(t, TypeArtifactData, "abc"),
		"data 1":      frame(t, TypeArtifactData, "a"),
		"a end":       frame(t, TypeArtifactEnd, nil),
		"skip":        frame(t, TypeSkipped, Skipped{Name: "x\ny", Reason: "is a FIFO"}),
		"fault":       frame(t, TypeFault, Fault{Message: "no\nwork"}),
		"end":         frame(t, TypeEnd, End{}),
		"end 1":       frame(t, TypeEnd, End{SkippedTotal: 1}),
		"end -1":      frame(t, TypeEnd, End{SkippedTotal: -1}),
		"no json":     frame(t, TypeReady, "{"),
		"two json":    frame(t, TypeReady, "{}{}"),
		"new field":   frame(t, TypeReady, `{"protocol":2,"kernel":"","more":1}`),
	}
}

func TestFromAgent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		frames  string // comma-separated; a "!" stands before the first that is refused
		compile bool
		prepare bool // and the program may have it
	}{
		{frames: "ready,started,out,err,exit,a,data,a end,b,a end,end"},
		{frames: "ready,started,exit,skip,a,data 1,data 1,data 1,a end,skip,!end 1"},
		{frames: "ready,started,exit,skip,end 1,!fault"},
		{frames: "ready,started,exit,!end -1"},
		{frames: "ready,compiling,compiled,started,exit,end", compile: true},
		{frames: "ready,compiled,started,exit,end", compile: true},
		{frames: "ready,compiling,miscompile,end", compile: true},
		{frames: "ready,refused,end", compile: true},
		{frames: "ready,refused,end"},
		{frames: "ready,prepared,refused,end", prepare: true},
		{frames: "ready,refused,!started"},
		{frames: "ready,refused,!err"},
		{frames: "ready,refused,!a"},
		{frames: "ready,refused,!refused"},
		{frames: "ready,compiling,!refused", compile: true},
		{frames: "ready,started,!refused"},
		{frames: "!refused"},
		{frames: "ready,miscompile,!started", compile: true},
		{frames: "ready,!started", compile: true},
		{frames: "ready,compiled,!compiled", compile: true},
		{frames: "ready,prepared,preloaded,out,exit,end", prepare: true},
		{frames: "ready,prepared,started,exit,end", prepare: true},
		{frames: "ready,started,exit,end", prepare: true},
		{frames: "ready,failing,started,exit,end", prepare: true},
		{frames: "ready,prepared,compiled,started,exit,end", prepare: true, compile: true},
		{frames: "ready,prepared,compiling,precompiled,started,exit,end", prepare: true, compile: true},
		{frames: "ready,prepared,precompiled,!preloaded", prepare: true, compile: true},
		{frames: "ready,prepared,compiled,!preloaded", prepare: true, compile: true},
		{frames: "ready,failing,!precompiled", prepare: true, compile: true},
		{frames: "ready,!precompiled", prepare: true, compile: true},
		{frames: "ready,!precompiled", compile: true},
		{frames: "ready,!preloaded", prepare: true},
		{frames: "ready,failing,!preloaded", prepare: true},
		{frames: "ready,prepared,!prepared", prepare: true},
		{frames: "ready,started,!prepared", prepare: true},
		{frames: "ready,!slow", prepare: true},
		{frames: "!prepared", prepare: true},
		{frames: "ready,!prepared"},
		{frames: "ready,!preloaded"},
		{frames: "ready,!compiled"},
		{frames: "ready,!compiling"},
		{frames: "!started"},
		{frames: "!out"},
		{frames: "!end"},
		{frames: "!exit"},
		{frames: "!a"},
		{frames: "!old ready"},
		{frames: "!no json"},
		{frames: "!two json"},
		{frames: "!new field"},
		{frames: "ready,!ready"},
		{frames: "ready,!out"},
		{frames: "ready,!end"},
		{frames: "ready,started,!started"},
		{frames: "ready,started,!a"},
		{frames: "ready,started,!end"},
		{frames: "ready,started,!skip"},
		{frames: "ready,started,exit,!exit"},
		{frames: "ready,started,exit,!out"},
		{frames: "ready,started,!shown"},
		{frames: "ready,started,!exit shown"},
		{frames: "ready,started,!exit 256"},
		{frames: "ready,started,!exit why"},
		{frames: "ready,started,!exit sig"},
		{frames: "ready,started,!exit time"},
		{frames: "ready,started,!exit age"},
		{frames: "ready,started,!exit fat"},
		{frames: "ready,started,out 1k,err,!out"},
		{frames: "ready,started,exit,!data"},
		{frames: "ready,started,exit,!a end"},
		{frames: "ready,started,exit,a,!a end"},
		{frames: "ready,started,exit,a,data,!data 1"},
		{frames: "ready,started,exit,a,!b"},
		{frames: "ready,started,exit,a,data,a end,!a"},
		{frames: "ready,started,exit,a,data,a end,b,a end,!c"},
		{frames: "ready,started,exit,!../x"},
		{frames: "ready,started,exit,!huge"},
		{frames: "ready,started,exit,!negative"},
		{frames: "fault,!ready"},
		{frames: "ready,fault,!end"},
		{frames: "ready,started,out,fault"},
	}
	known := agentFrames(t)
	for _, tt := range tests {
		t.Run(tt.frames, func(t *testing.T) {
			t.Parallel()
			a := FromAgent{Limits: filled, Compile: tt.compile, Prepare: tt.prepare, Preload: tt.prepare}
			a.Granted(1 << 20)
			inOrder(t, tt.frames, known, func(f Frame) error { _, err := a.Accept(f); return err }, nothing)
		})
	}
}

func TestFromAgentCounts(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	start := func(grant int64) *FromAgent {
		a := &FromAgent{Limits: filled}
		a.Granted(grant)
		for _, name := range []string{"ready", "started"} {
			if _, err := a.Accept(known[name]); err != nil {
				t.Fatal(err)
			}
		}
		return a
	}
	a := start(3 + FrameCost)
	if _, err := a.Accept(known["out"]); err != nil {
		t.Error(err)
	}
	if _, err := a.Accept(known["out"]); !errors.Is(err, ErrProtocol) {
		t.Errorf("output beyond the credit: got %v, want ErrProtocol", err)
	}
	a = start(1 << 20)
	if _, err := a.Accept(known["exit"]); err != nil {
		t.Fatal(err)
	}
	for i := range job.MaxSkipped + 1 {
		message, err := a.Accept(known["skip"])
		if (err != nil) != (i == job.MaxSkipped) {
			t.Errorf("skipped file %d: got %v", i, err)
		}
		if skipped, ok := message.(Skipped); err == nil && (!ok || skipped.Name != "x\uFFFDy") {
			t.Errorf("got %+v, want a name that can be shown", message)
		}
	}
}

// TestFromAgentMessages: Accept returns what a frame says, fit to be shown, and nothing of a
// frame that it refuses.
func TestFromAgentMessages(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	a := FromAgent{Limits: filled, Prepare: true, Preload: true}
	a.Granted(1 << 20)
	for _, step := range []struct {
		frame string
		want  any
	}{
		{"ready", Ready{Protocol: Version, Kernel: "Linux version 4.19.0-gvisor"}},
		{"failing", Prepared{Failure: "no\uFFFDway"}},
		{"started", Started{}},
		{"out", nil},
		{"exit", Exit{Cause: Exited}},
		{"a", ArtifactBegin{Name: "a", Size: 3}},
		{"data", nil},
		{"a end", nil},
		{"b", ArtifactBegin{Name: "b"}},
		{"a end", nil},
		{"a", nil}, // it comes twice
		{"fault", Fault{Message: "no\uFFFDwork"}},
	} {
		if got, _ := a.Accept(known[step.frame]); !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s: got %+v, want %+v", step.frame, got, step.want)
		}
	}
}

// TestFromAgentSum: small files with holes can add up to more than fits the directory.
func TestFromAgentSum(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	a := FromAgent{Limits: filled}
	a.Limits.DiskMB = 1
	a.Granted(2 << 20)
	good := []Frame{known["ready"], known["started"], known["exit"], frame(t, TypeArtifactBegin, ArtifactBegin{Name: "whole", Size: 1 << 20})}
	for range 16 {
		good = append(good, frame(t, TypeArtifactData, strings.Repeat("x", MaxPayload)))
	}
	for _, f := range append(good, known["a end"]) {
		if _, err := a.Accept(f); err != nil {
			t.Fatal(f.Type, err)
		}
	}
	if _, err := a.Accept(known["a"]); !errors.Is(err, ErrProtocol) {
		t.Errorf("3 bytes more than limits.disk_mb: got %v, want ErrProtocol", err)
	}
}
