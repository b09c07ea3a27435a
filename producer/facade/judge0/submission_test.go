package judge0

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/runtimes"
)

// all is a catalog with all languages.
func all(tb testing.TB) catalog {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	var list catalog
	ids := map[int]string{}
	for _, l := range languages {
		r, ok := set.Lookup(l.runtime)
		if !ok {
			tb.Fatalf("%s is on %s, which is no runtime", l.label, l.runtime)
		}
		for _, id := range l.ids {
			if ids[id] != "" {
				tb.Errorf("%d is %s and %s", id, ids[id], l.label)
			}
			ids[id] = l.label
		}
		list = append(list, offered{l, r.Version, r.Limits, r})
	}
	return list
}

// TestCommands: what a shell is told, of each language that takes options.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, o := range all(t) {
		if compile := o.compileLine("OPTIONS"); o.takesOptions && !strings.Contains(compile, " OPTIONS "+o.source()) {
			t.Errorf("%s: %q has no options before its file", o.name(), compile)
		}
		if run := o.runLine("A 'b c'"); o.ids[0] != multiFile && !strings.HasSuffix(run, " A 'b c'") {
			t.Errorf("%s: %q has no arguments", o.name(), run)
		}
	}
	hostile := "a$(id)`id`;id|id&id>f<f"
	if got := line(&hostile); got != "a(id)ididididff" {
		t.Errorf("got %q", got)
	}
}

// TestMultiFileRuntime: a program of several files gets an image that has what its files need.
func TestMultiFileRuntime(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		published, files, want string
	}{
		{"bash c cpp java", "run", "bash"},
		{"bash c cpp java", "run a.c B.java", "java"},
		{"bash c cpp java", "run a.rs", "bash"},
		{"bash c cpp java rust classroom", "run", "classroom"},
		{"bash c cpp java rust classroom", "run a.c B.java", "classroom"},
		{"bash c cpp java rust classroom", "run a.rs", "rust"},
		{"bash cpp lua classroom", "run main.cpp x.lua", "classroom"},
	} {
		var published []producer.Runtime
		for name := range strings.FieldsSeq(tt.published) {
			published = append(published, producer.Runtime{Name: name})
		}
		list := catalogOf(set, published)
		o, ok := list.find(multiFile)
		if !ok {
			t.Fatalf("%s: no language %d", tt.published, multiFile)
		}
		s := &submission{LanguageID: multiFile}
		for name := range strings.FieldsSeq(tt.files) {
			s.unpacked = append(s.unpacked, file{name: name})
		}
		if spec, err := s.spec(o, list); err != nil || spec.Runtime != tt.want {
			t.Errorf("%s: %s: got %s, %v, want %s", tt.published, tt.files, spec.Runtime, err, tt.want)
		}
	}
}

// TestCompileTime: a compiler has half a minute, however little time its program may have.
func TestCompileTime(t *testing.T) {
	t.Parallel()
	s := &submission{WallTime: 1, CPUTime: 1, most: boundsOf(job.DefaultMaximums)}
	if l := s.limits(); l.CompileWallMS != 30_000 || l.WallMS != 1000 {
		t.Errorf("got %+v", l)
	}
}

