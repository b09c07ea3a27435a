package jobe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/facadetest"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// all are the languages, where workers have each.
var all = offersOf(published("c", "cpp", "java", "node", "octave", "pascal", "php", "python"))

func published(names ...string) (list []producer.Runtime) {
	for _, name := range names {
		list = append(list, producer.Runtime{Name: name, Version: "1"})
	}
	return list
}

// TestOffers: a language is there if its runtime is; python3 has the other languages beside it where workers do.
func TestOffers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		published, want []string
	}{
		{nil, nil},
		{[]string{"bash", "python"}, []string{"python3 on python"}},
		{[]string{"python", "classroom", "c"}, []string{"c on c", "python3 on classroom"}},
		{[]string{"classroom"}, []string{"python3 on classroom"}},
	} {
		var got []string
		for _, o := range offersOf(published(tt.published...)) {
			got = append(got, o.id+" on "+o.runtime)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: %s", tt.published, diff)
		}
	}
}

func TestReadRunSpecRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{"", "Non-JSON post data received"},
		{"{", "Non-JSON post data received"},
		{"[]", "Non-JSON post data received"},
		{"null", "Non-JSON post data received"},
		{`{"run_spec":{"file_list":[` + strings.Repeat("1,", 5000) + `1]}}`, "the body has too many entries: want up to 4096"},
		{`{"run_spec":{"sourcecode":"\udc80","language_id":"c"}}`, "Non-JSON post data received"},
		{"{\"run_spec\":{\"sourcecode\":\"\xff\",\"language_id\":\"c\"}}", "Non-JSON post data received"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":7}}`, "Invalid file specifier: 7"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":{"0":["abcdefgh","../x"]}}}`, `Invalid file specifier: ["abcdefgh","../x"]`},
		{"{}", "No run_spec attribute found in post data"},
		{`{"run_spec":"x"}`, "No run_spec attribute found in post data"},
		{`{"run_spec":{}}`, "run_spec is missing the required attribute 'sourcecode'"},
		{`{"run_spec":{"sourcecode":1,"language_id":"c"}}`, "run_spec is missing the required attribute 'sourcecode'"},
		{`{"run_spec":{"sourcecode":""}}`, "run_spec is missing the required attribute 'language_id'"},
		{`{"run_spec":{"sourcecode":"","language_id":"Fortran"}}`, "Language 'fortran' is not known"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","parameters":{"cputime":121},"sourcefilename":"/x"}}`, "cputime exceeds maximum allowed on this Jobe server (120 secs)"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","parameters":{"cputime":"1e9"}}}`, "cputime exceeds maximum allowed on this Jobe server (120 secs)"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","sourcefilename":"../x","file_list":[1]}}`, "The sourcefilename for the run_spec is illegal"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","sourcefilename":"a;b"}}`, "The sourcefilename for the run_spec is illegal"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","sourcefilename":"-x"}}`, "The sourcefilename for the run_spec is illegal"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","sourcefilename":"a\nb"}}`, "The sourcefilename for the run_spec is illegal"},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":["x"]}}`, `Invalid file specifier: "x"`},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":[["abcdefgh"]]}}`, `Invalid file specifier: ["abcdefgh"]`},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":[["abc","x"]]}}`, `Invalid file specifier: ["abc","x"]`},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":[["abcdefgh","../x"]]}}`, `Invalid file specifier: ["abcdefgh","../x"]`},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":[["abcdefgh",".."]]}}`, `Invalid file specifier: ["abcdefgh",".."]`},
		{`{"run_spec":{"sourcecode":"","language_id":"c","file_list":[["../../etc","x"]]}}`, `Invalid file specifier: ["../../etc","x"]`},
	} {
		if _, err := readRunSpec([]byte(tt.body), all); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.body, err, tt.want)
		}
	}
}

