package agentwire

import (
	"errors"
	"strings"
	"testing"
)

// TestFromAgentTests: "test" and "done" stand for what the worker has said.
func TestFromAgentTests(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	for _, frames := range []string{
		"ready,cleared,test,started,out,err,exit,cleared,test,started,exit,cleared,done,end",
		"ready,cleared,done,end",
		"ready,refused,end",
		"ready,compiling,compiled,refused,end",
		"ready,compiling,compiled,cleared,test,started,exit,cleared,done,end",
		"ready,compiling,miscompile,end",
		"ready,cleared,test,started,out 1k,exit,cleared,test,started,out 1k,exit,cleared,done,end",
		"ready,cleared,test,started,exit,end",
		"ready,cleared,test,started,fault",
		"ready,!started",
		"ready,!end",
		"ready,compiling,!cleared",
		"!cleared",
		"ready,cleared,!cleared",
		"ready,cleared,!started",
		"ready,cleared,!refused",
		"ready,cleared,!end",
		"ready,cleared,test,!end",
		"ready,cleared,test,!cleared",
		"ready,cleared,test,!refused",
		"ready,cleared,test,!exit",
		"ready,cleared,test,!out",
		"ready,cleared,test,started,!started",
		"ready,cleared,test,started,!cleared",
		"ready,cleared,test,started,!end",
		"ready,cleared,test,started,out 1k,!out",
		"ready,cleared,test,started,exit,!started",
		"ready,cleared,test,started,exit,!out",
		"ready,cleared,test,started,exit,!exit",
		"ready,cleared,test,started,exit,!a",
		"ready,cleared,test,started,exit,!skip",
		"ready,cleared,test,started,exit,!refused",
		"ready,cleared,test,started,exit,cleared,!end",
		"ready,cleared,test,started,exit,cleared,done,end,!ready",
	} {
		t.Run(frames, func(t *testing.T) {
			t.Parallel()
			a := FromAgent{Limits: filled, Compile: strings.Contains(frames, "compil"), Tests: true}
			a.Granted(1 << 20)
			inOrder(t, frames, known, func(f Frame) error { _, err := a.Accept(f); return err }, func(name string) bool {
				switch name {
				case "test":
					a.NextTest()
					return true
				case "done":
					a.Done()
					return true
				}
				return false
			})
		})
	}
}

// TestStderrOfTests: of each run there is as much as the start says, and no more.
func TestStderrOfTests(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	for _, tt := range []struct{ kb, most int64 }{{0, MaxTestStderr}, {1, 1 << 10}, {9 << 10, 9 << 20}} {
		a := FromAgent{Limits: filled, Tests: true, StderrKB: tt.kb}
		a.Granted(100 << 20)
		accept := func(f Frame) error { _, err := a.Accept(f); return err }
		if err := accept(known["ready"]); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			err := accept(known["cleared"])
			a.NextTest()
			if err = errors.Join(err, accept(known["started"])); err != nil {
				t.Fatal(err)
			}
			for left := tt.most; left > 0; left -= MaxPayload {
				if err := accept(frame(t, TypeStderr, strings.Repeat("x", int(min(left, MaxPayload))))); err != nil {
					t.Fatalf("%d KiB: %d bytes before the end: %v", tt.kb, left, err)
				}
			}
			if err := accept(known["exit"]); err != nil {
				t.Fatal(err)
			}
		}
		a.NextTest()
		if err := errors.Join(accept(known["cleared"]), accept(known["started"])); err != nil {
			t.Fatal(err)
		}
		var err error
		for sent := int64(0); sent <= tt.most && err == nil; sent += MaxPayload {
			err = accept(frame(t, TypeStderr, strings.Repeat("x", MaxPayload)))
		}
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%d KiB: takes more: %v", tt.kb, err)
		}
	}
}

