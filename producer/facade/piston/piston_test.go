package piston

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/facadetest"
)

func TestReadRequest(t *testing.T) {
	t.Parallel()
	const files = `"files":[{"content":"x"}]`
	for _, tt := range []struct{ body, want string }{
		{"", "the body is not a JSON object"},
		{"[]", "the body is not a JSON object"},
		{"null", "the body is not a JSON object"},
		{`{"files":[` + strings.Repeat("1,", 20_000) + `1]}`, "the body has too many entries: want up to 16384"},
		{`{} {}`, "the body has more than a JSON object"},
		{"{}", "language is required as a string"},
		{`{"language":7,"version":"*",` + files + `}`, "language is required as a string"},
		{`{"language":"","version":"*",` + files + `}`, "language is required as a string"},
		{`{"language":"c"}`, "version is required as a string"},
		{`{"language":"c","version":3}`, "version is required as a string"},
		{`{"language":"c","version":"*"}`, "files is required as an array"},
		{`{"language":"c","version":"*","files":null}`, "files is required as an array"},
		{`{"language":"c","version":"*","files":{}}`, "files is required as an array"},
		{`{"language":"c","version":"*","files":[{"content":"x"},{"name":"y"}]}`, "files[1].content is required as a string"},
		{`{"language":"c","version":"*","files":["x"]}`, "files[0].content is required as a string"},
		{`{"language":"c","version":"*","files":[{"content":[]}]}`, "files[0].content is required as a string"},
		{`{"language":"c","version":"*","files":[{"content":"$","encoding":"base64"}]}`, "files[0].content is not base64"},
		{`{"language":"c","version":"*","files":[{"content":"zz","encoding":"hex"}]}`, "files[0].content is not hex"},
		{`{"language":"c","version":"*","stdin":1,` + files + `}`, "If specified, stdin must be a string"},
		{`{"language":"c","version":"*","args":"a",` + files + `}`, "If specified, args must be an array of strings"},
		{`{"language":"c","version":"*","args":[[]],` + files + `}`, "If specified, args must be an array of strings"},
		{`{"language":"c","version":"*","run_timeout":"3",` + files + `}`, "If specified, run_timeout must be a number"},
		{`{"language":"c","version":"*","run_memory_limit":-2,` + files + `}`, "run_memory_limit must be non-negative"},
	} {
		if _, err := readRequest([]byte(tt.body)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.body, err, tt.want)
		}
	}
	r, err := readRequest([]byte(`{"language":"c","version":"*","nobody":["knows"],"files":[{"content":"eA","encoding":"base64"},{"name":"./src//a.c","content":"y","encoding":"latin9"}],
		"args":["a",1],"stdin":null,"run_timeout":-1,"compile_timeout":0,"run_memory_limit":1048577}`))
	want := request{
		language: "c", version: "*", files: []file{{"", []byte("x"), false}, {"src/a.c", []byte("y"), true}},
		args: []string{"a", "1"}, limits: map[string]float64{"run_memory_limit": 1048577},
	}
	if d := cmp.Diff(want, r, cmp.AllowUnexported(request{}, file{})); err != nil || d != "" {
		t.Errorf("got %v (-want +got):\n%s", err, d)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	list := []runtime{
		{Language: "python", Version: threeNumbers("3.13"), Aliases: []string{"py"}},
		{Language: "python", Version: threeNumbers("2.7.18")},
		{Language: "raku", Version: threeNumbers("2024.09")},
		{Language: "odd", Version: threeNumbers("r7b")},
	}
	for _, tt := range []struct{ name, versions, want string }{
		{"python", "*", "3.13.0"},
		{"py", "*", "3.13.0"},
		{"python", "3", "3.13.0"},
		{"python", "3.x", "3.13.0"},
		{"python", "3.13", "3.13.0"},
		{"python", "3.13.0", "3.13.0"},
		{"python", ">=3.10", "3.13.0"},
		{"python", "^3.10.0", "3.13.0"},
		{"python", ">=3.10 <4 || 1.x", "3.13.0"},
		{"python", "2.x", "2.7.18"},
		{"python", "<3", "2.7.18"},
		{"python", "2.7.0 - 2.8.0", "2.7.18"},
		{"py", "2.x", ""},
		{"python", "3.10.0", ""},
		{"python", "latest", ""},
		{"python", strings.Repeat("|| 3 ", 100), ""},
		{"raku", "2024.9.0", "2024.9.0"},
		{"odd", "*", "7.0.0"},
		{"Python", "*", ""},
		{"", "*", ""},
	} {
		got, ok := find(list, tt.name, tt.versions)
		if got.Version != tt.want || ok != (tt.want != "") {
			t.Errorf("%s-%s: got %q, want %q", tt.name, tt.versions, got.Version, tt.want)
		}
	}
}

