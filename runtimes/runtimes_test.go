package runtimes

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// tree is a smallest set of runtimes, changed as told: a name mapped to "" is removed.
func tree(changes map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	files := map[string]string{
		"base/packages.txt":   "tzdata # a comment\n",
		"c/Containerfile":     "FROM x\n",
		"c/runtime.yaml":      "name: c\nversion: \"17\"\nversion_command: [gcc, -v]\ncore: true\naliases: [gcc]\nfile: main.c\ncompile: [gcc, -o, /tmp/a, \"{file}\"]\nrun: [/tmp/a]\nenv: {LANG: C}\nlimits: {wall_ms: 20000, cpus: 0.5}\n",
		"c/testdata/x/main.c": "int main() {}\n",
	}
	for name, content := range changes {
		files[name] = content
	}
	for name, content := range files {
		if content != "" {
			fsys[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return fsys
}

func load1(t *testing.T, changes map[string]string) Runtime {
	t.Helper()
	set, err := Load(tree(changes))
	if err != nil {
		t.Fatal(err)
	}
	return set.List()[0]
}

func TestLoad(t *testing.T) {
	t.Parallel()
	set, err := Load(tree(nil))
	if err != nil {
		t.Fatal(err)
	}
	r, ok := set.Lookup("gcc")
	if !ok {
		t.Fatal("the alias gcc is not found")
	}
	want := Runtime{
		Name: "c", Version: "17", VersionCommand: []string{"gcc", "-v"}, Core: true, Aliases: []string{"gcc"}, File: "main.c",
		Compile: []string{"gcc", "-o", "/tmp/a", "{file}"}, Run: []string{"/tmp/a"},
		Env:    map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C"},
		Limits: job.Limits{WallMS: 20000, CPUs: 0.5},
		image:  r.image,
	}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(Runtime{})); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(r.Image(), "localhost/glovebox/c:17-") {
		t.Errorf("got image %q", r.Image())
	}
	if diff := cmp.Diff([]string{"c", "gcc"}, set.Names()); diff != "" {
		t.Error(diff)
	}
	if _, ok := set.Lookup("C"); ok {
		t.Error("names must be matched exactly")
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const good = "name: c\nversion: \"17\"\nversion_command: [run, -v]\nfile: main.c\nrun: [run, \"{file}\"]\n"
	tests := []struct {
		name    string
		changes map[string]string
		want    string
	}{
		{"no runtime", map[string]string{"c/runtime.yaml": ""}, "no folder with a runtime.yaml"},
		{"no base", map[string]string{"base/packages.txt": ""}, "base"},
		{"empty", map[string]string{"c/runtime.yaml": "# nothing\n"}, "it is empty"},
		{"unknown field", map[string]string{"c/runtime.yaml": good + "runn: [x]\n"}, "runn"},
		{"unknown limit", map[string]string{"c/runtime.yaml": good + "limits: {memory: 1}\n"}, `"memory"`},
		{"limit of the wrong type", map[string]string{"c/runtime.yaml": good + "limits: {memory_mb: much}\n"}, "memory_mb"},
		{"limit out of range", map[string]string{"c/runtime.yaml": good + "limits: {wall_ms: -1}\n"}, "limits.wall_ms"},
		{"another folder's name", map[string]string{"c/runtime.yaml": strings.Replace(good, "name: c", "name: d", 1)}, `"c"`},
		{"bad version", map[string]string{"c/runtime.yaml": strings.Replace(good, "17", "1 7", 1)}, "version"},
		{"bad alias", map[string]string{"c/runtime.yaml": good + "aliases: [C C]\n"}, "aliases"},
		{"alias taken", map[string]string{"c/runtime.yaml": good + "aliases: [c]\n"}, `"c" is taken by`},
		{"name taken", map[string]string{
			"c/runtime.yaml": good + "aliases: [d]\n",
			"d/runtime.yaml": strings.Replace(good, "name: c", "name: d", 1),
		}, `"d" is taken by c`},
		{"file outside", map[string]string{"c/runtime.yaml": strings.Replace(good, "main.c", "../main.c", 1)}, "file"},
		{"no command for the version", map[string]string{"c/runtime.yaml": strings.Replace(good, "version_command: [run, -v]\n", "", 1)}, "version_command: is missing"},
		{"image of nobody", map[string]string{"c/runtime.yaml": good + "image: d\n"}, `image: "d"`},
		{"image of its own and another's", map[string]string{
			"c/runtime.yaml": good + "image: d\n",
			"d/runtime.yaml": strings.Replace(good, "name: c", "name: d", 1),
		}, "there is a Containerfile, too"},
		{"no run", map[string]string{"c/runtime.yaml": strings.Split(good, "run:")[0]}, "run: is missing"},
		{"preload of nothing", map[string]string{"c/runtime.yaml": good + "preload: {}\n"}, "preload.memory_mb: 0"},
		{"preload that saves nothing", map[string]string{"c/runtime.yaml": good + "preload: {memory_mb: 50}\n"}, "preload.saves_ms: 0"},
		{"preload of too much", map[string]string{"c/runtime.yaml": good + "preload: {memory_mb: 5000}\n"}, "preload.memory_mb: 5000"},
		{"preload of another kind", map[string]string{"c/runtime.yaml": good + "preload: {memory: 50}\n"}, "memory"},
		{"preload with no variable", map[string]string{"c/runtime.yaml": good + "preload: {memory_mb: 50, env: {A=B: c}}\n"}, "preload.env: \"A=B\""},
		{"preload of a compiler of nothing", map[string]string{"c/runtime.yaml": good + "compile: [cc]\npreload: {memory_mb: 50}\n"}, "preload: compile has no {file} behind its first word"},
		{"preload of a compiler's session", map[string]string{"c/runtime.yaml": good + "compile: [cc, \"{file}\"]\npreload: {memory_mb: 50, session: true}\n"}, "preload.session, preload.forks:"},
		{"preload of a compiler's tests", map[string]string{"c/runtime.yaml": good + "compile: [cc, \"{file}\"]\npreload: {memory_mb: 50, forks: true}\n"}, "preload.session, preload.forks:"},
		{"file unused", map[string]string{"c/runtime.yaml": strings.Replace(good, "{file}", "x", 1)}, "{file}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(tree(tt.changes))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestImageName(t *testing.T) {
	t.Parallel()
	before := load1(t, nil).Image()
	yaml := string(tree(nil)["c/runtime.yaml"].Data)
	tests := []struct {
		name, file, content string
		changes             bool
	}{
		{"Containerfile", "c/Containerfile", "FROM y\n", true},
		{"a file more", "c/extra.py", "x", true},
		{"base", "base/packages.txt", "tzdata jq\n", true},
		{"test", "c/testdata/x/main.c", "int main() { return 1; }\n", false},
		{"limit", "c/runtime.yaml", strings.Replace(yaml, "20000", "10000", 1), false},
		{"hidden file", "c/.Containerfile.swp", "x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			after := load1(t, map[string]string{tt.file: tt.content}).Image()
			if (before != after) != tt.changes {
				t.Errorf("image was %s, is %s, want changed: %v", before, after, tt.changes)
			}
		})
	}
}

func TestFindVersion(t *testing.T) {
	t.Parallel()
	tests := []struct{ version, printed, want string }{
		{"3.13", "Python 3.13.5\n", "3.13.5"},
		{"14", "14.2.0\n", "14.2.0"},
		{"1.24", "go version go1.24.4 linux/amd64", "1.24.4"},
		{"22", "v22.23.3\n", "22.23.3"},
		{"5.40", "This is perl 5, version 40, subversion 1 (v5.40.1) built", "5.40.1"},
		{"27", "27\n", "27"},
		{"3.2", "cobc (GnuCOBOL) 3.2.0\n", "3.2.0"},
		{"25", "openjdk 25.0.3 2026-04-21\n", "25.0.3"},
		{"3.1", "Python 3.13.5", ""},
		{"13", "Python 3.13.5", ""},
		{"14", "114.2", ""},
	}
	for _, tt := range tests {
		r := Runtime{Version: tt.version}
		if got := r.FindVersion(tt.printed); got != tt.want {
			t.Errorf("%s in %q: got %q, want %q", tt.version, tt.printed, got, tt.want)
		}
	}
}

// TestSharedImage: a runtime can have the image of another, which is built once.
func TestSharedImage(t *testing.T) {
	t.Parallel()
	set, err := Load(tree(map[string]string{
		"cpp/runtime.yaml": "name: cpp\nversion: \"17\"\nversion_command: [g++, -v]\nimage: c\nfile: main.cpp\nrun: [run, \"{file}\"]\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := set.Lookup("c")
	cpp, _ := set.Lookup("cpp")
	if cpp.Image() != c.Image() || len(set.Images()) != 1 {
		t.Errorf("got images %q and %q of %q, want one", c.Image(), cpp.Image(), set.Images())
	}
	for _, o := range []BuildOptions{{}, {All: true}, {Names: []string{"cpp"}}, {Names: []string{"cpp", "c", "gcc"}}} {
		chosen, err := set.choose(o)
		if err != nil || len(chosen) != 1 || chosen[0].Name != "c" {
			t.Errorf("%+v: got %v, %v, want c's image once", o, chosen, err)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	r := load1(t, nil)
	tests := []struct {
		entrypoint   string
		args         []string
		compile, run []string
	}{
		{"", nil, []string{"gcc", "-o", "/tmp/a", "main.c"}, []string{"/tmp/a"}},
		{"src/x.c", []string{"{file}", "-v"}, []string{"gcc", "-o", "/tmp/a", "src/x.c"}, []string{"/tmp/a", "{file}", "-v"}},
		{"-o", nil, []string{"gcc", "-o", "/tmp/a", "./-o"}, []string{"/tmp/a"}},
	}
	for _, tt := range tests {
		compile, run := r.Command(tt.entrypoint, tt.args)
		if diff := cmp.Diff([][]string{tt.compile, tt.run}, [][]string{compile, run}); diff != "" {
			t.Errorf("%q: %s", tt.entrypoint, diff)
		}
	}
	if diff := cmp.Diff([]string{"/tmp/a"}, r.Run); diff != "" {
		t.Errorf("Command changed the runtime: %s", diff)
	}
}

// TestEmbedded looks at what Glovebox brings; that it works is for the sandbox's suite
// to show, with the same cases.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	set, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := LoadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(onDisk.List(), set.List(), cmp.AllowUnexported(Runtime{})); diff != "" {
		t.Errorf("what is embedded differs from the folders: %s", diff)
	}
	for _, r := range set.List() {
		cases, err := set.Cases(r.Name)
		if err != nil {
			t.Error(err)
		}
		names := map[string]bool{}
		for _, c := range cases {
			names[c.Name] = true
		}
		wanted := []string{"hello", "stdin", "error", "files", "unicode"}
		if r.Compile != nil {
			wanted = append(wanted, "compile-error")
		}
		for _, name := range wanted {
			if !names[name] {
				t.Errorf("%s has no case %s", r.Name, name)
			}
		}
	}
}
