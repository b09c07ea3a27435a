package job_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

var (
	runtimes = []string{"bash", "python", "py"}
	images   = []string{"localhost/tool@sha256:" + strings.Repeat("0", 64), "registry.example.com:5000/team/a_b.c--d@sha256:" + strings.Repeat("a", 64)}
)

func TestCheck(t *testing.T) {
	t.Parallel()
	good := job.Spec{Runtime: "python", Source: "print(1)"}
	with := func(change func(*job.Spec)) job.Spec {
		s := good
		change(&s)
		return s
	}
	withImage := func(change func(*job.Spec)) job.Spec {
		s := job.Spec{Image: images[0], Command: []string{"/tool", "-v"}}
		change(&s)
		return s
	}
	for _, c := range []struct {
		name  string
		spec  job.Spec
		field string // "" for none
		words string // in the error
	}{
		{"the least", good, "", ""},
		{"an alias", with(func(s *job.Spec) { s.Runtime = "py" }), "", ""},
		{"one file", with(func(s *job.Spec) { s.Source, s.Files = "", []job.File{{Name: "a.py", Content: "1"}} }), "", ""},
		{"limits at their maximum", with(func(s *job.Spec) { s.Limits = job.DefaultMaximums }), "", ""},
		{"newer version", with(func(s *job.Spec) { s.SpecVersion = job.SpecVersion + 1 }), "spec_version", ""},
		{"no runtime", with(func(s *job.Spec) { s.Runtime = "" }), "runtime", "bash, python, py"},
		{"unknown runtime", with(func(s *job.Spec) { s.Runtime = "cobol" }), "runtime", "cobol"},
		{"a runtime that is a path", with(func(s *job.Spec) { s.Runtime = "../../etc" }), "runtime", ""},
		{"empty source", with(func(s *job.Spec) { s.Source = "" }), "source", "is empty"},
		{"source that is no text", with(func(s *job.Spec) { s.Source = "\xff" }), "source", "content_base64"},
		{"stdin that is no text", with(func(s *job.Spec) { s.Stdin = "\xff" }), "stdin", "stdin_base64"},
		{"stdin of bytes", with(func(s *job.Spec) { s.StdinBase64 = "AP8=" }), "", ""},
		{"stdin twice", with(func(s *job.Spec) { s.Stdin, s.StdinBase64 = "a", "AP8=" }), "stdin_base64", "beside stdin"},
		{"stdin that is no base64", with(func(s *job.Spec) { s.StdinBase64 = "AP8" }), "stdin_base64", "RFC 4648"},
		{"a large stdin of bytes", with(func(s *job.Spec) { s.StdinBase64 = strings.Repeat("AAAA", 1<<20/3+1) }), "source", "too large"},
		{"stdin of bytes and tests", with(func(s *job.Spec) { s.StdinBase64, s.Tests = "AP8=", []job.Test{{Name: "1"}} }), "stdin_base64", "with tests"},
		{"streams", with(func(s *job.Spec) { s.MergeStderr, s.TruncateOutput = true, true }), "", ""},
		{"streams and tests", with(func(s *job.Spec) { s.MergeStderr, s.TruncateOutput, s.Tests = true, true, []job.Test{{Name: "1"}} }), "", ""},
		{"interactive", with(func(s *job.Spec) { s.Interactive, s.Stdin = true, "a" }), "", ""},
		{"interactive and tests", with(func(s *job.Spec) { s.Interactive, s.Tests = true, []job.Test{{Name: "1"}} }), "interactive", "with tests"},
		{"an image and streams", withImage(func(s *job.Spec) { s.MergeStderr, s.TruncateOutput, s.StdinBase64 = true, true, "AP8=" }), "", ""},
		{"a large address space", with(func(s *job.Spec) { s.Limits.AddressSpaceMB = 1<<20 + 1 }), "limits.address_space_mb", "1048576"},
		{"a large stack", with(func(s *job.Spec) { s.Limits.StackMB = 129 }), "limits.stack_mb", "128"},
		{"file that is no text", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", Content: "\xff"}} }), "files[0].content", "content_base64"},
		{"argument that is no text", with(func(s *job.Spec) { s.Args = []string{"\xff"} }), "args[0]", "UTF-8"},
		{"two files and no entrypoint", with(func(s *job.Spec) { s.Source, s.Files = "", []job.File{{Name: "a"}, {Name: "b"}} }), "entrypoint", "missing"},
		{"entrypoint elsewhere", with(func(s *job.Spec) {
			s.Source, s.Files, s.Entrypoint = "", []job.File{{Name: "a"}}, "b"
		}), "entrypoint", "not one of"},
		{"entrypoint twice", with(func(s *job.Spec) { s.Files, s.Entrypoint = []job.File{{Name: "a"}}, "a" }), "entrypoint", "beside files[0]"},
		{"entrypoint below a file", with(func(s *job.Spec) { s.Files, s.Entrypoint = []job.File{{Name: "b"}, {Name: "a"}}, "a/x.py" }), "entrypoint", "beside files[1]"},
		{"entrypoint where a directory is", with(func(s *job.Spec) { s.Files, s.Entrypoint = []job.File{{Name: "a/b/c"}}, "a" }), "entrypoint", "beside files[0]"},
		{"entrypoint beside a longer name", with(func(s *job.Spec) { s.Files, s.Entrypoint = []job.File{{Name: "ab"}, {Name: "a.py/b"}}, "a" }), "", ""},
		{"file above", with(func(s *job.Spec) { s.Files = []job.File{{Name: "../a"}} }), "files[0].name", "plain path"},
		{"file twice", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a"}, {Name: "a"}} }), "files[1].name", "more than once"},
		{"file and directory", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a"}, {Name: "a/b/c"}} }), "files", "both a file and a directory"},
		{"two contents", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", Content: "x", ContentBase64: "eA=="}} }), "files[0]", "content_base64"},
		{"no base64", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", ContentBase64: "*"}} }), "files[0].content_base64", "base64"},
		{"many files", with(func(s *job.Spec) { s.Files = make([]job.File, job.MaxFiles+1) }), "files", "256"},
		{"NUL in an argument", with(func(s *job.Spec) { s.Args = []string{"a", "b\x00"} }), "args[1]", "NUL"},
		{"arguments too long together", with(func(s *job.Spec) { s.Args = slices.Repeat([]string{strings.Repeat("<", job.MaxStringBytes)}, 90) }), "args", "too large"},
		{"variables too long with arguments", with(func(s *job.Spec) {
			s.Args, s.Env = slices.Repeat([]string{strings.Repeat("<", job.MaxStringBytes)}, 10), map[string]string{}
			for i := range 30 {
				s.Env[fmt.Sprintf("E%d", i)] = strings.Repeat("<", job.MaxStringBytes)
			}
		}), "env", "too large"},
		{"long argument", with(func(s *job.Spec) { s.Args = []string{strings.Repeat("a", job.MaxStringBytes+1)} }), "args[0]", "too long"},
		{"bad variable", with(func(s *job.Spec) { s.Env = map[string]string{"A=B": "c"} }), "env", "variable"},
		{"NUL in a value", with(func(s *job.Spec) { s.Env = map[string]string{"A": "\x00"} }), "env.A", "NUL"},
		{"priority", with(func(s *job.Spec) { s.Priority = "urgent" }), "priority", "high, normal, low"},
		{"callback that is no URL", with(func(s *job.Spec) { s.Callback = &job.Callback{URL: "file:///etc/passwd"} }), "callback.url", "http"},
		{"callback with a password", with(func(s *job.Spec) { s.Callback = &job.Callback{URL: "https://u:hunter2@example.com"} }), "callback.url", "(hidden)"},
		{"a password and another scheme", with(func(s *job.Spec) { s.Callback = &job.Callback{URL: "ftp://u:hunter2@example.com"} }), "callback.url", "(hidden)"},
		{"a password and no URL", with(func(s *job.Spec) { s.Callback = &job.Callback{URL: "http://u:hunter2@[::/"} }), "callback.url", "(hidden)"},
		{"unknown event", with(func(s *job.Spec) {
			s.Callback = &job.Callback{URL: "https://example.com", Events: []string{"job.started"}}
		}), "callback.events[0]", ""},
		{"negative limit", with(func(s *job.Spec) { s.Limits.WallMS = -1 }), "limits.wall_ms", "300000"},
		{"large limit", with(func(s *job.Spec) { s.Limits.MemoryMB = job.DefaultMaximums.MemoryMB + 1 }), "limits.memory_mb", "2048"},
		{"no number", with(func(s *job.Spec) { s.Limits.CPUs = math.NaN() }), "limits.cpus", ""},
		{"large source", with(func(s *job.Spec) { s.Source = strings.Repeat("a", 1<<20+1) }), "source", "too large"},
		{"commands", with(func(s *job.Spec) { s.Commands = &job.Commands{Compile: "a", Run: "b"} }), "", ""},
		{"commands and no file", with(func(s *job.Spec) { s.Source, s.Commands = "", &job.Commands{Run: "b"} }), "", ""},
		{"commands and files", with(func(s *job.Spec) {
			s.Source, s.Files, s.Commands = "", []job.File{{Name: "a"}, {Name: "b"}}, &job.Commands{Run: "b"}
		}), "", ""},
		{"commands and an entrypoint elsewhere", with(func(s *job.Spec) { s.Source, s.Entrypoint, s.Commands = "", "a", &job.Commands{Run: "b"} }), "entrypoint", "not one of"},
		{"commands and tests", with(func(s *job.Spec) { s.Commands, s.Tests = &job.Commands{Run: "b"}, []job.Test{{Name: "1"}} }), "", ""},
		{"commands at their longest", with(func(s *job.Spec) {
			s.Commands = &job.Commands{Compile: strings.Repeat("a", job.MaxShellBytes), Run: strings.Repeat("ä\n", job.MaxShellBytes/3)}
		}), "", ""},
		{"a long command to compile", with(func(s *job.Spec) {
			s.Commands = &job.Commands{Compile: strings.Repeat("a", job.MaxShellBytes+1), Run: "b"}
		}), "commands.compile", "4096 bytes"},
		{"a long command to run", with(func(s *job.Spec) { s.Commands = &job.Commands{Run: strings.Repeat("a", job.MaxShellBytes+1)} }), "commands.run", "4096 bytes"},
		{"commands with a NUL", with(func(s *job.Spec) { s.Commands = &job.Commands{Run: "a\x00b"} }), "commands.run", "NUL"},
		{"commands that are no text", with(func(s *job.Spec) { s.Commands = &job.Commands{Run: "\xff"} }), "commands.run", "UTF-8"},
		{"commands that run nothing", with(func(s *job.Spec) { s.Commands = &job.Commands{Compile: "a", Run: " \n"} }), "commands.run", "is missing"},
		{"an image and commands", withImage(func(s *job.Spec) { s.Commands = &job.Commands{Run: "b"} }), "commands", "beside image"},
		{"an image and a command", withImage(func(*job.Spec) {}), "", ""},
		{"an image of a registry", withImage(func(s *job.Spec) { s.Image = images[1] }), "", ""},
		{"an image and inputs", withImage(func(s *job.Spec) {
			s.Source, s.Entrypoint, s.Stdin, s.Files = "x", "main.txt", "y", []job.File{{Name: "a"}, {Name: "b"}}
		}), "", ""},
		{"as many words as there may be", withImage(func(s *job.Spec) { s.Command = slices.Repeat([]string{"a"}, job.MaxArgs+1) }), "", ""},
		{"an image and a runtime", withImage(func(s *job.Spec) { s.Runtime = "python" }), "image", "beside runtime"},
		{"a command and no image", with(func(s *job.Spec) { s.Command = []string{"a"} }), "command", "has no image"},
		{"an image and no command", withImage(func(s *job.Spec) { s.Command = nil }), "command", "names no program"},
		{"an image and an empty program", withImage(func(s *job.Spec) { s.Command = []string{""} }), "command", "names no program"},
		{"an image and arguments", withImage(func(s *job.Spec) { s.Args = []string{"a"} }), "args", "in command"},
		{"an image and a source without a name", withImage(func(s *job.Spec) { s.Source = "a" }), "entrypoint", "source becomes"},
		{"an image and a name without a source", withImage(func(s *job.Spec) { s.Entrypoint = "a" }), "entrypoint", "names no source"},
		{"an image and a source above", withImage(func(s *job.Spec) { s.Source, s.Entrypoint = "a", "../a" }), "entrypoint", "plain path"},
		{"an image and a source that is a file", withImage(func(s *job.Spec) {
			s.Source, s.Entrypoint, s.Files = "a", "a", []job.File{{Name: "a"}}
		}), "entrypoint", "beside files[0]"},
		{"NUL in a command", withImage(func(s *job.Spec) { s.Command[1] = "\x00" }), "command[1]", "NUL"},
		{"a long command", withImage(func(s *job.Spec) { s.Command = make([]string, job.MaxArgs+2); s.Command[0] = "a" }), "command", "257"},
		{"an image that is not allowed", withImage(func(s *job.Spec) { s.Image = "localhost/other@sha256:" + strings.Repeat("0", 64) }), "image", "allowed: " + images[0] + ", " + images[1]},
		{"another digest of an allowed name", withImage(func(s *job.Spec) { s.Image = images[1][:len(images[1])-1] + "b" }), "image", "allowed: " + images[1] + ", " + images[0]},
		{"an image with a tag", withImage(func(s *job.Spec) { s.Image = "localhost/tool:1" }), "image", "has no digest"},
		{"a time to run", with(func(s *job.Spec) { s.RunAt = time.Now().Add(job.MaxRunAhead - time.Minute) }), "", ""},
		{"a time to run that has passed", with(func(s *job.Spec) { s.RunAt = time.Now().Add(-time.Hour) }), "", ""},
		{"a time to run far ahead", with(func(s *job.Spec) { s.RunAt = time.Now().Add(job.MaxRunAhead + time.Minute) }), "run_at", "30 days"},
		{"a deadline", with(func(s *job.Spec) { s.Deadline = time.Now().Add(time.Minute) }), "", ""},
		{"a deadline that has passed", with(func(s *job.Spec) { s.Deadline = time.Now() }), "deadline", "has passed"},
		{"a deadline after the time to run", with(func(s *job.Spec) {
			s.RunAt, s.Deadline = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}), "", ""},
		{"a deadline before the time to run", with(func(s *job.Spec) {
			s.RunAt, s.Deadline = time.Now().Add(time.Hour), time.Now().Add(time.Minute)
		}), "deadline", "not after run_at"},
		{"a deadline that has no JSON in UTC", with(func(s *job.Spec) { s.Deadline = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) }), "deadline", "out of range"},
		{"a time to run that has no JSON in UTC", with(func(s *job.Spec) { s.RunAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) }), "run_at", "out of range"},
		{"a time in a zone that has no JSON", with(func(s *job.Spec) { s.RunAt = time.Now().In(time.FixedZone("", 24*3600)) }), "run_at", "out of range"},
		{"metadata", with(func(s *job.Spec) { s.Metadata = map[string]string{"": "x"} }), "metadata", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.spec.Check(runtimes, images, job.DefaultMaximums)
			var invalid job.Invalid
			if c.field == "" {
				if err != nil {
					t.Fatalf("got %v, want nil", err)
				}
				return
			}
			if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != c.field {
				t.Fatalf("got %v, want one fault, of %s", err, c.field)
			}
			if !strings.Contains(err.Error(), c.words) || invalid[0].Allowed == "" && c.field != "limits.cpus" {
				t.Errorf("got %q, want %q in it and what is allowed", err, c.words)
			}
			if strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1000 {
				t.Errorf("the error says too much: %.2000s", err)
			}
		})
	}
}

// TestCheckSource: what a runtime calls source can be beside the other files.
func TestCheckSource(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]bool{"main.py": true, "main.py/x": true, "main": false, "main.pyc": false, "a/main.py": false} {
		err := job.Spec{Runtime: "python", Source: "x", Files: []job.File{{Name: "in"}, {Name: name}}}.CheckSource("main.py")
		var invalid job.Invalid
		if fault != errors.As(err, &invalid) || fault && (invalid[0].Field != "files[1].name" || invalid[0].Value != name || !strings.Contains(err.Error(), "main.py")) {
			t.Errorf("%s: got %v, want a fault %v", name, err, fault)
		}
	}
	for _, fine := range []job.Spec{{Files: []job.File{{Name: "main.py"}}}, {Source: "x"}} {
		if err := fine.CheckSource("main.py"); err != nil {
			t.Errorf("%+v: %v", fine, err)
		}
	}
}

// TestCheckImage: what passes pins one image, and is its full name.
func TestCheckImage(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for _, name := range []string{"localhost/a", "localhost:5000/a", "registry.example.com/a/b/c-d_e__f.g--h"} {
		if problem := job.CheckImage(name + digest); problem != "" {
			t.Errorf("%s %s", name, problem)
		}
	}
	for _, name := range []string{
		"", "a", "localhost/a:1", "localhost/a", digest, "a" + digest, "localhost/a:1" + digest, "localhost/a" + digest + digest,
		"localhost/A" + digest, "-localhost/a" + digest, "localhost//a" + digest, "localhost/../a" + digest, "localhost/a/" + digest,
		"localhost/a" + digest + "0", "localhost/a" + digest[:70], "localhost/a" + strings.ToUpper(digest), "localhost/a@sha512:" + digest[8:],
		" localhost/a" + digest, "localhost/a" + digest + "\n", "docker://localhost/a" + digest, "localhost/a\x00" + digest,
		"localhost/" + strings.Repeat("a", 500) + digest,
	} {
		if job.CheckImage(name) == "" {
			t.Errorf("%q passed", name)
		}
	}
}

// TestAllowedImages: a long list is not sent with every refusal.
func TestAllowedImages(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("localhost/tool%d@sha256:%064d", i, i))
	}
	spec := job.Spec{Image: images[0], Command: []string{"a"}}
	if err := spec.Check(nil, many, job.DefaultMaximums); err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "GET /v1/runtimes") {
		t.Errorf("got %.2000v, want a few images and where there are more", err)
	}
	if err := spec.Check(nil, nil, job.DefaultMaximums); err == nil || !strings.Contains(err.Error(), "no image") {
		t.Errorf("got %v, want that none is allowed", err)
	}
}

