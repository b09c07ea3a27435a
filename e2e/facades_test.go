package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/e2b"
	"github.com/glovebox-run/glovebox/producer/facade/jobe"
	judge0facade "github.com/glovebox-run/glovebox/producer/facade/judge0" // judge0 is its client here
	"github.com/glovebox-run/glovebox/producer/facade/piston"
	"github.com/glovebox-run/glovebox/runtimes"
)

// speaker is how a façade's clients list languages and run a program.
type speaker struct {
	facade facade.Facade
	// elsewhere names the runtimes that the façade's own test runs programs of.
	elsewhere []string
	// list returns by what names they are told to ask for programs.
	list func(t *testing.T) []string
	// run returns what a program by that name printed, or what came of it instead.
	run func(t *testing.T, name string, p helloProgram) string
}

// helloProgram is one, and what it prints.
type helloProgram struct{ source, prints string }

// TestFacadeLanguages walks every name by which a façade's clients ask for a runtime that the worker has: it is listed,
// and the runtime's own hello says hello by it; in short, by the first of a runtime's names, and not what the façade's own test runs. docs/moving.md has the same list.
// GLOVEBOX_TEST_RUNTIMES names the runtimes to run programs of, if not all.
func TestFacadeLanguages(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0,jobe,piston,e2b"}})
	published, err := g.client.Runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, r := range published {
		there[r.Name] = true
	}
	only := strings.Fields(os.Getenv("GLOVEBOX_TEST_RUNTIMES"))
	asked := func(runtime string) bool {
		return there[runtime] && (len(only) == 0 || slices.Contains(only, "all") || slices.Contains(only, runtime))
	}
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []speaker{g.speakJudge0(), g.speakPiston(), g.speakJobe(), g.speakE2B()} {
		t.Run(s.facade.Name, func(t *testing.T) {
			listed := s.list(t)
			for _, l := range s.facade.Languages {
				for i, name := range l.Names {
					if slices.Contains(listed, name) != there[l.Runtime] {
						t.Errorf("%s, which is on %s: listed %t, want %t", name, l.Runtime, !there[l.Runtime], there[l.Runtime])
					}
					if !asked(l.Runtime) || testing.Short() && (i > 0 || slices.Contains(s.elsewhere, l.Runtime)) {
						continue
					}
					p := helloOf(t, set, l.Runtime)
					t.Run(name, func(t *testing.T) {
						if got := s.run(t, name, p); got != p.prints {
							t.Errorf("%s, which is on %s: got %q, want %q", name, l.Runtime, got, p.prints)
						}
					})
				}
			}
		})
	}
	if asked("sql") {
		t.Run("a database that is brought", g.sqlFile)
	}
	if asked("classroom") {
		t.Run("programs in several languages", g.severalLanguages)
	}
}

// sqlFile: a script of SQL reads the database among its files, which one before it left.
func (g *glovebox) sqlFile(t *testing.T) {
	j := judge0{g, g.url + "/judge0", g.token}
	made := j.run(t, "", object{"language_id": 82, "source_code": "CREATE TABLE t(n); INSERT INTO t VALUES (42);", "wall_time_limit": 60, "cpu_time_limit": 30})
	files := strings.ReplaceAll(fmt.Sprint(made["post_execution_filesystem"]), "\n", "")
	if got := j.run(t, "", object{"language_id": 82, "source_code": "SELECT n FROM t;", "additional_files": files, "wall_time_limit": 60, "cpu_time_limit": 30}); got["stdout"] != "42\n" {
		t.Errorf("got %v of %v", got, made)
	}
}

