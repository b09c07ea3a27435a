package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func TestSpec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source, latin, data := write("main.py", "print()"), write("latin.py", "# \xe9"), write("data.bin", "\x00\xff")
	base := job.Spec{SpecVersion: 1}
	for _, c := range []struct {
		name  string
		stdin string
		o     specOptions
		want  func(*job.Spec)
	}{
		{"a file keeps its name", "", specOptions{source: source}, func(s *job.Spec) { s.Source, s.Entrypoint = "print()", "main.py" }},
		{"standard input has none", "1+1", specOptions{source: "-"}, func(s *job.Spec) { s.Source = "1+1" }},
		{"no text goes as base64", "", specOptions{source: latin}, func(s *job.Spec) {
			s.Files, s.Entrypoint = []job.File{{Name: "latin.py", ContentBase64: "IyDp"}}, "latin.py"
		}},
		{"files", "typed", specOptions{source: source, stdinFile: "-", files: []string{data, "in/x.py=" + source}}, func(s *job.Spec) {
			s.Source, s.Entrypoint, s.Stdin = "print()", "main.py", "typed"
			s.Files = []job.File{{Name: "data.bin", ContentBase64: "AP8="}, {Name: "in/x.py", Content: "print()"}}
		}},
		{"artifacts", "1", specOptions{source: "-", artifacts: []string{"default-x/a/b.csv", "in.csv=default-x/c.csv"}}, func(s *job.Spec) {
			s.Source, s.SpecVersion = "1", 2
			s.Files = []job.File{{Name: "a/b.csv", Artifact: "default-x/a/b.csv"}, {Name: "in.csv", Artifact: "default-x/c.csv"}}
		}},
		{"an image", "typed", specOptions{
			image: "localhost/a@sha256:0", command: []string{"/tool", "-v"}, files: []string{source}, stdinFile: "-",
		}, func(s *job.Spec) {
			s.Image, s.Command, s.Stdin = "localhost/a@sha256:0", []string{"/tool", "-v"}, "typed"
			s.Files = []job.File{{Name: "main.py", Content: "print()"}}
		}},
		{"streams", "1", specOptions{source: "-", stdinFile: data, mergeStderr: true, truncateOutput: true}, func(s *job.Spec) {
			s.Source, s.SpecVersion, s.StdinBase64, s.MergeStderr, s.TruncateOutput = "1", 5, "AP8=", true, true
		}},
		{"commands", "1", specOptions{source: "-", compileCommand: "make", runCommand: `./main "$@"`}, func(s *job.Spec) {
			s.Source, s.SpecVersion, s.Commands = "1", 5, &job.Commands{Compile: "make", Run: `./main "$@"`}
		}},
		{"the rest", "1", specOptions{
			source: "-", env: []string{"A=b=c", "HERE"}, metadata: []string{"k=v"}, limits: []string{"wall_ms=5000", "cpus=0.5"},
			callback: "https://x/", retention: 90 * time.Second, priority: "low", runtime: "py", args: []string{"-x"},
		}, func(s *job.Spec) {
			s.Source, s.Env, s.Metadata = "1", map[string]string{"A": "b=c", "HERE": "of HERE"}, map[string]string{"k": "v"}
			s.Limits, s.Callback, s.Priority = job.Limits{WallMS: 5000, CPUs: 0.5}, &job.Callback{URL: "https://x/"}, job.Low
			s.RetentionSeconds = 90
			s.Runtime, s.Args = "py", []string{"-x"}
		}},
	} {
		a := &app{stdin: strings.NewReader(c.stdin), getenv: func(name string) string {
			if strings.HasPrefix(name, "GLOVEBOX_") || name == "HOME" {
				return "" // no settings
			}
			return "of " + name
		}}
		got, err := a.spec(c.o)
		want := base
		c.want(&want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
	for _, o := range []specOptions{
		{source: "-", stdinFile: "-"},
		{source: "/dev/zero"},
		{source: dir},
		{source: source, limits: []string{"wall_ms=5e3x"}},
		{source: source, limits: []string{`wall_ms=1,"memory_mb":2`}},
		{source: source, limits: []string{"wall_ms=null"}},
		{source: source, limits: []string{"wall_ms=[1]"}},
		{source: source, env: []string{"=x"}},
		{source: source, artifacts: []string{"default-x"}},
		{source: source, artifacts: []string{"in.csv=default-x"}},
		{source: source, artifacts: []string{"default-x/"}},
		{source: source, retention: time.Millisecond},
	} {
		a := &app{stdin: strings.NewReader("x"), getenv: func(string) string { return "" }}
		var f *failure
		if _, err := a.spec(o); !errors.As(err, &f) || f.code != exitUsage {
			t.Errorf("%+v: got %v, want a usage error", o, err)
		}
	}
}

func TestLimitNames(t *testing.T) {
	t.Parallel()
	names := limitNames()
	if len(names) < 12 || names[0] != "wall_ms" {
		t.Errorf("got %v", names)
	}
	for _, name := range names {
		if _, err := parseLimits("--limit", []string{name + "=1"}, job.Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTake sorts arguments as a shell hands them over.
func TestTake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		image string
		args  []string
		dash  int
		want  specOptions
		fails bool
	}{
		{"", []string{"a.py"}, -1, specOptions{source: "a.py"}, false},
		{"", []string{"a.py", "-v"}, 1, specOptions{source: "a.py", args: []string{"-v"}}, false},
		{"", nil, -1, specOptions{}, true},
		{"", []string{"-v"}, 0, specOptions{}, true},
		{"", []string{"a.py", "b.py"}, -1, specOptions{}, true},
		{"i", []string{"/tool"}, 0, specOptions{command: []string{"/tool"}}, false},
		{"i", []string{"a", "b", "/tool", "-v"}, 2, specOptions{files: []string{"a", "b"}, command: []string{"/tool", "-v"}}, false},
		{"i", []string{"a"}, 1, specOptions{}, true},
		{"i", []string{"a"}, -1, specOptions{}, true},
		{"i", nil, -1, specOptions{}, true},
	} {
		o := submitOptions{specOptions: specOptions{image: c.image}}
		err := o.take(c.args, c.dash)
		if c.want.image = c.image; (err != nil) != c.fails || !c.fails && (o.source != c.want.source ||
			!slices.Equal(o.args, c.want.args) || !slices.Equal(o.files, c.want.files) || !slices.Equal(o.command, c.want.command)) {
			t.Errorf("%+v: got %+v, %v", c, o.specOptions, err)
		}
	}
}