func TestFilled(t *testing.T) {
	t.Parallel()
	got := job.Limits{WallMS: 2000, CPUs: 2}.Filled(job.Limits{MemoryMB: 512, WallMS: 9000})
	if got.WallMS != 2000 || got.MemoryMB != 512 || got.CPUMS != 4000 || got.FileMB != got.DiskMB || got.Processes != 64 {
		t.Errorf("got %+v", got)
	}
	// A compiler has at least the runtime's defaults, whatever its program may use.
	if c := got.Compile(); c.WallMS != 9000 || c.CPUMS != 18_000 || c.MemoryMB != 512 || c.Processes != 64 || got.SandboxMB() != 512 {
		t.Errorf("the compile step has %+v", c)
	}
	// Nor do the program's own processes and files bound it.
	if c := (job.Limits{Processes: 1, FileMB: 1}).Filled(job.Limits{}).Compile(); c.Processes != 64 || c.FileMB != 64 {
		t.Errorf("the compile step of a program that may do little has %+v", c)
	}
	wide := job.Limits{WallMS: 20_000, MemoryMB: 1024}.Filled(job.Limits{MemoryMB: 512})
	if c := wide.Compile(); c.WallMS != 20_000 || c.MemoryMB != 1024 {
		t.Errorf("the compile step of a job that may use more has %+v", c)
	}
	asked := job.Limits{WallMS: 20_000, CompileWallMS: 1, CompileMemoryMB: 2}.Filled(job.Limits{})
	if c := asked.Compile(); c.WallMS != 1 || c.MemoryMB != 2 || asked.WithoutCompile().SandboxMB() != 256 {
		t.Errorf("the compile step that was asked for has %+v", c)
	}
	if c := (job.Limits{}).Within(job.Limits{}, job.Limits{WallMS: 5000, MemoryMB: 128, CPUMS: 5000}.AtMost(job.DefaultMaximums)).Filled(job.Limits{}).Compile(); c.WallMS != 5000 || c.MemoryMB != 128 {
		t.Errorf("the compile step within narrow maximums has %+v", c)
	}
}

