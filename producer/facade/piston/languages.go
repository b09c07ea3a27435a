package piston

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// language is how Piston calls one of our runtimes, and what it does beside the runtime's own commands.
type language struct {
	name    string
	runtime string // ours
	aliases []string
	// pkg is what Piston's answers call its runtime, where one of its packages has several languages, or
	// another name.
	pkg string
	// file is what the main file is called that has no name, and extensions are those of which it needs one.
	file       string
	extensions []string
	// together says that all sources are compiled, not the main one alone: each gets the first extension, unless it
	// has one that says it is something else. others are those of sources that the commands don't look for.
	together bool
	others   []string
	// commands replace the runtime's own. "$1" is the main file, and what follows the arguments.
	commands *job.Commands
}

// compiled are the commands of a language whose sources are compiled together.
func compiled(compiler string) *job.Commands {
	return &job.Commands{Compile: compiler, Run: `shift; exec /tmp/main "$@"`}
}

// languages are the names that Piston has for our runtimes. A runtime that is not here has its own
// name there, and its own commands.
var languages = []language{
	{name: "awk", runtime: "awk", aliases: []string{"gawk"}, file: "main.awk"},
	{name: "bash", runtime: "bash", aliases: []string{"sh"}, file: "main.sh"},
	{
		name: "c", runtime: "c", aliases: []string{"gcc"}, pkg: "gcc", file: "main.c", extensions: []string{".c"}, together: true,
		commands: compiled("gcc -std=c11 -o /tmp/main ./*.c -lm"),
	},
	{
		// With the options of the image's precompiled header, and its dialect, which has all of Piston's.
		name: "c++", runtime: "cpp", aliases: []string{"cpp", "g++"}, pkg: "gcc", file: "main.cpp", extensions: []string{".cpp"}, together: true, others: []string{".cc", ".cxx", ".c++", ".C"},
		commands: compiled("g++ -O2 -o /tmp/main ./*.cpp -lm"),
	},
	{name: "clojure", runtime: "clojure", aliases: []string{"clj"}, file: "main.clj"},
	{name: "cobol", runtime: "cobol", aliases: []string{"cob"}, file: "main.cob"},
	{
		name: "csharp", runtime: "csharp", aliases: []string{"mono", "mono-csharp", "mono-c#", "mono-cs", "c#", "cs"}, pkg: "mono", file: "main.cs", extensions: []string{".cs"}, together: true,
		commands: &job.Commands{
			Compile: "mcs -nologo -debug -r:System.Core,System.Numerics,Microsoft.CSharp -out:/tmp/main.exe ./*.cs",
			Run:     `shift; exec mono --debug /tmp/main.exe "$@"`,
		},
	},
	{name: "d", runtime: "d", aliases: []string{"gdc"}, pkg: "gcc", file: "main.d", extensions: []string{".d"}, together: true, commands: compiled("gdc -O2 -g -o /tmp/main ./*.d")},
	{name: "elixir", runtime: "elixir", aliases: []string{"exs"}, file: "main.exs"},
	{name: "erlang", runtime: "erlang", aliases: []string{"erl", "escript"}, file: "main.erl", extensions: []string{".erl"}},
	{
		name: "fortran", runtime: "fortran", aliases: []string{"f90"}, pkg: "gcc", file: "main.f90", extensions: []string{".f90"}, together: true, others: []string{".f95", ".f03", ".f08"},
		commands: compiled("gfortran -O2 -g -J /tmp -o /tmp/main ./*.f90"),
	},
	{name: "go", runtime: "go", aliases: []string{"golang"}, file: "main.go", extensions: []string{".go"}},
	{name: "groovy", runtime: "groovy", aliases: []string{"gvy"}, file: "main.groovy"},
	{name: "haskell", runtime: "haskell", aliases: []string{"hs"}, file: "main.hs", extensions: []string{".hs"}},
	{
		// Java's launcher of sources, for which the class need not be called like the file.
		name: "java", runtime: "java", file: "Main.java", extensions: []string{".java"},
		commands: &job.Commands{Run: `exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "$@"`},
	},
	{name: "javascript", runtime: "node", aliases: []string{"node-javascript", "node-js", "js", "node"}, pkg: "node", file: "main.js", extensions: []string{".js", ".mjs", ".cjs"}},
	{name: "lisp", runtime: "lisp", aliases: []string{"cl", "sbcl", "commonlisp"}, file: "main.lisp"},
	{name: "lua", runtime: "lua", file: "main.lua"},
	{name: "nasm64", runtime: "nasm", aliases: []string{"asm64"}, pkg: "nasm", file: "main.asm"},
	{name: "ocaml", runtime: "ocaml", aliases: []string{"ml"}, file: "main.ml", extensions: []string{".ml"}},
	{name: "octave", runtime: "octave", aliases: []string{"matlab", "m"}, file: "main.m", extensions: []string{".m"}},
	{name: "pascal", runtime: "pascal", aliases: []string{"freepascal", "pp", "pas"}, file: "main.pas", extensions: []string{".pas", ".pp"}},
	{name: "perl", runtime: "perl", aliases: []string{"pl"}, file: "main.pl"},
	{name: "php", runtime: "php", aliases: []string{"php8", "html"}, file: "main.php"},
	{name: "prolog", runtime: "prolog", aliases: []string{"plg"}, file: "main.pl", extensions: []string{".pl", ".pro"}},
	{name: "python", runtime: "python", aliases: []string{"py", "py3", "python3", "python3.10", "python3.11", "python3.12", "python3.13"}, file: "main.py", extensions: []string{".py"}},
	{name: "racket", runtime: "racket", aliases: []string{"rkt"}, file: "main.rkt"},
	{name: "raku", runtime: "raku", aliases: []string{"rakudo", "perl6", "p6", "pl6"}, file: "main.raku"},
	{name: "rscript", runtime: "r", aliases: []string{"r"}, file: "main.r"},
	{name: "ruby", runtime: "ruby", aliases: []string{"rb", "ruby3"}, file: "main.rb"},
	{name: "rust", runtime: "rust", aliases: []string{"rs"}, file: "main.rs", extensions: []string{".rs"}},
	{name: "scala", runtime: "scala", aliases: []string{"sc"}, file: "Main.scala", extensions: []string{".scala"}},
	{name: "sqlite3", runtime: "sql", aliases: []string{"sqlite", "sql"}, file: "main.sql"},
	{name: "typescript", runtime: "typescript", aliases: []string{"ts", "node-ts", "tsc", "typescript5", "ts5"}, file: "main.ts", extensions: []string{".ts", ".mts", ".cts"}},
	// Bash starts what it is given, whatever that is.
	{
		name: "file", runtime: "bash", aliases: []string{"executable", "elf", "binary"}, file: "main",
		commands: &job.Commands{Run: `chmod +x -- "$1" && exec "./$@"`},
	},
}

