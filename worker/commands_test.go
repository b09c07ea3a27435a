package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestCommands: lines for a shell in place of a runtime's commands.
func TestCommands(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	long := "printf %s '" + strings.Repeat("x", job.MaxShellBytes-len("printf %s ''")) + "'"
	var many []string
	for range job.MaxArgs {
		many = append(many, "a b")
	}
	for _, c := range []struct {
		name   string
		spec   job.Spec
		status job.Status
		exit   int
		stdout string
		stderr string // a part
	}{
		{name: "python", spec: job.Spec{Runtime: "python", Source: "import sys; print(sys.argv, __name__)", Args: []string{"a b", "$(id)"}, Commands: &job.Commands{Run: `python3 -B main.py "$@"`}}, stdout: "['main.py', 'a b', '$(id)'] __main__\n"},
		{name: "a compile step where the runtime has none", spec: job.Spec{Runtime: "python", Source: "print(6 * 7)", Commands: &job.Commands{Compile: "cp main.py /tmp/x", Run: "python3 /tmp/x"}}, stdout: "42\n"},
		{name: "bash", spec: job.Spec{Runtime: "bash", Source: "cat; echo $#", Stdin: "in\n", Args: []string{"1", "2"}, Commands: &job.Commands{Run: `bash main.sh "$@" 3`}}, stdout: "in\n3\n"},
		{name: "c", spec: job.Spec{
			Runtime: "c", Entrypoint: "prog", Source: "#include <stdio.h>\nint main(int n, char **a) { printf(\"%d %s %s\\n\", X, a[1], __FILE__); return n; }", Args: []string{"a"},
			Commands: &job.Commands{Compile: "gcc -x c -DX=7 -o /tmp/main prog", Run: `/tmp/main "$@"`},
		}, status: job.Failed, exit: 2, stdout: "7 a prog\n"},
		{name: "nothing is compiled", spec: job.Spec{Runtime: "c", Source: "#error", Commands: &job.Commands{Run: "cat main.c; gcc -dumpversion"}}, stdout: "#error14\n"},
		{name: "another language's file", spec: job.Spec{Runtime: "python", Entrypoint: "__tester__.nodejs", Source: "echo hi", Commands: &job.Commands{Run: "sh ./__tester__.nodejs"}}, stdout: "hi\n"},
		{name: "no file", spec: job.Spec{Runtime: "python", Commands: &job.Commands{Run: "pwd; id -u; ls -A"}}, stdout: "/work\n1000\n"},
		{name: "files without an entrypoint", spec: job.Spec{Runtime: "bash", Files: []job.File{{Name: "compile", Content: "echo 5 > n"}, {Name: "run", Content: "cat n"}}, Commands: &job.Commands{Compile: "bash compile", Run: "bash run"}}, stdout: "5\n"},
		{name: "a compile step that fails", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Compile: "echo no; exit 3", Run: "echo ran"}}, status: job.CompileFailed, exit: 3},
		{name: "a program that is not there", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Run: "nothing"}}, status: job.Failed, exit: 127, stderr: "bash: line 1: nothing: command not found"},
		{name: "no line of a shell", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Run: "echo 'a"}}, status: job.Failed, exit: 2, stderr: "unexpected EOF"},
		{name: "substitutions, quotes and lines", spec: job.Spec{Runtime: "bash", Source: "x", Args: []string{"it's", `"`, "`id`", "a\nb"}, Commands: &job.Commands{
			Run: "echo $(echo '$(x)' \"$1\" `echo \"\\$2\"`) \\; \"$4\" | cat\nprintf '%s|' \"$@\"; echo \"$0\"\n",
		}}, stdout: "$(x) it's \" ; a\nb\nit's|\"|`id`|a\nb|bash\n"},
		{name: "words that look like options", spec: job.Spec{Runtime: "bash", Source: "x", Args: []string{"-c", "--", "-e"}, Commands: &job.Commands{Run: "-x 2>/dev/null; printf '%s ' \"$@\""}}, stdout: "-c -- -e "},
		{name: "what would leave the line", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Run: "'; echo out; '"}}, status: job.Failed, exit: 127, stderr: "; echo out; : command not found"},
		{name: "the longest", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Run: long}}, stdout: strings.Repeat("x", job.MaxShellBytes-len("printf %s ''"))},
		{name: "many arguments", spec: job.Spec{Runtime: "bash", Source: "x", Args: many, Commands: &job.Commands{Run: `echo $# "${256}"`}}, stdout: "256 a b\n"},
		{name: "another PATH and BASH_ENV", spec: job.Spec{Runtime: "bash", Source: "echo env", Env: map[string]string{"PATH": "/work", "BASH_ENV": "/work/main.sh"}, Commands: &job.Commands{Run: "echo run"}}, stdout: "env\nrun\n"},
		{name: "too long a time", spec: job.Spec{Runtime: "bash", Source: "x", Commands: &job.Commands{Run: "sleep 60 & sleep 60"}, Limits: job.Limits{WallMS: 500}}, status: job.TimedOut, exit: 124, stderr: "Execution timed out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.spec.Check([]string{"python", "bash", "c"}, nil, job.DefaultMaximums); err != nil {
				t.Fatal(err)
			}
			if c.status == "" {
				c.status = job.Succeeded
			}
			r := g.result(g.submit(c.spec))
			if r.Status != c.status || r.ExitCode == nil || *r.ExitCode != c.exit || r.Stdout != c.stdout || !strings.Contains(r.Stderr, c.stderr) || (r.Compile != nil) != (c.spec.Commands.Compile != "") {
				b, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("got %.4000s\nwant %s, %d, %q", b, c.status, c.exit, c.stdout)
			}
		})
	}
}

// TestCommandsWithTests: a test's arguments come behind those of the job, and a compile step is run once.
func TestCommandsWithTests(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	for runtime, commands := range map[string]job.Commands{
		"python": {Run: `python3 -c 'import sys; print(input(), *sys.argv[1:])' "$@"`},
		"bash":   {Compile: "echo 'read x; echo $x $@' > /tmp/p", Run: `bash /tmp/p "$@"`},
		"c": {
			Compile: `printf '#include <stdio.h>\nint main(int n, char **a) { char s[99]; scanf("%%90s", s); printf("%%s %%s %%s\\n", s, a[1], a[2]); }' > p.c; gcc -o /tmp/p p.c`, Run: `/tmp/p "$@"`,
		},
	} {
		t.Run(runtime, func(t *testing.T) {
			r := g.result(g.submit(job.Spec{
				Runtime: runtime, Commands: &commands, Args: []string{"a"},
				Tests: []job.Test{{Name: "1", Stdin: "x\n", Answer: "x a b", Args: []string{"b"}}, {Name: "2", Stdin: "y\n", Answer: "y a $(id)", Args: []string{"$(id)"}}},
			}))
			if r.Status != job.Succeeded || r.Verdict != job.Accepted || (r.Compile != nil) != (commands.Compile != "") {
				t.Errorf("got %+v, %+v, %+v", r, r.Compile, r.Tests)
			}
		})
	}
}