// TestFromAgentTurns: "turn" and "done" stand for what the worker has said.
func TestFromAgentTurns(t *testing.T) {
	t.Parallel()
	known := agentFrames(t)
	known["lost a"] = frame(t, TypeExit, Exit{Cause: Exited, LostContexts: []string{"a"}})
	known["lost a twice"] = frame(t, TypeExit, Exit{Cause: Exited, LostContexts: []string{"a", "a"}})
	known["lost"] = frame(t, TypeExit, Exit{Cause: Exited, ExitCode: 137, Signal: "SIGKILL", Lost: true})
	known["turned"] = frame(t, TypeTurned, Turned{})
	known["turned 1"] = frame(t, TypeTurned, Turned{SkippedTotal: 1})
	known["left out"] = frame(t, TypeExit, Exit{Cause: Exited, ShownLeftOut: 3})
	known["left out -1"] = frame(t, TypeExit, Exit{Cause: Exited, ShownLeftOut: -1})
	known["left out much"] = frame(t, TypeExit, Exit{Cause: Exited, ShownLeftOut: 1<<30 + 1})
	known["shown 64k"] = frame(t, TypeShown, strings.Repeat("x", MaxPayload))
	const most = "shown 64k,shown 64k,shown 64k,shown 64k,shown 64k,shown 64k,shown 64k,shown 64k"
	for _, frames := range []string{
		"ready,turn,started,shown,out,shown,left out,turned,done,end",
		"ready,turn,started," + most + ",exit,turned,turn,started," + most + ",!shown",
		"ready,turn,!shown",
		"ready,turn,started,exit,!shown",
		"ready,turn,started,exit,turned,!shown",
		"ready,turn,started,!left out -1",
		"ready,turn,started,!left out much",
		"ready,turn,started,out,err,exit,a,data,a end,turned,turn,started,lost,turned,done,end",
		"ready,done,end",
		"ready,refused,end",
		"ready,turn,refused,end",
		"ready,turn,started,out 1k,exit,turned,turn,started,out 1k,exit,turned,done,end",
		"ready,turn,started,exit,a,data,a end,turned,turn,started,exit,a,data,a end,turned",
		"ready,turn,started,exit,skip,turned 1,turn,started,exit,turned",
		"ready,turn,started,exit,skip,turned 1,done,end",
		"ready,turn,started,fault",
		"ready,!started",
		"ready,!end",
		"ready,!turned",
		"ready,!cleared",
		"ready,turn,!exit",
		"ready,turn,!out",
		"ready,turn,!turned",
		"ready,turn,started,!started",
		"ready,turn,started,!turned",
		"ready,turn,started,!end",
		"ready,turn,started,out 1k,!out",
		"ready,turn,started,exit,!out",
		"ready,turn,started,exit,!started",
		"ready,turn,started,exit,!end",
		"ready,turn,started,exit,a,data,a end,!a",
		"ready,turn,started,exit,a,!turned",
		"ready,turn,started,exit,skip,!turned",
		"ready,turn,started,exit,turned,!started",
		"ready,turn,started,exit,turned,!out",
		"ready,turn,started,exit,turned,!a",
		"ready,turn,started,exit,turned,!end",
		"ready,turn,started,exit,turned,!refused",
		"ready,turn,started,exit,turned,done,end,!ready",
		"ready,turn beside a,started,lost a,turned,turn,started,!lost a",
		"ready,turn beside a,started,!lost a twice",
	} {
		t.Run(frames, func(t *testing.T) {
			t.Parallel()
			a := FromAgent{Limits: filled, Session: true}
			a.Granted(2 << 20)
			inOrder(t, frames, known, func(f Frame) error { _, err := a.Accept(f); return err }, func(name string) bool {
				switch name {
				case "turn", "turn beside a":
					a.NextTurn(map[string]map[string]int{"turn beside a": {"a": 1}}[name])
					return true
				case "done":
					a.Done()
					return true
				}
				return false
			})
		})
	}
	outside := FromAgent{Limits: filled}
	for _, name := range []string{"ready", "started"} {
		if _, err := outside.Accept(known[name]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := outside.Accept(known["lost"]); !errors.Is(err, ErrProtocol) {
		t.Errorf("a program that is no session's lost its state: got %v, want ErrProtocol", err)
	}
}