// isSource reports whether a file of that name is compiled, if all sources are.
func (l language) isSource(name string) bool {
	ext := path.Ext(name)
	return ext == "" || ext == unnamed || slices.Contains(l.extensions, ext) || slices.Contains(l.others, ext)
}

// mainFile is what the main file is called that a client calls name: that, with an extension that its compiler or
// interpreter knows. No other file of the request is called so.
func (l language) mainFile(name string, taken func(string) bool) string {
	if name == "" {
		name = l.file
	} else if ext := path.Ext(name); len(l.extensions) > 0 && !slices.Contains(l.extensions, strings.ToLower(ext)) {
		dir, base := path.Split(strings.TrimSuffix(name, ext))
		if !plainStem.MatchString(base) { // a compiler may make a name of its own of it
			base = strings.TrimSuffix(l.file, path.Ext(l.file))
		}
		name = dir + base + l.extensions[0]
	} else {
		return name // as the client wants it, even if that is twice there
	}
	ext := path.Ext(name)
	free := name
	for i := 1; taken(free); i++ {
		free = strings.TrimSuffix(name, ext) + strconv.Itoa(i) + ext
	}
	return free
}

var plainStem = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// besideFile is what another source is called that a client calls name.
func (l language) besideFile(name string) string {
	if ext := path.Ext(name); l.together && l.isSource(name) && !slices.Contains(l.extensions, ext) {
		return name + l.extensions[0]
	}
	return name
}

// unnamed is the extension of files that have no name.
const unnamed = ".code"