func TestReadRunSpec(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fields          string
		file, mainClass string
		compile, run    string // how the command lines begin
		limits          job.Limits
	}{
		"c": {
			`"language_id":"C","sourcecode":"x","parameters":[]`, "prog.c", "prog",
			"{ gcc -Wall -Werror -std=c99 -x c -o /tmp/'prog.c'.exe 'prog.c' \n} >/tmp/compile.out 2>/tmp/compile.err\n[ ! -s /tmp/compile.err ]", "exec /tmp/'prog.c'.exe  ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 512, AddressSpaceMB: 400, OutputKB: 2048, Processes: 31, FileMB: 20, DiskMB: 64},
		},
		"parameters": {
			`"language_id":"cpp","sourcecode":"x","sourcefilename":"__tester__.cpp","parameters":{"cputime":"1.5","memorylimit":700,"numprocs":"2","disklimit":50,"streamsize":0.5,
				"compileargs":["-O1","-D 'A=\"b c\"'"],"linkargs":["-lm"],"runargs":[";","id"]}`, "__tester__.cpp", "__tester__",
			"{ g++ -O1 -D 'A=\"b c\"' -o /tmp/'__tester__.cpp'.exe '__tester__.cpp' -lm\n}", "exec /tmp/'__tester__.cpp'.exe  ; id",
			job.Limits{CPUMS: 1500, WallMS: 3000, CompileWallMS: 30_000, MemoryMB: 700, AddressSpaceMB: 700, OutputKB: 512, Processes: 5, FileMB: 50, DiskMB: 82},
		},
		"far more than there is": {
			`"language_id":"php","sourcecode":"x","parameters":{"memorylimit":500000,"cputime":120,"numprocs":1e300,"disklimit":-1,"streamsize":"1e9"}`, "prog.php", "prog",
			"{ php -l 'prog.php'\n}", "exec php --no-php-ini 'prog.php' ",
			job.Limits{CPUMS: 120_000, WallMS: 240_000, CompileWallMS: 240_000, MemoryMB: 2048, OutputKB: maxStreamKB, Processes: 1024, FileMB: 1024, DiskMB: 1024},
		},
		"no limit of memory": {
			`"language_id":"python3","sourcecode":"x","parameters":{"memorylimit":0}`, "prog.py", "prog",
			"{ " + strings.Replace(checkPython, "{file}", "'prog.py'", 1) + "\n}", "exec python3 -BE 'prog.py' ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 2048, OutputKB: 2048, Processes: 31, FileMB: 20, DiskMB: 64},
		},
		"of another type": {
			`"language_id":"python3","sourcecode":"x","input":7,"file_list":{},"sourcefilename":[],"parameters":{"cputime":"x","memorylimit":{},"numprocs":null,"disklimit":"","streamsize":-1,"interpreterargs":"-c","runargs":[1,"a",2.5,true,null]}`,
			"prog.py", "prog", "{ " + strings.Replace(checkPython, "{file}", "'prog.py'", 1) + "\n}", "exec python3 -BE 'prog.py' 1 a 2.5 1 ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 512, AddressSpaceMB: 1000, OutputKB: 2048, Processes: 31, FileMB: 20, DiskMB: 64},
		},
		"java": {
			`"language_id":"java","sourcecode":"class A {}\npublic final class Hello {\n public static void main(String[] a) {} }","sourcefilename":"prog.java"`, "Hello.java", "Hello",
			"{ java @/usr/local/lib/glovebox/compile.args Javac ", "exec java -Xrs -Xss8m -Xmx200m 'Hello' ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 512, OutputKB: 2048, Processes: 256, FileMB: 20, DiskMB: 64},
		},
		"java's modifiers": {
			`"language_id":"java","sourcecode":"public class Hello {\n static public void main(String[] a) {} }"`, "Hello.java", "Hello",
			"{ java @/usr/local/lib/glovebox/compile.args Javac ", "exec java -Xrs -Xss8m -Xmx200m 'Hello' ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 512, OutputKB: 2048, Processes: 256, FileMB: 20, DiskMB: 64},
		},
		"java without a main method": {
			`"language_id":"java","sourcecode":"public class Hello {}","parameters":{"main_class":"a.B'; id '","interpreterargs":[]}`, "prog.java", "a.B; id ",
			"{ java @/usr/local/lib/glovebox/compile.args Javac ", "exec java  'a.B; id ' ",
			job.Limits{CPUMS: 5000, WallMS: 10000, CompileWallMS: 30_000, MemoryMB: 512, OutputKB: 2048, Processes: 256, FileMB: 20, DiskMB: 64},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := readRunSpec([]byte(`{"run_spec":{`+tt.fields+`}}`), all)
			if err != nil {
				t.Fatal(err)
			}
			if s.file != tt.file || s.mainClass != tt.mainClass {
				t.Errorf("got %q, class %q, want %q, %q", s.file, s.mainClass, tt.file, tt.mainClass)
			}
			c := s.language.commands(s)
			if !strings.HasPrefix(c.Compile, tt.compile) || c.Run != tt.run {
				t.Errorf("got\n%s\n%s\nwant\n%s\n%s", c.Compile, c.Run, tt.compile, tt.run)
			}
			tt.limits.Artifacts = 1
			if d := cmp.Diff(tt.limits, s.limits(job.DefaultMaximums)); d != "" {
				t.Errorf("limits (-want +got):\n%s", d)
			}
			spec := job.Spec{Runtime: "x", Commands: c, Limits: s.limits(job.DefaultMaximums)}
			if err := spec.Check([]string{"x"}, nil, job.DefaultMaximums); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPHP: what PHP takes for a text or a list is one.
func TestPHP(t *testing.T) {
	t.Parallel()
	s, err := readRunSpec([]byte(`{"run_spec":{"language_id":"python3","sourcecode":"x","input":7,"file_list":{"2":["ijklmnop","b"],"0":["abcdefgh","a"]}}}`), all)
	if err != nil || s.input != "7" || len(s.files) != 2 || s.files[0] != (fileSpec{"abcdefgh", "a"}) || s.files[1].name != "b" {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestLimitsFit: a run that asks for all that there is passes the check of a tenant whose files may be smaller than its
// directory, and the other way around.
func TestLimitsFit(t *testing.T) {
	t.Parallel()
	for _, most := range [][2]int64{{100, 1024}, {1024, 100}} {
		maximums := job.DefaultMaximums
		maximums.FileMB, maximums.DiskMB = most[0], most[1]
		for _, disk := range []float64{-1, 0.1, 20, 1e9} {
			l := runSpec{diskMB: disk, cpuSeconds: 5, streamMB: 1}.limits(maximums)
			if errs := l.Check(maximums); len(errs) > 0 {
				t.Errorf("disklimit %v of %v MiB: got %v", disk, most, errs)
			}
		}
	}
}

// TestAddressSpaceFits: a tenant that may have less address space than a language's default gets what it may have, whatever a run asks for.
func TestAddressSpaceFits(t *testing.T) {
	t.Parallel()
	maximums := job.DefaultMaximums
	maximums.AddressSpaceMB = 300
	for memory, want := range map[float64]int64{-1: 300, 0: 0, 299.5: 300, 200: 200, 400: 300, 500_000: 300} {
		l := runSpec{language: all[0].language, memoryMB: memory, cpuSeconds: 5, streamMB: 1}.limits(maximums)
		if errs := l.Check(maximums); len(errs) > 0 || l.AddressSpaceMB != want {
			t.Errorf("memorylimit %v: got %d MiB, %v, want %d", memory, l.AddressSpaceMB, errs, want)
		}
	}
}

// TestAnswer: outcomes of results that are hard to come by.
func TestAnswer(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	for name, tt := range map[string]struct {
		result  job.Result
		outcome int
		stderr  string
	}{
		"out of memory, by itself": {job.Result{Status: job.OutOfMemory, ExitCode: code(1)}, runtimeError, ""},
		"out of memory, killed":    {job.Result{Status: job.OutOfMemory, ExitCode: code(137), Signal: "SIGKILL"}, memoryLimit, ""},
		"a signal without a name":  {job.Result{Status: job.Failed, ExitCode: code(162), Signal: "SIG34"}, runtimeError, "warning: command terminated with signal 34\n"},
		"a signal":                 {job.Result{Status: job.Failed, ExitCode: code(143), Signal: "SIGTERM"}, runtimeError, "warning: command terminated with signal 15\n"},
		"canceled":                 {job.Result{Status: job.Canceled}, internalError, ""},
		"our failure":              {job.Result{Status: job.InternalError}, internalError, ""},
		"a compiler that is slow":  {job.Result{Status: job.CompileFailed, Compile: &job.Compile{ExitCode: 124, Output: "Compilation timed out\n"}}, compileError, ""},
		"nothing ran":              {job.Result{Status: job.Failed, Error: &job.Error{Message: "an input is gone"}}, runtimeError, "an input is gone"},
		"another's time":           {job.Result{Status: job.Failed, ExitCode: code(1), Stderr: "a.out: timelimit exceeded (wall time)\n"}, timeLimit, ""},
		"another's time, in words": {job.Result{Status: job.Succeeded, ExitCode: code(0), Stderr: "time limit exceeded"}, timeLimit, ""},
		"a message like it":        {job.Result{Status: job.Succeeded, ExitCode: code(0), Stderr: "Time Limit Exceeded"}, runtimeError, "Time Limit Exceeded"},
	} {
		o, err := answer(t.Context(), &facade.Call{}, language{id: "c"}, tt.result)
		if slow := strings.Contains(o.CmpInfo, "The compiler was stopped"); slow != (tt.outcome == compileError) {
			t.Errorf("%s: got cmpinfo %q", name, o.CmpInfo)
		}
		if err != nil || o.Outcome != tt.outcome || string(o.Stderr) != tt.stderr {
			t.Errorf("%s: got %+v, %v, want %d %q", name, o, err, tt.outcome, tt.stderr)
		}
	}
}

// TestRefuseRun: 404 means that files are to be sent, and nothing else.
func TestRefuseRun(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{errNoFile: 404, fmt.Errorf("read stdout: %w", job.ErrNotFound): 500, facade.BadRequest("x"): 400, facade.ErrNoPlace: 200} {
		w := httptest.NewRecorder()
		refuseRun(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody), &facade.Call{}, err)
		if w.Code != want {
			t.Errorf("%v: got %d %s, want %d", err, w.Code, w.Body, want)
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{"49f68a5c8493ec2c0bf489821c21fc3b": true, "49F68A5C8493EC2C0BF489821C21FC3B": true, "49f68a5c8493ec2c0bf489821c21fc3c": false} {
		if got := named(id, []byte("hi")); got != want {
			t.Errorf("%s: got %t", id, got)
		}
	}
}

// TestFind: a file that a run has under many names is looked up once.
func TestFind(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	if err := w.Client.KeepFile(t.Context(), "abcdefgh", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s := runSpec{file: "prog.c", source: "main"}
	for i := range 256 {
		s.files = append(s.files, fileSpec{"abcdefgh", fmt.Sprintf("f%d", i)})
	}
	commands := func() (n int64) {
		info, err := w.Raw.InfoMap(t.Context(), "stats").Result()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscan(info["Stats"]["total_commands_processed"], &n)
		return n
	}
	before := commands()
	files, err := s.find(t.Context(), &facade.Call{Client: w.Client})
	if err != nil || len(files) != 257 || files[256].Name != "f255" || files[256].Upload == "" || files[256].Upload != files[1].Upload {
		t.Fatalf("got %d files, %v, want 257", len(files), err)
	}
	if n := commands() - before; n > 100 {
		t.Errorf("Redis was asked %d times for 256 names of one file", n)
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, in, want string }{
		{"java", "Exception\n\tat A\n", "Exception\n        at A\n"},
		{"octave", "error: x\r\nerror: ignoring octave_execution_exception: y\n\n", "error: x"},
		{"octave", "error: No such file or directory\n", ""},
		{"c", "a\n\tb\r\n", "a\n\tb\r\n"},
	} {
		if got := string(language{id: tt.id}.tidy([]byte(tt.in))); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.id, got, tt.want)
		}
	}
}

func FuzzReadRunSpec(f *testing.F) {
	f.Add([]byte(`{"run_spec":{"language_id":"c","sourcecode":"x","file_list":[["abcdefgh","x",true]],"parameters":{"cputime":"1","runargs":["$(id)"]}}}`))
	f.Add([]byte(`{"run_spec":{"language_id":"java","sourcecode":"public class A { public static void main(String[] a","sourcefilename":"é.java"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := readRunSpec(body, all)
		if err != nil {
			return
		}
		if problem := job.CheckName(s.file); problem != "" || strings.ContainsAny(s.file, "'/") {
			t.Fatalf("%q: the source is called %q", body, s.file)
		}
		if strings.Contains(s.mainClass, "'") {
			t.Fatalf("%q: the class %q leaves its quotes", body, s.mainClass)
		}
		spec := job.Spec{Runtime: "x", Commands: s.language.commands(s), Files: []job.File{{Name: s.file}}, Limits: s.limits(job.DefaultMaximums)}
		_ = spec.Check([]string{"x"}, nil, job.DefaultMaximums) // it must not panic
		for _, f := range s.files {
			if job.CheckName(f.name) != "" || strings.Contains(f.name, "/") {
				t.Fatalf("%q: a file is called %q", body, f.name)
			}
		}
		if errs := s.limits(job.DefaultMaximums).Check(job.DefaultMaximums); len(errs) > 0 {
			t.Fatalf("%q: got %v", body, errs)
		}
	})
}

// FuzzContents: a file is what its base64 says, or is refused.
func FuzzContents(f *testing.F) {
	f.Add([]byte(`{"file_contents":"aGk="}`))
	f.Add([]byte(`{"file_contents":"aG\u000ak=","file_contents":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := readContents(body, "abcdefgh")
		if err != nil && content != nil || len(content) > len(body) {
			t.Fatalf("%q: got %d bytes, %v", body, len(content), err)
		}
	})
}

// TestAnswerMemory: the longest stream that a run may print can be answered twice, whatever JSON makes of its bytes.
func TestAnswerMemory(t *testing.T) {
	t.Parallel()
	each := []byte{0xff, 0}
	if testing.Short() {
		each = each[:1]
	}
	for _, b := range each {
		printed := bytes.Repeat([]byte{b}, maxStreamKB<<10)
		c, m, result := facadetest.Printed(t, printed)
		said, err := answer(t.Context(), c, language{id: "c"}, result)
		if err != nil {
			t.Fatal(err)
		}
		m.Check(t, printed)
		w := httptest.NewRecorder()
		said.write(w)
		var got struct{ Stdout string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Stdout != escape(printed) {
			t.Errorf("%d: got %d bytes, %v, %.60q", b, len(got.Stdout), err, got.Stdout)
		}
	}
}