// severalLanguages: the image for graders has the compilers that Jobe's python3 and Judge0's program of several files call.
func (g *glovebox) severalLanguages(t *testing.T) {
	const c = "#include <stdio.h>\nint main(void) { puts(\"c\"); }\n"
	const java = "public class M { public static void main(String[] a) { System.out.println(\"java\"); } }\n"
	const build = "gcc -o c m.c && javac M.java"
	const run = "./c && java M && python3 m.py && node m.js && php m.php && sqlite3 :memory: \"SELECT 'sql'\""
	files := []string{"m.c", c, "M.java", java, "m.py", "print('python')", "m.js", "console.log('node')", "m.php", "<?php echo \"php\\n\";"}
	const want = "c\njava\npython\nnode\nphp\nsql\n"
	j := judge0{g, g.url + "/judge0", g.token}
	got := j.run(t, "", object{
		"language_id": 89, "additional_files": zipped(t, append(files, "compile", build, "run", run)...), "wall_time_limit": 120, "cpu_time_limit": 60, "memory_limit": 1 << 20, "max_processes_and_or_threads": 256,
	})
	if got["stdout"] != want {
		t.Errorf("judge0: got %v", got)
	}
	grader := "import subprocess\n"
	for i := 0; i < len(files); i += 2 {
		grader += fmt.Sprintf("open(%s, 'w').write(%s)\n", quote(files[i]), quote(files[i+1]))
	}
	grader += "print(subprocess.run(" + quote(build+" && "+run) + ", shell=True, capture_output=True, text=True).stdout, end='')\n"
	a := g.jobeRun(t, g.token, `"language_id":"python3","sourcecode":`+quote(grader)+`,"parameters":{"cputime":60,"numprocs":250,"memorylimit":16000}`)
	if a.Outcome != 15 || a.Stdout != want {
		t.Errorf("jobe: got %+v", a)
	}
}

// helloOf returns a runtime's own.
func helloOf(t *testing.T, set runtimes.Set, runtime string) helloProgram {
	t.Helper()
	cases, err := set.Cases(runtime)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cases, func(c runtimes.Case) bool { return c.Name == "hello" })
	if i < 0 {
		t.Fatalf("%s has no case hello", runtime)
	}
	return helloProgram{cases[i].Spec.Source, cases[i].Want.Stdout}
}

// read asks, and decodes the answer, which has to be 200.
func (g *glovebox) read(t *testing.T, path string, to any) {
	t.Helper()
	said := g.ask(t, g.token, http.MethodGet, path, "", "")
	if err := json.Unmarshal([]byte(said.body), to); err != nil || said.status != http.StatusOK {
		t.Fatalf("%s: got %d %.500s, want 200", path, said.status, said.body)
	}
}

// shebang makes what a kernel runs of Bash's hello.
const shebang = "#!/bin/bash\n"

func (g *glovebox) speakJudge0() speaker {
	j := judge0{g, g.url + "/judge0", g.token}
	list := func(t *testing.T) (names []string) {
		t.Helper()
		var listed []struct{ ID int }
		g.read(t, "/judge0/languages", &listed)
		for _, l := range listed {
			names = append(names, fmt.Sprint(l.ID))
		}
		return names
	}
	run := func(t *testing.T, id string, p helloProgram) string {
		t.Helper()
		sent := object{"language_id": id, "source_code": p.source, "cpu_time_limit": 60, "wall_time_limit": 120, "expected_output": p.prints}
		switch id {
		case "43": // plain text
			sent["source_code"] = p.prints
		case "44": // an executable
			sent["source_code"] = shebang + p.source
		case "89": // several files
			delete(sent, "source_code")
			sent["additional_files"] = zipped(t, "run", p.source)
		}
		got := j.run(t, "", sent)
		if got["status_id"] != 3.0 {
			return fmt.Sprint(got)
		}
		return fmt.Sprint(got["stdout"])
	}
	return speaker{judge0facade.New(), []string{"bash", "c", "cpp", "python"}, list, run}
}

func (g *glovebox) speakPiston() speaker {
	list := func(t *testing.T) (names []string) {
		t.Helper()
		var listed []struct {
			Language string
			Aliases  []string
		}
		g.read(t, "/piston/api/v2/runtimes", &listed)
		for _, l := range listed {
			names = append(append(names, l.Language), l.Aliases...)
		}
		return names
	}
	run := func(t *testing.T, name string, p helloProgram) string {
		t.Helper()
		if slices.Contains([]string{"file", "executable", "elf", "binary"}, name) {
			p.source = shebang + p.source
		}
		said := g.ask(t, g.token, http.MethodPost, "/piston/api/v2/execute", "application/json",
			`{"language":`+quote(name)+`,"version":"*","files":[{"content":`+quote(p.source)+`}],"run_timeout":120000,"compile_timeout":120000}`)
		var a pistonAnswer
		if err := json.Unmarshal([]byte(said.body), &a); err != nil || said.status != http.StatusOK || a.Run.said() != "0 - - -" {
			return said.body
		}
		return a.Run.Stdout
	}
	return speaker{piston.New(), []string{"bash", "c", "cpp", "go", "java", "node", "python", "typescript"}, list, run}
}