func ExampleSpec_Check() {
	spec := job.Spec{Runtime: "cobol", Limits: job.Limits{WallMS: -5}}
	fmt.Println(spec.Check([]string{"bash", "python"}, nil, job.DefaultMaximums))
	// Output:
	// runtime: is not a runtime of this Glovebox (got cobol); allowed: bash, python
	// source: is empty; allowed: the program's text, or files[] with an entrypoint
	// limits.wall_ms: is out of range (got -5); allowed: 0 (the default) to 300000
}

func ExampleCheckImage() {
	fmt.Println(job.CheckImage("registry.example.com/team/tool:latest"))
	// Output:
	// has no digest
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a", "a/b.txt", "", ".", "..", "../a", "a/../b", "/a", "a//b", "a/", "a\nb", "\u202e", "a\\b", "\xff", strings.Repeat("a", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if job.CheckName(name) != "" {
			return
		}
		below := path.Join("/work", name)
		if !strings.HasPrefix(below, "/work/") || path.Clean(name) != name || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\r\\") || len(name) > job.MaxName {
			t.Errorf("%q passed", name)
		}
	})
}

func FuzzSpec(f *testing.F) {
	f.Add([]byte(`{"runtime":"python","source":"print(1)","files":[{"name":"a","content_base64":"eA=="}],"limits":{"wall_ms":5},"env":{"A":"b"}}`))
	f.Add([]byte(`{"runtime":"python","files":[{"name":"a/b"},{"name":"a"}],"entrypoint":"a/b","callback":{"url":"http://[::1]:80"}}`))
	f.Add([]byte(`{"image":"` + images[0] + `","command":["a","b"],"source":"x","entrypoint":"y"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s job.Spec
		if json.Unmarshal(b, &s) != nil || s.Check(runtimes, images, job.DefaultMaximums) != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("a spec that passed can't be stored: %v", err)
		}
		var back job.Spec
		if err := json.Unmarshal(again, &back); err != nil || back.Check(runtimes, images, job.DefaultMaximums) != nil {
			t.Errorf("a spec that passed does not after a round trip: %v\n%s", err, again)
		}
	})
}

// TestNeeds: a worker of an older version is not given what it does not know.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, s := range []job.Spec{
		{Commands: &job.Commands{Run: "a"}},
		{StdinBase64: "AA=="},
		{MergeStderr: true},
		{TruncateOutput: true},
		{Limits: job.Limits{AddressSpaceMB: 1}},
		{Limits: job.Limits{StackMB: 1}},
		{Limits: job.Limits{CompileWallMS: 1}},
		{MergeStderr: true, Tests: []job.Test{{Name: "1"}}},
	} {
		if n := s.Needs(); n != 5 {
			t.Errorf("%+v: got %d, want 5", s, n)
		}
	}
	if n := (job.Spec{Limits: job.DefaultMaximums.AtMost(job.Limits{WallMS: 1}), Stdin: "a"}).Needs(); n != 1 {
		t.Errorf("got %d, want 1", n)
	}
}

// TestInputBytes: base64 counts as the bytes that it stands for.
func TestInputBytes(t *testing.T) {
	t.Parallel()
	for n := range int64(7) {
		text := base64.StdEncoding.EncodeToString(make([]byte, n))
		s := job.Spec{Source: "1", StdinBase64: text, Files: []job.File{{Name: "a", ContentBase64: text}, {Name: "b", Content: "1"}}}
		if got := s.InputBytes(); got != 2*n+2 {
			t.Errorf("%d bytes: got %d in all, want %d", n, got, 2*n+2)
		}
	}
}