// TestSourceFits: a submission may have as much as it has, also where it is bytes, which a job has as base64 with its padding.
func TestSourceFits(t *testing.T) {
	t.Parallel()
	const size = 1024
	text, bytes := []byte(strings.Repeat("#", size)), []byte(strings.Repeat("\xff", size))
	for name, s := range map[string]*submission{
		"a file":        {LanguageID: 46, Texts: Texts{SourceCode: text[:6]}, unpacked: []file{{"f", bytes[6:]}}},
		"several files": {LanguageID: multiFile, unpacked: []file{{"run", bytes[:10]}, {"a", bytes[:500]}, {"b", bytes[510:]}}},
		"a source":      {LanguageID: 46, Texts: Texts{SourceCode: bytes}},
		"stdin":         {LanguageID: 46, Texts: Texts{SourceCode: text[:6], Stdin: bytes[6:]}},
		"text":          {LanguageID: 46, Texts: Texts{SourceCode: text}},
	} {
		s.WallTime, s.CPUTime, s.Memory, s.Processes, s.most = 1, 1, defaultMemory, defaultProcesses, boundsOf(job.DefaultMaximums)
		languages := all(t)
		o, ok := languages.find(s.LanguageID)
		if !ok {
			t.Fatalf("%s: no language %d", name, s.LanguageID)
		}
		spec, err := s.spec(o, languages)
		if err == nil {
			err = spec.Check([]string{spec.Runtime}, nil, job.DefaultMaximums)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStackFits: a tenant that may have less stack than Judge0's default has that as its default and its bound.
func TestStackFits(t *testing.T) {
	t.Parallel()
	languages, maximums := all(t), job.DefaultMaximums
	maximums.StackMB = 32
	read := func(stack string) (*submission, faults) {
		return readSubmission(params{"language_id": "50", "source_code": "int main(void) {}", "stack_limit": stack}, false, languages, boundsOf(maximums))
	}
	s, wrong := read("")
	if len(wrong) > 0 || s.Stack != 32<<10 {
		t.Fatalf("got %d kB, %v, want %d", s.Stack, wrong, 32<<10)
	}
	o, _ := languages.find(s.LanguageID)
	spec, err := s.spec(o, languages)
	if errs := spec.Limits.Check(maximums); err != nil || len(errs) > 0 || spec.Limits.StackMB != 32 {
		t.Errorf("got %d MiB, %v, %v, want 32", spec.Limits.StackMB, err, errs)
	}
	if _, wrong := read("32769"); len(wrong["stack_limit"]) != 1 || wrong["stack_limit"][0] != "must be less than or equal to 32768" {
		t.Errorf("got %v", wrong)
	}
}

// TestKeep: what was sent is read again from where it was kept.
func TestKeep(t *testing.T) {
	t.Parallel()
	expected, arguments := []byte("\xff"), "a b"
	sent := &submission{
		Texts:      Texts{SourceCode: []byte("print(1)\x00"), Expected: &expected, Files: []byte("zip")},
		LanguageID: 71, ExpectedSum: trimmedSum(expected), Arguments: &arguments, CPUTime: 1.5, Runs: []string{"a-b"},
	}
	metadata, err := sent.keep(t.Context(), &facade.Call{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := kept(metadata)
	if err != nil || !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v, %v, want %+v", got, err, sent)
	}
	for name, hostile := range map[string]map[string]string{
		"none":       {},
		"no base64":  {languageKey: "1", pieceKey + "0": "*"},
		"no deflate": {languageKey: "1", pieceKey + "0": "AAAA"},
		"a bomb":     {languageKey: "1", pieceKey + "0": strings.Join(pieces([]byte(strings.Repeat(" ", maxInline+1))), "")},
		"no JSON":    {languageKey: "1", pieceKey + "0": strings.Join(pieces([]byte("x")), "")},
		"many runs":  {languageKey: "1", pieceKey + "0": strings.Join(pieces([]byte(`{"runs":["`+strings.Repeat(`a","`, maxRuns)+`"]}`)), "")},
	} {
		if s, err := kept(hostile); err == nil {
			t.Errorf("%s: got %+v", name, s)
		}
	}
}

// TestDecide: the status, message and numbers of results that are hard to come by.
func TestDecide(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	now := time.Now()
	for name, tt := range map[string]struct {
		result  job.Result
		status  int
		message string
	}{
		"over its CPU time, in the extra time": {job.Result{Status: job.Succeeded, ExitCode: code(0), Usage: job.Usage{CPUMS: 5500}}, timeLimit, "Time limit exceeded"},
		"out of memory, by itself":             {job.Result{Status: job.OutOfMemory, ExitCode: code(1)}, runtimeNZEC, "Exited with error status 1"},
		"out of memory, killed":                {job.Result{Status: job.OutOfMemory, ExitCode: code(137), Signal: "SIGKILL"}, runtimeOther, "Caught fatal signal 9"},
		"internal error":                       {job.Result{Status: job.InternalError, Error: &job.Error{Message: "no disk"}}, internalError, "no disk"},
		"never ran":                            {job.Result{Status: job.Failed, Error: &job.Error{Message: "an input is gone"}}, internalError, "an input is gone"},
		"canceled":                             {job.Result{Status: job.Canceled}, internalError, "canceled"},
		"file size":                            {job.Result{Status: job.Failed, ExitCode: code(153), Signal: "SIGXFSZ"}, runtimeSIGXFSZ, "Caught fatal signal 25"},
	} {
		tt.result.Timing.FinishedAt = &now
		o, err := (&submission{CPUTime: 5}).judge(t.Context(), &facade.Call{}, tt.result)
		if err != nil || o.status != tt.status || o.message != tt.message {
			t.Errorf("%s: got %d %q, %v, want %d %q", name, o.status, o.message, err, tt.status, tt.message)
		}
	}
}

// TestCompileTimeIsUp: a compile step whose time is up says so, in the words of the original.
func TestCompileTimeIsUp(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"main.cpp:1: error\n":                          "main.cpp:1: error\n",
		"Compilation timed out\n":                      "Compilation time limit exceeded.",
		"main.cpp:1: warning\nCompilation timed out\n": "Compilation time limit exceeded.",
	} {
		r := job.Result{Status: job.CompileFailed, Compile: &job.Compile{Output: output}}
		if o, err := (&submission{}).judge(t.Context(), &facade.Call{}, r); err != nil || o.status != compilationError || string(o.compilerOutput) != want {
			t.Errorf("%q: got %d %q, %v", output, o.status, o.compilerOutput, err)
		}
	}
}

// TestHalfCharacters: what is no text is refused, and not run as another program.
func TestHalfCharacters(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"language_id":71,"source_code":"print('\udc80')"}`, "{\"stdin\":\"\xff\"}"} {
		if p, err := jsonParams([]byte(body)); err == nil {
			t.Errorf("%s: got %v", body, p)
		}
	}
	if p, err := jsonParams([]byte(`{"stdin":"\ud83d\ude00\\ud800"}`)); err != nil || p["stdin"] != "😀\\ud800" {
		t.Errorf("got %q, %v", p, err)
	}
}

// FuzzSubmission: whatever is sent, it is wrong in a way that can be said, or a job.
func FuzzSubmission(f *testing.F) {
	languages, most := all(f), boundsOf(job.DefaultMaximums)
	for _, seed := range []string{
		`{}`, `[]`, `{"language_id":71,"source_code":"x"}`, `{"language_id":"71","source_code":7,"stdin":{},"cpu_time_limit":"1e9"}`,
		`{"language_id":89,"additional_files":"UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA=="}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, body string, encoded bool) {
		p, err := bodyParams("application/json", []byte(body))
		if err != nil {
			return
		}
		s, wrong := readSubmission(p, encoded, languages, most)
		if len(wrong) > 0 {
			if _, err := json.Marshal(wrong); err != nil {
				t.Error(err)
			}
			return
		}
		if len(s.Files) > 0 {
			if s.unpacked, err = unpackAll(s.Files); err != nil {
				return
			}
		}
		language, ok := languages.find(s.LanguageID)
		if !ok {
			t.Fatalf("%s passed with the language %d", body, s.LanguageID)
		}
		spec, err := s.spec(language, languages)
		if err != nil {
			return
		}
		_ = translate(asInvalid(spec.Check([]string{spec.Runtime}, nil, job.DefaultMaximums)))
	})
}

