package agentwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func hostFrames(t *testing.T) map[string]Frame {
	t.Helper()
	start := Start{Protocol: Version, Command: []string{"x"}, Limits: filled}
	none, old := start, start
	none.Limits.WallMS, old.Protocol = 0, Version+1
	empty := start
	empty.Command = nil
	vast := start
	vast.Limits.MemoryMB = 1 << 50
	early := start
	early.PreparedMB = 100
	merged, small, shallow, negative := early, early, early, start
	merged.MergeStderr, small.Limits.AddressSpaceMB, shallow.Limits.StackMB, negative.Limits.StackMB = true, 1, 1, -1
	talking, talkingTests, talkingSession, talkingPrepared := start, start, start, early
	talking.Interactive, talkingTests.Interactive, talkingSession.Interactive, talkingPrepared.Interactive = true, true, true, true
	talkingTests.Tests, talkingSession.Session = true, true
	compiler := early
	compiler.Compile, compiler.Limits.CompileWallMS, compiler.Limits.CompileMemoryMB = []string{"x", "y"}, 1, 1
	compilerTests := compiler
	compilerTests.Tests, compilerTests.Interactive, compilerTests.MergeStderr, compilerTests.Limits.StackMB = true, true, true, 1
	tests, warm := start, early
	tests.Tests, warm.Tests = true, true
	loud, loudTests, loudest, hushed := start, tests, tests, tests
	loud.StderrKB, loudTests.StderrKB, loudest.StderrKB, hushed.StderrKB = 1, 1, 1<<50, -1
	offline, offlineTests := start, tests
	offline.NoInternet, offlineTests.NoInternet = true, true
	forked, forkedProgram, forkedFree, forkedVast := tests, start, tests, tests
	forked.Forks, forkedProgram.Forks = &Forks{Words: []string{"numpy"}, MemoryMB: 190}, &Forks{MemoryMB: 190}
	forkedFree.Forks, forkedVast.Forks = &Forks{}, &Forks{MemoryMB: 1 << 50}
	forkedCompiled := forked
	forkedCompiled.Compile, forkedCompiled.Limits.CompileWallMS, forkedCompiled.Limits.CompileMemoryMB = []string{"x"}, 1, 1
	session, graded, compiled, warmSession := start, tests, start, early
	session.Limits.SourceKB = 1
	session.Session, graded.Session, compiled.Session, warmSession.Session = true, true, true, true
	compiled.Compile, compiled.Limits.CompileWallMS, compiled.Limits.CompileMemoryMB = []string{"x"}, 1, 1
	becoming, coldBecoming, programBecoming := warmSession, session, early
	becoming.Become, coldBecoming.Become, programBecoming.Become = []string{"x"}, []string{"x"}, []string{"x"}
	languages, nameless, wordless, tongues := session, session, session, start
	languages.Languages, nameless.Languages = map[string][]string{"sh": {"x"}}, map[string][]string{"": {"x"}}
	wordless.Languages, tongues.Languages = map[string][]string{"sh": {}}, languages.Languages
	many := map[string]int{}
	for n := range job.MaxContexts {
		many[fmt.Sprint(n)] = 1
	}
	prepare := Prepare{Protocol: Version, Command: []string{"x"}}
	credit := binary.BigEndian.AppendUint32(nil, 1000)
	return map[string]Frame{
		"start": frame(t, TypeStart, start), "half": frame(t, TypeStart, `{"protocol":2,`),
		"unlimited": frame(t, TypeStart, none), "old": frame(t, TypeStart, old), "empty": frame(t, TypeStart, empty), "vast": frame(t, TypeStart, vast),
		"prepare": frame(t, TypePrepare, prepare), "for prepared": frame(t, TypeStart, early),
		"prepare compiler":  frame(t, TypePrepare, Prepare{Protocol: Version, Command: []string{"x"}, Compile: true}),
		"prepared compiler": frame(t, TypeStart, compiler), "tests of compiler": frame(t, TypeStart, compilerTests),
		"merged": frame(t, TypeStart, merged), "small": frame(t, TypeStart, small), "shallow": frame(t, TypeStart, shallow), "negative": frame(t, TypeStart, negative),
		"prepare nothing": frame(t, TypePrepare, Prepare{Protocol: Version}), "prepare old": frame(t, TypePrepare, Prepare{Protocol: Version + 1, Command: []string{"x"}}),
		"tests": frame(t, TypeStart, tests), "tests of prepared": frame(t, TypeStart, warm), "test": frame(t, TypeTest, Test{Args: []string{"a"}}), "no test": frame(t, TypeTest, "{"), "done": frame(t, TypeDone, nil),
		"stderr of tests": frame(t, TypeStart, loudTests), "stderr of a program": frame(t, TypeStart, loud), "vast stderr": frame(t, TypeStart, loudest), "negative stderr": frame(t, TypeStart, hushed),
		"tests without sockets": frame(t, TypeStart, offlineTests), "program without sockets": frame(t, TypeStart, offline),
		"forked tests": frame(t, TypeStart, forked), "forked program": frame(t, TypeStart, forkedProgram), "compiled forked tests": frame(t, TypeStart, forkedCompiled),
		"forked tests without memory": frame(t, TypeStart, forkedFree), "vast forked tests": frame(t, TypeStart, forkedVast),
		"session": frame(t, TypeStart, session), "graded session": frame(t, TypeStart, graded), "compiled session": frame(t, TypeStart, compiled), "warm session": frame(t, TypeStart, warmSession),
		"becoming session": frame(t, TypeStart, becoming), "cold becoming session": frame(t, TypeStart, coldBecoming), "becoming program": frame(t, TypeStart, programBecoming),
		"turn": frame(t, TypeTurn, Turn{WallMS: 1}), "endless turn": frame(t, TypeTurn, Turn{}), "no turn": frame(t, TypeTurn, "{"),
		"languages": frame(t, TypeStart, languages), "nameless language": frame(t, TypeStart, nameless), "wordless language": frame(t, TypeStart, wordless),
		"languages of a program": frame(t, TypeStart, tongues), "restart": frame(t, TypeRestart, nil),
		"pause": frame(t, TypePause, nil), "resume": frame(t, TypeResume, nil),
		"interactive": frame(t, TypeStart, talking), "interactive tests": frame(t, TypeStart, talkingTests), "interactive session": frame(t, TypeStart, talkingSession), "interactive prepared": frame(t, TypeStart, talkingPrepared),
		"stdin end": frame(t, TypeStdinEnd, nil), "signal": frame(t, TypeSignal, "\x02"), "no signal": frame(t, TypeSignal, "\x00"), "signal 32": frame(t, TypeSignal, "\x20"),
		"64k":                 frame(t, TypeStdinData, strings.Repeat("a", 65535)),
		"turn there":          frame(t, TypeTurn, Turn{WallMS: 1, Context: "a", Generation: 2, Language: "sh", Directory: "d/e", Contexts: map[string]int{"main": 0}}),
		"turn in /":           frame(t, TypeTurn, Turn{WallMS: 1, Context: "a", Directory: "/"}),
		"turn in A":           frame(t, TypeTurn, Turn{WallMS: 1, Context: "A"}),
		"turn in js":          frame(t, TypeTurn, Turn{WallMS: 1, Language: "js"}),
		"turn for files":      frame(t, TypeTurn, Turn{WallMS: 1, Language: job.FilesLanguage}),
		"turn for files of a": frame(t, TypeTurn, Turn{WallMS: 1, Context: "a", Language: job.FilesLanguage}),
		"turn before all":     frame(t, TypeTurn, Turn{WallMS: 1, Generation: -1}),
		"turn beside itself":  frame(t, TypeTurn, Turn{WallMS: 1, Contexts: map[string]int{"main": 1}}),
		"turn beside A":       frame(t, TypeTurn, Turn{WallMS: 1, Contexts: map[string]int{"A": 1}}),
		"turn beside many":    frame(t, TypeTurn, Turn{WallMS: 1, Contexts: many}),
		"1k":                  frame(t, TypeStdinData, strings.Repeat("a", 1<<10)),
		"a":                   frame(t, TypeFileBegin, FileBegin{"a", 3}), "b": frame(t, TypeFileBegin, FileBegin{"b", 0}),
		"/a": frame(t, TypeFileBegin, FileBegin{"/a", 3}), "neg": frame(t, TypeFileBegin, FileBegin{"n", -1}), "tera": frame(t, TypeFileBegin, FileBegin{"t", 1 << 40}),
		"data": frame(t, TypeFileData, "abc"), "data4": frame(t, TypeFileData, "abcd"),
		"stdin": frame(t, TypeStdinData, "in"), "go": frame(t, TypeGo, nil), "kill": frame(t, TypeKill, nil),
		"credit": {TypeCredit, credit}, "no credit": {TypeCredit, make([]byte, 4)}, "all credit": {TypeCredit, []byte{255, 255, 255, 255}},
	}
}