// Names and aliases are one language's each: which one is meant doesn't depend on what else is there.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, l := range languages {
		for _, name := range append([]string{l.name}, l.aliases...) {
			if of, again := seen[name]; again {
				t.Errorf("%s is of %s and %s", name, of, l.name)
			}
			seen[name] = l.name
		}
		if l.file == "" || l.together && len(l.extensions) == 0 {
			t.Errorf("%s has no name for its file", l.name)
		}
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	language := func(name string) language {
		for _, l := range languages {
			if l.name == name {
				return l
			}
		}
		return language{name: name, runtime: name}
	}
	source := func(name string) file { return file{name, []byte("x"), true} }
	for name, tt := range map[string]struct {
		language string
		files    []file
		names    string // of files of the job, the entry point first
		args     string
	}{
		"no name":             {"python", []file{source("")}, "main.py", ""},
		"no name, any args":   {"c", []file{source("")}, "main.c", "main.c"},
		"its own name":        {"python", []file{source("run.py")}, "run.py", ""},
		"another extension":   {"java", []file{source("file0.code")}, "file0.java", "file0.java"},
		"no extension":        {"python", []file{source("app"), source("main.py")}, "app.py main.py", ""},
		"in a folder":         {"python", []file{source("src/prog")}, "src/prog.py", ""},
		"a name taken":        {"python", []file{source(""), source("main.py")}, "main1.py main.py", ""},
		"an odd name":         {"rust", []file{source("1. try.txt")}, "main.rs", ""},
		"another C++":         {"c++", []file{source("main.cc"), source("util.cc"), source("util.hh")}, "main.cpp util.cc.cpp util.hh", "main.cpp"},
		"a header first":      {"c", []file{source("util.h"), source("main.c")}, "main.c util.h", "main.c"},
		"headers only":        {"c", []file{source("util.h")}, "util.c", "util.c"},
		"no need of one":      {"bash", []file{source("run")}, "run", ""},
		"sources beside":      {"c", []file{source("a.c"), source("b"), source(""), source("d.h")}, "a.c b.c file2.code.c d.h", "a.c"},
		"data first":          {"python", []file{{"in.bin", []byte("\xff"), false}, source("a.py")}, "a.py in.bin", ""},
		"data without a name": {"c", []file{source(""), {"", []byte("x"), false}}, "main.c file1.code", "main.c"},
		"an executable":       {"file", []file{{"", []byte("\x7fELF\xff"), false}}, "main", "main"},
		"not Piston's":        {"tcl", []file{source("a.tcl")}, "a.tcl", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := language(tt.language).spec(request{files: tt.files}, job.DefaultMaximums)
			if err != nil {
				t.Fatal(err)
			}
			names := []string{spec.Entrypoint}
			for _, f := range spec.Files {
				if f.Name != spec.Entrypoint {
					names = append(names, f.Name)
				}
			}
			if got := strings.Join(names, " "); got != tt.names || len(spec.Files) != len(tt.files) {
				t.Errorf("got %s of %d, want %s", got, len(spec.Files), tt.names)
			}
			if got := strings.Join(spec.Args, " "); got != tt.args {
				t.Errorf("got arguments %q, want %q", got, tt.args)
			}
			if err := spec.Check([]string{spec.Runtime}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
	if spec, err := language("tcl").spec(request{files: []file{source("")}}, job.DefaultMaximums); err != nil || spec.Source != "x" || len(spec.Files) != 0 {
		t.Errorf("no name, not Piston's: got %+v, %v", spec, err)
	}
	if _, err := language("python").spec(request{files: []file{{"x", []byte("x"), false}}}, job.DefaultMaximums); err == nil {
		t.Error("a request without a source is taken")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	got, err := limitsOf(map[string]float64{"run_timeout": 2500.2, "run_memory_limit": 100_000_000, "run_cpu_time": 1, "compile_timeout": 9, "compile_memory_limit": 1 << 20, "compile_cpu_time": 5}, job.DefaultMaximums)
	if want := (job.Limits{WallMS: 2501, MemoryMB: 96, CPUMS: 1, CompileWallMS: 9, CompileMemoryMB: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for name, want := range map[string]string{
		"run_timeout": "run_timeout cannot exceed the configured limit of 300000", "compile_cpu_time": "compile_cpu_time cannot exceed the configured limit of 1200000",
		"run_memory_limit": "run_memory_limit cannot exceed the configured limit of 2147483648",
	} {
		if _, err := limitsOf(map[string]float64{name: 1e300}, job.DefaultMaximums); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"language":"c","version":"*","files":[{"content":"eA==","encoding":"base64"}],"args":["a",1],"run_timeout":1e3}`))
	f.Add([]byte(`{"language":"c","version":">=1 || ^2","files":[{"name":"../x","content":"00","encoding":"hex"}],"stdin":"\ud800"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := readRequest(body)
		if err != nil {
			return
		}
		find([]runtime{{Language: r.language, Version: "1.2.3"}}, r.language, r.version)
		for _, l := range languages[:3] {
			spec, err := l.spec(r, job.DefaultMaximums)
			if err != nil {
				continue
			}
			if len(spec.Files) != len(r.files) || !strings.HasSuffix(spec.Stdin, "\n") {
				t.Fatalf("got %+v of %q", spec, body)
			}
			for _, f := range spec.Files {
				if _, err := base64.StdEncoding.DecodeString(f.ContentBase64); err != nil {
					t.Fatal(err)
				}
			}
			_ = spec.Check([]string{l.runtime}, nil, job.DefaultMaximums) // it must not panic
		}
	})
}

// TestAnswerMemory: what a program printed can be answered, whatever JSON makes of its bytes.
func TestAnswerMemory(t *testing.T) {
	t.Parallel()
	printed := bytes.Repeat([]byte{1}, 4<<20)
	c, m, result := facadetest.Printed(t, printed)
	said, err := answer(t.Context(), c, runtime{}, result)
	if err != nil {
		t.Fatal(err)
	}
	m.Check(t, printed)
	w := httptest.NewRecorder()
	said.write(w)
	var got struct {
		Run struct{ Stdout, Output string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Run.Stdout != string(printed) || got.Run.Output != got.Run.Stdout {
		t.Errorf("got %d and %d bytes, %v", len(got.Run.Stdout), len(got.Run.Output), err)
	}
}

// TestStages: what steps came to that are hard to come by.
func TestStages(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	compile := func(c job.Compile) job.Result { return job.Result{Status: job.CompileFailed, Compile: &c} }
	for name, tt := range map[string]struct {
		result job.Result
		want   string // of the run, from code to status
	}{
		"out of time":          {job.Result{Status: job.TimedOut, ExitCode: code(124)}, `"code":null,"signal":"SIGKILL","message":"Time limit exceeded (wall clock)","status":"TO"`},
		"out of CPU time":      {job.Result{Status: job.TimedOut, Limit: "cpu_ms"}, `"code":null,"signal":"SIGKILL","message":"Time limit exceeded","status":"TO"`},
		"too long":             {job.Result{Status: job.OutputLimitExceeded, Stdout: "x"}, `"code":null,"signal":"SIGKILL","message":"stdout length exceeded","status":"OL"`},
		"too long on stderr":   {job.Result{Status: job.OutputLimitExceeded, Stderr: "x"}, `"code":null,"signal":"SIGKILL","message":"stderr length exceeded","status":"EL"`},
		"a signal":             {job.Result{Status: job.Failed, ExitCode: code(139), Signal: "SIGSEGV"}, `"code":null,"signal":"SIGSEGV","message":"Caught fatal signal 11","status":"SG"`},
		"nothing ran":          {job.Result{Status: job.Failed, Error: &job.Error{Message: "an input is gone"}}, `"code":null,"signal":null,"message":"an input is gone","status":"XX"`},
		"a slow compiler":      {compile(job.Compile{ExitCode: 124, Output: "warning\nCompilation timed out\n"}), `"code":null,"signal":"SIGKILL","message":"Time limit exceeded (wall clock)","status":"TO"`},
		"a compiler's signal":  {compile(job.Compile{ExitCode: 137, Output: "x"}), `"code":null,"signal":"SIGKILL","message":"Caught fatal signal 9","status":"SG"`},
		"it does not compile":  {compile(job.Compile{ExitCode: 1, Output: "x"}), `"code":1,"signal":null,"message":"Exited with error status 1","status":"RE"`},
		"it ended well":        {job.Result{Status: job.Succeeded, ExitCode: code(0)}, `"code":0,"signal":null,"message":null,"status":null`},
		"an exit code of ours": {job.Result{Status: job.Failed, ExitCode: code(3)}, `"code":3,"signal":null,"message":"Exited with error status 3","status":"RE"`},
	} {
		said, err := answer(t.Context(), &facade.Call{}, runtime{}, tt.result)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		said.write(w)
		run, _, _ := strings.Cut(w.Body.String(), `},"compile"`)
		if !strings.Contains(run, tt.want) || !json.Valid(w.Body.Bytes()) || strings.Contains(w.Body.String(), `"compile"`) != (tt.result.Compile != nil) {
			t.Errorf("%s: got %s, want %s", name, w.Body, tt.want)
		}
	}
}
