package jobe

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// language is one of Jobe's, on one of our runtimes.
type language struct {
	id      string
	runtime string // ours
	// graders is the runtime that is used instead where workers offer it: it has the compilers that graders call.
	graders string
	file    string // the source's name, unless the client has one
	// memoryMB is the default of memorylimit, MB of address space; 0 for languages that reserve more of it than
	// any question allows, on which it has no effect.
	memoryMB float64
	// processes are how many it needs, whatever is asked for.
	processes float64
	// The lists that a client can replace, each with what stands for it otherwise.
	compileArgs, interpreterArgs []string
	// compile is the command line that compiles the source, "" for none; run is the one that runs it. In
	// both, {file} stands for the source's name in quotes, {main} for java's class, and {compileargs},
	// {linkargs}, {interpreterargs} and {runargs} for those lists.
	compile, run string
	// checked is what decides, instead of anything on stderr, that compile failed.
	checked string
}

// languages are all of Jobe's that we have a runtime for. Programs are compiled into /tmp: what is in /work
// would be kept as an artifact.
var languages = []language{
	{
		id: "c", runtime: "c", file: "prog.c", memoryMB: 400, compileArgs: []string{"-Wall", "-Werror", "-std=c99", "-x c"},
		compile: "gcc {compileargs} -o /tmp/{file}.exe {file} {linkargs}", run: "/tmp/{file}.exe {interpreterargs} {runargs}",
	},
	{
		id: "cpp", runtime: "cpp", file: "prog.cpp", memoryMB: 400, compileArgs: []string{"-Wall", "-Werror", "-x c++"},
		compile: "g++ {compileargs} -o /tmp/{file}.exe {file} {linkargs}", run: "/tmp/{file}.exe {interpreterargs} {runargs}",
	},
	{
		id: "java", runtime: "java", file: "prog.java", processes: 256, interpreterArgs: []string{"-Xrs", "-Xss8m", "-Xmx200m"},
		// The compiler as the image has it cached, which takes a third of the time of javac.
		compile: "java @/usr/local/lib/glovebox/compile.args Javac {compileargs} {file}",
		run:     "java {interpreterargs} {main} {runargs}",
	},
	{
		id: "nodejs", runtime: "node", file: "prog.js", interpreterArgs: []string{"--use_strict"},
		run: "node {interpreterargs} {file} {runargs}",
	},
	{
		id: "octave", runtime: "octave", file: "prog.m", memoryMB: 500, interpreterArgs: []string{"--norc", "--no-window-system", "--silent", "-H"},
		run: "octave {interpreterargs} {file} {runargs}",
	},
	{
		id: "pascal", runtime: "pascal", file: "prog.pas", memoryMB: 400, compileArgs: []string{"-vew", "-Se"},
		compile: "fpc {compileargs} -Fe/tmp/compile.err -FU/tmp -o/tmp/{file}.exe {file}", run: "/tmp/{file}.exe {runargs}",
		checked: "[ -x /tmp/{file}.exe ] || { cat /tmp/compile.err; exit 1; }",
	},
	{
		id: "php", runtime: "php", file: "prog.php", memoryMB: 400, interpreterArgs: []string{"--no-php-ini"},
		compile: "php -l {file}", run: "php {interpreterargs} {file} {runargs}",
		checked: "[ ! -s /tmp/compile.err ] || { cat /tmp/compile.out; echo; cat /tmp/compile.err; exit 1; }",
	},
	{
		id: "python3", runtime: "python", graders: "classroom", file: "prog.py", memoryMB: 1000, interpreterArgs: []string{"-BE"},
		compile: checkPython, run: "python3 {interpreterargs} {file} {runargs}",
	},
}

// checkPython says what Jobe's python3 -m py_compile says, in a quarter of the time (in a sandbox 130 ms of 490): it
// imports nothing, unless there is an error.
const checkPython = `python3 -SIc 'import sys
try:
    with open(sys.argv[1], "rb") as f: compile(f.read(), sys.argv[1], "exec")
except Exception as e:
    import traceback
    said = "".join(traceback.format_exception_only(e)) if type(e) is SyntaxError else f"Sorry: {type(e).__name__}: {e}"
    sys.stderr.write(said)' {file}`

// anyMessage is what decides mostly: that there is a message is enough, be it a warning.
const anyMessage = "[ ! -s /tmp/compile.err ] || { cat /tmp/compile.err; exit 1; }"

// commands are the command lines for a source. What a client wrote is a shell's, as in Jobe: it reaches none
// but that of the sandbox.
func (l language) commands(s runSpec) *job.Commands {
	fill := strings.NewReplacer(
		"{file}", "'"+s.file+"'", "{main}", "'"+s.mainClass+"'",
		"{compileargs}", join(s.compileArgs, l.compileArgs), "{linkargs}", join(s.linkArgs, nil),
		"{interpreterargs}", join(s.interpreterArgs, l.interpreterArgs), "{runargs}", join(s.runArgs, nil),
	)
	c := &job.Commands{Run: "exec " + fill.Replace(l.run)}
	if l.compile != "" {
		c.Compile = "{ " + fill.Replace(l.compile) + "\n} >/tmp/compile.out 2>/tmp/compile.err\n" + fill.Replace(cmp.Or(l.checked, anyMessage))
	}
	return c
}

// join makes a piece of a command line of a list, or of what stands for it where there is none.
func join(list *[]string, otherwise []string) string {
	if list != nil {
		otherwise = *list
	}
	return strings.Join(otherwise, " ")
}

var (
	publicClass = regexp.MustCompile(`(?m)(?:^|\W)public\s+(?:(?:final|abstract|strictfp)\s+)*class\s+([A-Za-z_$][\w$]*)`)
	mainMethod  = regexp.MustCompile(`(?:public\s+static|static\s+public)\s+void\s+main\s*\(\s*(?:final\s+)?String\b`)
)

// mainClass finds the class that a source is named after: the first public one before a main method.
func mainClass(source string) string {
	class := publicClass.FindStringSubmatch(source)
	if class == nil || !mainMethod.MatchString(source) {
		return ""
	}
	return class[1]
}

// offer is a language that workers have.
type offer struct {
	language

	version string
}

// offered are the languages that workers have.
func offered(ctx context.Context, c *facade.Call) ([]offer, error) {
	published, err := c.Client.Runtimes(ctx)
	if err != nil {
		return nil, err
	}
	return offersOf(published), nil
}

// offersOf are the languages of published runtimes.
func offersOf(published []producer.Runtime) (list []offer) {
	for _, l := range languages {
		for _, name := range []string{l.graders, l.runtime} {
			if i := slices.IndexFunc(published, func(r producer.Runtime) bool { return r.Name == name }); i >= 0 {
				l.runtime = name
				list = append(list, offer{l, published[i].Version})
				break
			}
		}
	}
	return list
}

// find returns a language that workers have.
func find(list []offer, id string) (language, bool) {
	i := slices.IndexFunc(list, func(o offer) bool { return o.id == strings.ToLower(id) })
	if i < 0 {
		return language{}, false
	}
	return list[i].language, true
}

func listLanguages(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	offers, err := offered(r.Context(), c)
	if err != nil {
		refuse(w, r, c.Host.Problem(r.Context(), err))
		return
	}
	list := [][2]string{} // not null
	for _, o := range offers {
		list = append(list, [2]string{o.id, o.version})
	}
	facade.Write(w, http.StatusOK, list)
}