func (g *glovebox) speakJobe() speaker {
	list := func(t *testing.T) (names []string) {
		t.Helper()
		var listed [][]string
		g.read(t, jobePath+"/languages", &listed)
		for _, l := range listed {
			names = append(names, l[0])
		}
		return names
	}
	run := func(t *testing.T, name string, p helloProgram) string {
		t.Helper()
		a := g.jobeRun(t, g.token, `"language_id":`+quote(name)+`,"sourcecode":`+quote(p.source)+`,"parameters":{"cputime":60}`)
		if a.Outcome != 15 {
			return fmt.Sprintf("%+v", a)
		}
		return a.Stdout
	}
	return speaker{jobe.New(), []string{"c", "cpp", "java", "node", "pascal", "php", "python"}, list, run}
}

func (g *glovebox) speakE2B() speaker {
	list := func(t *testing.T) (names []string) {
		t.Helper()
		sandbox := g.e2bSandbox(t, g.token)
		for _, l := range e2b.New().Languages {
			for _, name := range l.Names {
				if said := g.askE2B(t, http.MethodPost, "/contexts", strings.NewReader(`{"language":`+quote(name)+`}`), "X-API-KEY", g.token, "E2b-Sandbox-Id", sandbox); said.status == http.StatusOK {
					names = append(names, name)
				}
			}
		}
		return names
	}
	run := func(t *testing.T, name string, p helloProgram) string {
		t.Helper()
		sandbox := g.e2bSandbox(t, g.token)
		defer g.askE2B(t, http.MethodDelete, "/sandboxes/"+sandbox, http.NoBody, "X-API-KEY", g.token)
		said := g.askE2B(t, http.MethodPost, "/execute", strings.NewReader(`{"code":`+quote(p.source)+`,"language":`+quote(name)+`}`), "X-API-KEY", g.token, "E2b-Sandbox-Id", sandbox)
		printed := ""
		for line := range strings.Lines(said.body) {
			var m struct{ Type, Text string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				return said.body
			}
			if m.Type == "stdout" {
				printed += m.Text
			}
		}
		return printed
	}
	return speaker{e2b.New(), nil, list, run}
}

// TestFacadeClients: clients that were written against the documentation of each server, by Python's standard library
// alone, do what its users do.
func TestFacadeClients(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0,jobe,piston,e2b"}})
	for _, name := range []string{"judge0", "jobe", "piston", "e2b"} {
		t.Run(name, func(t *testing.T) {
			client := exec.CommandContext(t.Context(), "python3", "-B", "testdata/clients/"+name+".py", g.url+"/"+name, g.token)
			if out, err := client.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestFacadeDoctor: glovebox doctor finds that a façade does what its contract says, and says what is wrong where it doesn't.
func TestFacadeDoctor(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0,jobe,piston,e2b"}})
	programs := []string{"languages", "hello ", "compile error", "time-out"}
	doctor := func(name, url, token string) string {
		cmd := exec.CommandContext(t.Context(), binary(t, "glovebox"), "doctor", "--facade", name, url)
		cmd.Env = append(os.Environ(), "GLOVEBOX_FACADE_TOKEN="+token)
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	for name, lines := range map[string][]string{"judge0": programs, "jobe": programs, "piston": programs, "e2b": {"languages", "hello ", "state ", "error ", "time-out"}} {
		t.Run(name, func(t *testing.T) {
			said := doctor(name, g.url+"/"+name+"/", g.token)
			for _, line := range lines {
				if !strings.Contains(said, "ok       "+line) {
					t.Errorf("want that all is well with %s", line)
				}
			}
			if !strings.HasSuffix(said, "<nil>") || strings.Count(said, "\n") != len(lines) {
				t.Errorf("got\n%s", said)
			}
			if said := doctor(name, g.url+"/"+name, "wrong"); !strings.HasPrefix(said, "problem  languages") || !strings.HasSuffix(said, "exit status 1") {
				t.Errorf("a wrong token: got\n%s", said)
			}
			if said := doctor(name, g.url, g.token); !strings.HasPrefix(said, "problem  languages") {
				t.Errorf("another address: got\n%s", said)
			}
		})
	}
}