func asInvalid(err error) job.Invalid {
	invalid, _ := err.(job.Invalid) //nolint:errorlint // it is what Check returns
	return invalid
}

// TestAverage: several runs are answered as the last came out, with the means of what all took.
func TestAverage(t *testing.T) {
	t.Parallel()
	ran := func(status int, seconds float64, memory int64) outcome {
		wall := 2 * seconds
		return outcome{status: status, time: &seconds, wallTime: &wall, memory: &memory, stdout: strconv.AppendInt(nil, memory, 10)}
	}
	got := average([]outcome{ran(accepted, 0.1, 100), ran(accepted, 0.2, 200), ran(wrongAnswer, 0.4, 301)})
	if got.status != wrongAnswer || string(got.stdout) != "301" || *got.time != 0.233 || *got.wallTime != 0.467 || *got.memory != 200 {
		t.Errorf("got %d %s, %v s, %v s, %d kB", got.status, got.stdout, *got.time, *got.wallTime, *got.memory)
	}
	if got := average([]outcome{ran(accepted, 0.1, 100), {status: compilationError}}); got.status != compilationError || got.time != nil {
		t.Errorf("one that did not run: got %+v", got)
	}
}

// TestFields: commas at the end of a list of fields make no difference, as in Ruby; a field without a name is one that is not known.
func TestFields(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string][]string{
		"": defaultFields, ",": defaultFields, "stdout": {"stdout"}, "stdout,status,": {"stdout", "status"}, "stdout,,": {"stdout"}, "*,": fieldNames, "stdout,,status": nil, ",stdout": nil,
	} {
		if v, err := viewOf(url.Values{"fields": {asked}}); (err != nil) != (want == nil) || err == nil && !reflect.DeepEqual(v.fields, want) {
			t.Errorf("%q: got %v, %v, want %v", asked, v.fields, err, want)
		}
	}
}

// TestFlags: a flag of the request is on by one word, as in Judge0, where Python's clients say "False".
func TestFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"true": true, "": false, "false": false, "False": false, "True": false, "1": false, "yes": false} {
		if v, err := viewOf(url.Values{"base64_encoded": {text}}); err != nil || v.encoded != want {
			t.Errorf("%q: got %t, %v", text, v.encoded, err)
		}
	}
}
