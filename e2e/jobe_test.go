package e2e

import (
	"context"
	"crypto/md5" //nolint:gosec // it is how CodeRunner names files
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const jobePath = "/jobe/index.php/restapi"

// waitsLong is the setting of an api that tells no program of an overload.
const waitsLong = "GLOVEBOX_FACADE_WAIT_SECONDS=3600"

// jobeAnswer is an answer to a run.
type jobeAnswer struct {
	RunID                   *string `json:"run_id"`
	Outcome                 int
	Cmpinfo, Stdout, Stderr string
}

// jobeRun posts a run until it is not told that all places are taken, as CodeRunner's users do.
func (g *glovebox) jobeRun(t *testing.T, token, spec string) jobeAnswer {
	t.Helper()
	for {
		said := g.ask(t, token, http.MethodPost, jobePath+"/runs", "application/json", `{"run_spec":{`+spec+`}}`)
		var a jobeAnswer
		if err := json.Unmarshal([]byte(said.body), &a); err != nil || said.status != http.StatusOK || a.RunID == nil {
			t.Fatalf("%s: got %d %.500s, want 200", spec, said.status, said.body)
		}
		if a.Outcome != 21 {
			return a
		}
		if a != (jobeAnswer{RunID: a.RunID, Outcome: 21}) || *a.RunID != "0" {
			t.Errorf("overload: got %s", said.body)
		}
	}
}

// quote is s in JSON.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}

// jobeProgram is a run, and what it comes to.
type jobeProgram struct {
	language, source, more  string
	outcome                 int
	stdout, stderr, cmpinfo string // what is in it; "" for nothing at all
}

// spec is its run_spec, without braces. A busy machine needs long where its program's limit is not what a case is about.
func (p jobeProgram) spec() string {
	spec := `"language_id":` + quote(p.language) + `,"sourcecode":` + quote(p.source)
	if !strings.Contains(p.more, `"parameters":`) {
		spec += `,"parameters":{"cputime":30}`
	}
	if p.more == "" {
		return spec
	}
	if !strings.Contains(p.more, `"cputime"`) {
		p.more = strings.Replace(p.more, `"parameters":{`, `"parameters":{"cputime":30,`, 1)
	}
	return spec + "," + p.more
}

// jobePrograms are what programs come to, by Jobe's rules.
func jobePrograms() map[string]jobeProgram {
	const printf = "#include <stdio.h>\nint main(int n, char **a) {"
	return map[string]jobeProgram{
		"c":                    {"c", printf + ` char s[9]; scanf("%s", s); printf("%s %d", s, n); }`, `"input":"in\n"`, 15, "in 1", "", ""},
		"a warning":            {"C", printf + " int unused; return 0; }", "", 11, "", "", "unused"},
		"own arguments":        {"c", printf + ` for (int i = 1; i < n; i++) puts(a[i]); puts(X); int unused; }`, `"parameters":{"compileargs":["-D","X='\"y z\"'"],"linkargs":["-lm"],"runargs":["a b","'c d'"]}`, 15, "a\nb\nc d\ny z\n", "", ""},
		"a compiler's message": {"c", "int main(void) { return x; }", "", 11, "", "", "undeclared"},
		"a crash":              {"c", printf + ` puts("out"); fflush(stdout); fputs("err", stderr); *(volatile int *)8 = 1; }`, "", 12, "out\n", "", ""},
		"an abort":             {"c", "#include <stdlib.h>\n" + `int main(void) { abort(); }`, "", 12, "", "warning: command terminated with signal 6", ""},
		"cpp":                  {"cpp", "#include <iostream>\nint main() { std::cout << 42; }", `"sourcefilename":"__tester__.cpp"`, 15, "42", "", ""},
		"java":                 {"java", `public class Hi { public static void main(String[] args) { System.out.println(args.length); } }`, `"parameters":{"cputime":20,"runargs":["a","b"]}`, 15, "2\n", "", ""},
		"java's exception":     {"java", `public class Hi { public static void main(String[] args) { throw new RuntimeException("x"); } }`, `"parameters":{"cputime":20}`, 12, "", "\n        at Hi.main", ""},
		"java's compiler":      {"java", `public class Hi { int x = "y"; public static void main(String[] args) { } }`, "", 11, "", "", "incompatible types"},
		"python3":              {"python3", "import sys; print(repr(sys.stdin.read()))", `"input":"a\nb","sourcefilename":"__tester__.python3"`, 15, `'a\nb'`, "", ""},
		"no input":             {"python3", "import sys; print(repr(sys.stdin.read()))", "", 15, "''\n", "", ""},
		"python3's syntax":     {"python3", "print(", "", 11, "", "", "SyntaxError"},
		"python3's warning":    {"python3", `print("\d")`, "", 11, "", "", "SyntaxWarning: invalid escape sequence"},
		"python3's exception":  {"python3", "print('out'); 1/0", "", 12, "out\n", "ZeroDivisionError", ""},
		"an exit code alone":   {"python3", "import sys; print('out'); sys.exit(3)", "", 15, "out\n", "", ""},
		"stderr alone":         {"python3", "import sys; print('err', file=sys.stderr)", "", 12, "", "err\n", ""},
		"no UTF-8":             {"python3", `import sys; sys.stdout.buffer.write(b'a\xffz\n')`, "", 15, "a\\xffz\n", "", ""},
		"interpreter's own":    {"python3", "import sys; print(sys.argv[1:], sys.flags.verbose, sys.flags.optimize)", `"parameters":{"interpreterargs":["-O -O"],"runargs":["$((6*7))"]}`, 15, "['42'] 0 2\n", "", ""},
		"nodejs":               {"nodejs", "console.log(process.execArgv, process.argv.slice(2))", `"sourcefilename":"__tester__.nodejs","parameters":{"runargs":["a"]}`, 15, "[ '--use_strict' ] [ 'a' ]\n", "", ""},
		"php":                  {"php", "<?php echo 6 * 7;", "", 15, "42", "", ""},
		"php's syntax":         {"php", "<?php echo (;", "", 11, "", "", "syntax error"},
		"pascal":               {"pascal", "begin writeln(6 * 7) end.", "", 15, "42\n", "", ""},
		"pascal's syntax":      {"pascal", "begin writeln(x) end.", "", 11, "", "", "Identifier not found"},
		"CPU time":             {"python3", "print('begun', flush=True)\nwhile True: pass", `"parameters":{"cputime":3}`, 13, "begun\n", "", ""},
		"wall time":            {"python3", "import time; time.sleep(99)", `"parameters":{"cputime":"1"}`, 13, "", "", ""},
		"another's time":       {"python3", "import sys; print('timelimit exceeded', file=sys.stderr)", "", 13, "", "", ""},
		"memory":               {"python3", "x = b'x' * (300 << 20)", `"parameters":{"memorylimit":200}`, 12, "", "MemoryError", ""},
		"memory of C":          {"c", printf + ` void *malloc(unsigned long); puts(malloc(300 << 20) ? "there" : "none"); }`, `"parameters":{"memorylimit":200}`, 15, "none\n", "", ""},
		"memory of many":       {"python3", "import os, time\nfor i in range(3):\n  if os.fork() == 0: x = b'x' * (250 << 20); time.sleep(200); os._exit(0)\ntime.sleep(200)", `"parameters":{"memorylimit":600,"cputime":120}`, 17, "", "", ""},
		"large file":           {"python3", "try:\n  open('f', 'wb').write(bytes(3 << 20)); print('fits')\nexcept OSError as e: print(e.errno)", `"parameters":{"disklimit":2}`, 15, "27\n", "", ""},
		"a long stream":        {"python3", "print('x' * (1 << 20)); print('end')", `"parameters":{"streamsize":0.5}`, 15, strings.Repeat("x", 512<<10), "", ""},
		"processes":            {"python3", "import os\nfor i in range(60):\n  try:\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\n  except BlockingIOError: print('refused'); os._exit(0)\nprint('all')", `"parameters":{"numprocs":10},"input":""`, 15, "refused\n", "", ""},
		"default CPU time":     {"python3", "while True: pass", `"parameters":{"cputime":0}`, 13, "", "", ""},
		"default memory":       {"python3", "x = bytearray(1100 << 20)", "", 12, "", "MemoryError", ""},
		"C's default memory":   {"c", printf + ` void *malloc(unsigned long); puts(malloc(500UL << 20) ? "there" : "none"); }`, "", 15, "none\n", "", ""},
		"java's memory":        {"java", `public class Hi { public static void main(String[] args) { System.out.println("there"); } }`, `"parameters":{"cputime":20,"memorylimit":10,"numprocs":5}`, 15, "there\n", "", ""},
		"java's main class":    {"java", `class A { public static void main(String[] a) { System.out.println("A"); } } class B { public static void main(String[] a) { System.out.println("B"); } }`, `"sourcefilename":"prog.java","parameters":{"cputime":20,"main_class":"B"}`, 15, "B\n", "", ""},
		"its environment":      {"python3", "import os; print(os.environ['MPLCONFIGDIR'] != '', os.access(os.environ['HOME'], os.W_OK), sorted(os.listdir()))", "", 15, "True True ['prog.py']\n", "", ""},
		"numbers as text":      {"python3", "print(1)", `"parameters":{"cputime":"20","memorylimit":"much","streamsize":"1","numprocs":"9"}`, 15, "1\n", "", ""},
		"overload":             {"python3", "!** TESTING OVERLOAD EXCEPTION **! ", "", 11, "", "", "SyntaxError"},
		"PHP's empty map":      {"python3", "print(1)", `"parameters":[],"file_list":[],"debug":false,"jobeserver":"x"`, 15, "1\n", "", ""},
		"a loose quote":        {"python3", "print(1)", `"parameters":{"runargs":["'"]}`, 12, "", "unexpected EOF", ""},
	}
}

func jobeTold() []told {
	return linesOf(jobePrograms(), func(name string, p jobeProgram) told {
		answered := fmt.Sprint(`"outcome":`, p.outcome)
		for _, stream := range [][2]string{{"stdout", p.stdout}, {"stderr", p.stderr}, {"cmpinfo", p.cmpinfo}} {
			if stream[1] != "" {
				answered += `,"` + stream[0] + `":` + quote(stream[1])
			}
		}
		return told{name, p.spec(), answered}
	})
}

// TestJobe: what programs come to, by Jobe's rules.
func TestJobe(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=jobe", waitsLong}})
	for name, tt := range jobePrograms() {
		t.Run(name, func(t *testing.T) {
			a := g.jobeRun(t, g.token, tt.spec())
			if a.Outcome != tt.outcome {
				t.Errorf("got outcome %d of %s, want %d", a.Outcome, *a.RunID, tt.outcome)
			}
			for _, stream := range [][3]string{{"stdout", a.Stdout, tt.stdout}, {"stderr", a.Stderr, tt.stderr}, {"cmpinfo", a.Cmpinfo, tt.cmpinfo}} {
				if !strings.Contains(stream[1], stream[2]) || stream[2] == "" && stream[1] != "" {
					t.Errorf("%s: got %.300q, want %.300q", stream[0], stream[1], stream[2])
				}
			}
			if name == "a long stream" && len(a.Stdout) != 512<<10 {
				t.Errorf("got %d bytes, want what fits", len(a.Stdout))
			}
			if j, err := g.client.Get(t.Context(), *a.RunID); err != nil || !j.Ended() || len(j.Result.Artifacts) > 1 || t.Failed() {
				t.Errorf("the job %s: got %+v, %v", *a.RunID, j.Result, err)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		defer g.cancelWhatRuns()()
		if a := g.jobeRun(t, g.token, `"language_id":"python3","sourcecode":"import time; time.sleep(250)","parameters":{"cputime":120}`); a.Outcome != 20 {
			t.Errorf("got %+v, want an internal error", a)
		}
	})
}

// cancelWhatRuns cancels the next job that runs, as an operator may, while the caller waits for its answer. wait is for after that.
func (g *glovebox) cancelWhatRuns() (wait func()) {
	canceled := make(chan error, 1)
	go func() { canceled <- g.cancelNext() }()
	return func() {
		g.tb.Helper()
		if err := <-canceled; err != nil {
			g.tb.Error(err)
		}
	}
}

func (g *glovebox) cancelNext() error {
	ctx, cancel := context.WithTimeout(g.tb.Context(), patience)
	defer cancel()
	for {
		page, err := g.client.List(ctx, producer.ListOptions{Status: []job.Status{job.Running}})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			_, err := g.client.Cancel(ctx, page.Jobs[0].ID)
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// jobeRequests are one to each route, and each error that needs no program.
func jobeRequests() (list []exchange) {
	const runs = jobePath + "/runs"
	spec := func(more string) string {
		return `{"run_spec":{"language_id":"python3","sourcecode":"print(1)","parameters":{"cputime":30}` + more + `}}`
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // what is in the body; "" for none
	}{
		{"GET", jobePath + "/languages", "", 200, `["python3","3.13"]`},
		{"GET", jobePath + "/languages/", "", 200, `[["c","14"]`},
		{"GET", jobePath + "/runs", "", 404, `"Not Found"`},
		{"GET", jobePath + "/nothing", "", 404, `"Not Found"`},
		{"OPTIONS", jobePath + "/nothing", "", 204, ""},
		{"OPTIONS", runs, "", 204, ""},
		{"POST", runs, spec(""), 200, `"outcome":15`},
		{"POST", runs + "/", spec(""), 200, `"outcome":15`},
		{"POST", runs, "x", 400, `"Non-JSON post data received"`},
		{"POST", runs, "{}", 400, `"No run_spec attribute found in post data"`},
		{"POST", runs, `{"run_spec":{"language_id":"c"}}`, 400, `"run_spec is missing the required attribute 'sourcecode'"`},
		{"POST", runs, `{"run_spec":{"sourcecode":"c"}}`, 400, `"run_spec is missing the required attribute 'language_id'"`},
		{"POST", runs, `{"run_spec":{"sourcecode":"c","language_id":"BASIC"}}`, 400, `"Language 'basic' is not known"`},
		{"POST", runs, spec(`,"parameters":{"cputime":121}`), 400, `"cputime exceeds maximum allowed on this Jobe server (120 secs)"`},
		{"POST", runs, spec(`,"sourcefilename":"a/b"`), 400, `"The sourcefilename for the run_spec is illegal"`},
		{"POST", runs, spec(`,"file_list":[["abc","x"]]`), 400, `"Invalid file specifier: [\"abc\",\"x\"]"`},
		{"POST", runs, spec(`,"file_list":[["0123456789abcdef","x"]]`), 404, `"One or more of the specified files is missing/unavailable"`},
		{"POST", runs, spec(`,"parameters":{"runargs":["{5000 bytes}"]}`), 400, `"commands.run: is too long`},
		{"POST", runs, `{"run_spec":{"language_id":"c","sourcecode":"!** TESTING OVERLOAD EXCEPTION **!"}}`, 200, `{"run_id":"0","outcome":21,"cmpinfo":"","stdout":"","stderr":""}`},
		{"POST", runs, `{"run_spec":{"language_id":"c","sourcecode":"!** TESTING OVERLOAD EXCEPTION **!","file_list":[["abcdefgh","x"]]}}`, 404, `"One or more`},
		{"POST", runs, spec(`,"input":"{100 MiB}"`), 413, `"the body is too large`},
		{"POST", runs, spec(`,"input":"{2 MiB}"`), 200, `"outcome":15`},
		{"POST", runs, spec(`,"input":"{17 MiB}"`), 400, `"source: is too large`},
		{"POST", runs, spec(`,"parameters":{"disklimit":-1}`), 200, `"outcome":15`},
		{"HEAD", jobePath + "/files/abcdefgh", "", 404, ""},
		{"HEAD", jobePath + "/files/..%2f..%2fx", "", 404, ""},
		{"PUT", jobePath + "/files/abcdefgh", `{"file_contents":"aGk="}`, 204, ""},
		{"HEAD", jobePath + "/files/abcdefgh", "", 204, ""},
		{"HEAD", jobePath + "/files/abcdefgh/", "", 204, ""},
		{"PUT", jobePath + "/files/abcdefgh", `{"file_contents":"aGk"}`, 400, `"put: contents of file abcdefgh are not valid base-64"`},
		{"PUT", jobePath + "/files/abcdefgh", `{"contents":"aGk="}`, 400, `"put: missing file_contents`},
		{"PUT", jobePath + "/files/abcdefgh", `{"file_contents":7}`, 400, `"put: missing file_contents`},
		{"PUT", jobePath + "/files/abc", `{"file_contents":"aGk="}`, 400, `"The file id is not`},
		{"PUT", jobePath + "/files/abcd-efgh", `{"file_contents":"aGk="}`, 400, `"The file id is not`},
	} {
		list = append(list, exchange{method: tt.method, path: tt.path, mediaType: "application/json", body: tt.body, status: tt.status, answer: tt.want})
	}
	return append(list,
		exchange{method: "GET", path: jobePath + "/languages", status: 403, answer: `"Missing API key"`, by: noToken},
		exchange{method: "POST", path: runs, mediaType: "application/json", body: spec(""), status: 403, answer: `"Unknown API key"`, by: wrongToken},
	)
}

// TestJobeRoutes: every route of Jobe's, and every error that needs no program.
func TestJobeRoutes(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=jobe", waitsLong}})
	const runs, typed = jobePath + "/runs", "application/json"
	given{}.check(t, jobeRequests(), func(e exchange) asked { return g.ask(t, g.tokenOf(e.by), e.method, e.path, e.mediaType, e.body) })
	for token, want := range map[string]string{"": `"Missing API key"`, "wrong": `"Unknown API key"`} {
		for _, said := range []asked{
			g.ask(t, token, "GET", jobePath+"/languages", "", ""), g.ask(t, token, "POST", runs, typed, "{}"), g.ask(t, token, "PUT", jobePath+"/files/abcdefgh", typed, "{}"),
		} {
			if said.status != http.StatusForbidden || strings.TrimSpace(said.body) != want {
				t.Errorf("%q: got %d %s, want 403 %s", token, said.status, said.body, want)
			}
		}
	}
}

// TestJobeFiles: files are found by the names that clients gave them, each tenant's its own.
func TestJobeFiles(t *testing.T) {
	t.Parallel()
	const admin = "operator-0123456789abcdef"
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=jobe", "GLOVEBOX_FACADE_TENANT=guests", waitsLong, "GLOVEBOX_ADMIN_TOKEN=" + admin}})
	other := g.tenantToken(admin, "other", job.Terms{})
	id := func(content string) string {
		sum := md5.Sum([]byte(content)) //nolint:gosec // it is how CodeRunner names files
		return hex.EncodeToString(sum[:])
	}
	put := func(token, id, content string) {
		t.Helper()
		body := `{"file_contents":"` + base64.StdEncoding.EncodeToString([]byte(content)) + `"}`
		if said := g.ask(t, token, http.MethodPut, jobePath+"/files/"+id, "application/json", body); said.status != http.StatusNoContent {
			t.Fatalf("put: got %d %s, want 204", said.status, said.body)
		}
	}
	run := func(token string) asked {
		return g.ask(t, token, http.MethodPost, jobePath+"/runs", "application/json", `{"run_spec":{"parameters":{"cputime":30},"language_id":"python3","sourcecode":`+
			quote("import pathlib\nprint([(p.name, p.read_bytes()) for p in sorted(pathlib.Path('.').glob('*.t*'))])")+
			`,"file_list":[["`+id("mine")+`","a.txt"],["`+id("")+`","b.txt",true],["`+id("bytes")+`","c.t"]]}}`)
	}
	// As CodeRunner does: first the run, and on 404 all files.
	if said := run(g.token); said.status != http.StatusNotFound {
		t.Fatalf("got %d %s, want 404", said.status, said.body)
	}
	put(g.token, id("mine"), "mine")
	put(g.token, id(""), "")
	put(g.token, id("bytes"), "\xff\x00")
	if said := run(g.token); said.status != http.StatusOK || !strings.Contains(said.body, `[('a.txt', b'mine'), ('b.txt', b''), ('c.t', b'\\xff\\x00')]\n`) {
		t.Errorf("got %d %s, want the files", said.status, said.body)
	}
	put(g.token, id("mine"), "another content") // any id may be put again
	if said := run(g.token); !strings.Contains(said.body, `b'another content'`) {
		t.Errorf("got %d %s, want the new content", said.status, said.body)
	}

	if said := g.ask(t, other, http.MethodHead, jobePath+"/files/"+id("mine"), "", ""); said.status != http.StatusNotFound {
		t.Errorf("another tenant's: got %d, want 404", said.status)
	}
	if said := run(other); said.status != http.StatusNotFound {
		t.Errorf("another tenant's: got %d %s, want 404", said.status, said.body)
	}
	put(other, id("mine"), "theirs")
	if said := run(g.token); !strings.Contains(said.body, `b'another content'`) {
		t.Errorf("got %d %s after another tenant's put, want one's own", said.status, said.body)
	}

	// Those without a token are one tenant: none of them replaces what another's question is named after.
	put("", id("guest's"), "guest's")
	if said := g.ask(t, "", http.MethodPut, jobePath+"/files/"+id("guest's"), "application/json", `{"file_contents":"eA=="}`); said.status != http.StatusForbidden || !strings.HasPrefix(said.body, `"put: without an API key`) {
		t.Errorf("a guest's other content: got %d %s, want 403", said.status, said.body)
	}
	put("", "notanmd5", "one")
	put("", "notanmd5", "two")

	// A file with the source's name is there in its place.
	put(g.token, id("replaced"), "print('replaced')")
	if said := g.ask(t, g.token, http.MethodPost, jobePath+"/runs", "application/json", `{"run_spec":{"language_id":"python3","sourcecode":"print(1)","file_list":[["`+id("replaced")+`","prog.py"]]}}`); !strings.Contains(said.body, `"stdout":"replaced\n"`) {
		t.Errorf("got %d %s", said.status, said.body)
	}
}

// TestJobeOverload: a run for which there is no place within 10 s is told so, and never run.
func TestJobeOverload(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=jobe"}})
	g.worker.Stop()
	began := time.Now()
	said := g.ask(t, g.token, http.MethodPost, jobePath+"/runs", "application/json", `{"run_spec":{"language_id":"python3","sourcecode":"print(1)"}}`)
	if took := time.Since(began); said.status != http.StatusOK || !strings.Contains(said.body, `"run_id":"0","outcome":21`) || took < 10*time.Second || took > time.Minute {
		t.Errorf("got %d %s after %s, want an overload after 10 s", said.status, said.body, took)
	}
	page, err := g.client.List(t.Context(), producer.ListOptions{})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Status != job.Canceled {
		t.Errorf("got %+v, %v, want a job that is canceled", page.Jobs, err)
	}
}
