package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

var runtimes = []string{"bash", "python", "py"}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := job.Spec{Runtime: "python", Source: "print(1)"}
	with := func(change func(*job.Spec)) job.Spec {
		s := good
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
		{"stdin that is no text", with(func(s *job.Spec) { s.Stdin = "\xff" }), "stdin", "content_base64"},
		{"file that is no text", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", Content: "\xff"}} }), "files[0].content", "content_base64"},
		{"argument that is no text", with(func(s *job.Spec) { s.Args = []string{"\xff"} }), "args[0]", "UTF-8"},
		{"two files and no entrypoint", with(func(s *job.Spec) { s.Source, s.Files = "", []job.File{{Name: "a"}, {Name: "b"}} }), "entrypoint", "missing"},
		{"entrypoint elsewhere", with(func(s *job.Spec) {
			s.Source, s.Files, s.Entrypoint = "", []job.File{{Name: "a"}}, "b"
		}), "entrypoint", "not one of"},
		{"entrypoint twice", with(func(s *job.Spec) { s.Files, s.Entrypoint = []job.File{{Name: "a"}}, "a" }), "entrypoint", "both"},
		{"file above", with(func(s *job.Spec) { s.Files = []job.File{{Name: "../a"}} }), "files[0].name", "plain path"},
		{"file twice", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a"}, {Name: "a"}} }), "files[1].name", "twice"},
		{"file and directory", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a"}, {Name: "a/b/c"}} }), "files", "both a file and a directory"},
		{"two contents", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", Content: "x", ContentBase64: "eA=="}} }), "files[0]", "content_base64"},
		{"no base64", with(func(s *job.Spec) { s.Files = []job.File{{Name: "a", ContentBase64: "*"}} }), "files[0].content_base64", "base64"},
		{"many files", with(func(s *job.Spec) { s.Files = make([]job.File, job.MaxFiles+1) }), "files", "256"},
		{"NUL in an argument", with(func(s *job.Spec) { s.Args = []string{"a", "b\x00"} }), "args[1]", "NUL"},
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
		{"metadata", with(func(s *job.Spec) { s.Metadata = map[string]string{"": "x"} }), "metadata", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.spec.Check(runtimes, job.DefaultMaximums)
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

func TestFilled(t *testing.T) {
	t.Parallel()
	got := job.Limits{WallMS: 2000, CPUs: 2}.Filled(job.Limits{MemoryMB: 512, WallMS: 9000})
	if got.WallMS != 2000 || got.MemoryMB != 512 || got.CPUMS != 4000 || got.FileMB != got.DiskMB || got.Processes != 64 {
		t.Errorf("got %+v", got)
	}
}

func ExampleSpec_Check() {
	spec := job.Spec{Runtime: "cobol", Limits: job.Limits{WallMS: -5}}
	fmt.Println(spec.Check([]string{"bash", "python"}, job.DefaultMaximums))
	// Output:
	// runtime: is not a runtime of this Glovebox (got cobol); allowed: bash, python
	// source: is empty; allowed: the program's text, or files[] with an entrypoint
	// limits.wall_ms: is out of range (got -5); allowed: 0 (the default) to 300000
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
	f.Fuzz(func(t *testing.T, b []byte) {
		var s job.Spec
		if json.Unmarshal(b, &s) != nil || s.Check(runtimes, job.DefaultMaximums) != nil {
			return
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("a spec that passed can't be stored: %v", err)
		}
		var back job.Spec
		if err := json.Unmarshal(again, &back); err != nil || back.Check(runtimes, job.DefaultMaximums) != nil {
			t.Errorf("a spec that passed does not after a round trip: %v\n%s", err, again)
		}
	})
}