func TestFromHost(t *testing.T) {
	t.Parallel()
	known := hostFrames(t)
	for _, frames := range []string{
		"credit,start,a,data,b,stdin,stdin,go,credit,kill,kill",
		"start,go", "start,stdin,go", "prepare,credit,for prepared,go", "prepare,start,go",
		"prepare compiler,prepared compiler,go", "prepare compiler,tests of compiler,go", "prepare compiler,start,go", "prepare compiler,!prepare",
		"prepare,prepared compiler,!go", "prepare compiler,for prepared,!go", "prepared compiler,!go",
		"prepare,!prepare", "start,!prepare", "start,go,!prepare", "!prepare nothing", "!prepare old", "for prepared,!go",
		"!go", "!a", "!data", "!stdin", "!kill", "!no credit", "!all credit",
		"half,!go", "unlimited,!go", "old,!a", "empty,!go", "vast,!go", "negative,!go",
		"prepare,merged,!go", "prepare,small,!go", "prepare,shallow,!go",
		"start,!data", "start,!/a", "start,!neg", "start,!tera", "start,!kill",
		"start,a,!go", "start,a,!a", "start,a,!stdin", "start,a,!data4", "start,a,data,!data", "start,a,data,!a", "start,b,!data",
		"tests,a,data,go,test,stdin,stdin,go,credit,test,go,done,credit", "tests,go,done", "tests,go,kill", "tests,go,test,go,kill",
		"tests,!stdin", "tests,!test", "tests,!done", "tests,go,!go", "tests,go,!stdin", "tests,go,!a", "tests,go,!no test", "tests,go,test,!test", "tests,go,test,!done", "tests,go,test,!kill",
		"tests,go,done,!test", "tests,go,done,!done", "start,go,!test", "start,go,!done", "prepare,tests of prepared,!go",
		"stderr of tests,go,test,go,done", "stderr of a program,!go", "vast stderr,!go", "negative stderr,!go",
		"tests without sockets,go,test,go,done", "program without sockets,!go",
		"forked tests,go,test,go,done", "forked program,!go", "compiled forked tests,!go", "forked tests without memory,!go", "vast forked tests,!go",
		"session,a,data,go,turn,stdin,stdin,go,kill,credit,turn,go,kill,done,credit", "session,go,done", "session,go,kill",
		"session,!stdin", "session,!turn", "session,!done", "session,go,!go", "session,go,!stdin", "session,go,!test", "session,go,!no turn", "session,go,!endless turn",
		"session,go,turn,!turn", "session,go,turn,!done", "session,go,turn,!kill", "session,go,done,!turn", "session,go,turn,1k,!stdin", "session,go,turn,1k,go,turn,1k,go",
		"session,a,data,go,turn,a,data,b,stdin,go,kill,turn,a,data,go,turn,1k,go,done", "session,go,turn,a,!stdin", "session,go,turn,a,!go", "session,go,turn,a,!a", "session,go,turn,a,!data4",
		"session,go,turn,a,data,!a", "session,go,turn,a,data,!data", "session,go,turn,stdin,!a", "session,go,turn,stdin,go,!a", "session,go,turn,!/a", "session,go,turn,!tera",
		"languages,go,turn there,stdin,go,restart,kill,restart,turn,go,done", "session,go,restart", "session,!restart", "start,go,!restart", "tests,go,!restart", "session,go,turn,!restart", "session,go,done,!restart",
		"nameless language,!go", "wordless language,!go", "languages of a program,!go", "session,go,!turn there", "languages,go,!turn in /", "languages,go,!turn in A", "languages,go,!turn in js", "session,go,turn for files,a,data,stdin,go,kill,turn,go,done", "languages,go,!turn for files of a",
		"session,go,!turn before all", "session,go,!turn beside itself", "session,go,!turn beside A", "session,go,!turn beside many",
		"session,go,pause,resume,turn,go,pause,credit,resume,pause,resume,done", "session,go,pause,!pause", "session,go,pause,!turn", "session,go,pause,!kill", "session,go,pause,!done", "session,go,!resume",
		"session,!pause", "session,go,turn,!pause", "session,go,done,!pause", "start,go,!pause", "tests,go,!pause",
		"start,go,!turn", "tests,go,!turn", "graded session,!go", "compiled session,!go", "prepare,warm session,!go",
		"prepare,becoming session,a,data,go,turn,stdin,go,done", "becoming session,!go", "cold becoming session,!go", "prepare,cold becoming session,!go", "prepare,becoming program,!go",
		"interactive,a,data,stdin,go,stdin,signal,credit,stdin end,stdin,kill,signal", "interactive,go,stdin end", "interactive,!stdin end", "interactive,!signal", "interactive,stdin,!signal", "interactive,go,!a",
		"interactive,go,!no signal", "interactive,go,!signal 32", "interactive,64k,go,64k,64k,64k,64k,!signal", "interactive,go,64k,64k,64k,stdin,!64k", "start,go,!signal", "start,go,!stdin end",
		"interactive tests,a,data,go,test,stdin,go,stdin,signal,stdin end,stdin,credit,test,go,stdin,done", "interactive tests,go,!stdin", "interactive tests,go,!signal", "interactive tests,go,test,!signal", "interactive tests,go,done,!stdin",
		"interactive tests,go,test,go,64k,64k,64k,64k,64k,kill", "tests,go,test,go,!stdin", "tests,go,test,go,!signal", "interactive session,!go", "prepare,interactive prepared,!go", "session,go,turn,!signal", "tests,go,!stdin end",
		"start,stdin,!a", "start,go,!go", "start,go,!stdin", "start,go,!start", "start,a,!start",
	} {
		t.Run(frames, func(t *testing.T) {
			t.Parallel()
			var h FromHost
			inOrder(t, frames, known, h.Accept, nothing)
		})
	}
}

// TestDialogBytes: what a program is sent in one test is bounded, and in the next anew.
func TestDialogBytes(t *testing.T) {
	t.Parallel()
	known := hostFrames(t)
	var h FromHost
	accept := func(name string) error { return h.Accept(known[name]) }
	for _, name := range []string{"interactive tests", "go"} {
		if err := accept(name); err != nil {
			t.Fatal(err)
		}
	}
	const full = job.MaxDialogBytes / 65535
	for range 2 {
		for _, name := range []string{"test", "64k", "go"} { // what comes first is not counted
			if err := accept(name); err != nil {
				t.Fatal(err)
			}
		}
		for i := range full {
			if err := accept("64k"); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
	}
	if err := accept("64k"); !errors.Is(err, ErrProtocol) {
		t.Errorf("more than %d bytes: got %v", job.MaxDialogBytes, err)
	}
}
