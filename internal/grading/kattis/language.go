package kattis

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// language is one of the format's, by its code.
type language struct {
	code   string
	suffix []string // of its sources
	// runtimes are names and aliases that a runtime of Glovebox for it may have, the best first.
	runtimes []string
}

// languages are those of the format's table that runtimes may be there for.
var languages = []language{
	{"ada", []string{".adb", ".ads"}, []string{"ada"}},
	{"bash", []string{".sh"}, []string{"bash", "sh"}},
	{"c", []string{".c"}, []string{"c", "gcc"}},
	{"cpp", []string{".cc", ".cpp", ".cxx", ".c++", ".C"}, []string{"cpp", "c++", "cxx", "g++"}},
	{"csharp", []string{".cs"}, []string{"csharp", "cs", "dotnet"}},
	{"d", []string{".d"}, []string{"d"}},
	{"dart", []string{".dart"}, []string{"dart"}},
	{"elixir", []string{".ex"}, []string{"elixir"}},
	{"erlang", []string{".erl"}, []string{"erlang"}},
	{"fortran", []string{".f90"}, []string{"fortran"}},
	{"go", []string{".go"}, []string{"go", "golang"}},
	{"haskell", []string{".hs"}, []string{"haskell", "hs", "ghc"}},
	{"java", []string{".java"}, []string{"java"}},
	{"javascript", []string{".js", ".mjs"}, []string{"javascript", "node", "js"}},
	{"julia", []string{".jl"}, []string{"julia"}},
	{"kotlin", []string{".kt"}, []string{"kotlin", "kt"}},
	{"lua", []string{".lua"}, []string{"lua"}},
	{"ocaml", []string{".ml"}, []string{"ocaml"}},
	{"pascal", []string{".pas"}, []string{"pascal", "fpc"}},
	{"perl", []string{".pl", ".pm"}, []string{"perl"}},
	{"php", []string{".php"}, []string{"php"}},
	{"python3", []string{".py", ".py3"}, []string{"python3", "python", "py"}},
	{"ruby", []string{".rb"}, []string{"ruby", "rb"}},
	{"rust", []string{".rs"}, []string{"rust", "rs"}},
	{"swift", []string{".swift"}, []string{"swift"}},
	{"typescript", []string{".ts"}, []string{"typescript", "ts"}},
	{"zig", []string{".zig"}, []string{"zig"}},
	{Scripts, nil, []string{"classroom"}},
}

// Scripts stands for the language of a validator that brings scripts of its own to build and run it. They may
// call python3, cc and c++.
const Scripts = "build and run scripts"

// LanguageOf returns the code of the language that most of the files are written in; "" if none is known.
func LanguageOf(files []string) string {
	count := map[string]int{}
	best := ""
	for _, name := range files {
		for _, l := range languages {
			if slices.Contains(l.suffix, path.Ext(name)) {
				count[l.code]++
				if best == "" || count[l.code] > count[best] {
					best = l.code
				}
			}
		}
	}
	return best
}

// RuntimesFor lists the names that a runtime for a language may go by, the best first.
func RuntimesFor(code string) []string {
	for _, l := range languages {
		if l.code == code {
			return l.runtimes
		}
	}
	return []string{code}
}

// compilers are commands of languages whose sources, of one program, are compiled together; %s stands for the sources.
var compilers = map[string]job.Commands{
	"c":      {Compile: "gcc -O2 -o /tmp/main %s -lm", Run: `/tmp/main "$@"`},
	"cpp":    {Compile: "g++ -O2 -o /tmp/main %s -lm", Run: `/tmp/main "$@"`},
	"csharp": {Compile: "mcs -nologo -debug -r:System.Core,System.Numerics,Microsoft.CSharp -out:/tmp/main.exe %s", Run: `mono --debug /tmp/main.exe "$@"`},
	"d":      {Compile: "gdc -O2 -g -o /tmp/main %s", Run: `/tmp/main "$@"`},
	"go":     {Compile: "go build -o /tmp/main %s", Run: `/tmp/main "$@"`},
}

// compiled are the commands of compilers for sources, as a shell reads them; nil if there are none.
func compiled(code, sources string) *job.Commands {
	c, ok := compilers[code]
	if !ok {
		return nil
	}
	c.Compile = strings.Replace(c.Compile, "%s", sources, 1)
	return &c
}

// together returns commands for a program of several sources that are compiled together, such as a function in C and the
// grader that calls it; nil for one that its runtime's own commands do for. A shell reads the sources' names: only those that a package may have are taken.
func together(code, entrypoint string, files []string) (*job.Commands, error) {
	sources := sourcesOf(code, files)
	if code == "go" { // a package is a folder, and finds those that it imports
		dir := path.Dir(entrypoint)
		sources = slices.DeleteFunc(sources, func(name string) bool { return path.Dir(name) != dir || strings.HasSuffix(name, "_test.go") })
	}
	if len(sources) < 2 {
		return nil, nil
	}
	commands := compiled(code, strings.Join(sources, " "))
	if i := slices.IndexFunc(sources, func(n string) bool { return commands != nil && !plainPath.MatchString(n) }); i >= 0 {
		return nil, fmt.Errorf("the name %q: want letters, digits, _, - and . where several sources are compiled together", sources[i])
	}
	return commands, nil
}

// sourcesOf returns those of files that are written in a language, by name.
func sourcesOf(code string, files []string) []string {
	var sources []string
	for _, l := range languages {
		for _, name := range files {
			if l.code == code && slices.Contains(l.suffix, path.Ext(name)) {
				sources = append(sources, name)
			}
		}
	}
	slices.Sort(sources)
	return sources
}

// copied is a stem as browsers make it for a second download: "sum (1)", of "sum".
var copied = regexp.MustCompile(`^(.+?) ?\(\d+\)$`)

// entrypointOf chooses what is started: __main__.py, main.*, else the first source by name that isn't a copy of another.
func entrypointOf(code string, files []string) string {
	sources := sourcesOf(code, files)
	if len(sources) == 0 {
		sources = slices.Sorted(slices.Values(files))
	}
	first := func(match func(string) bool) string {
		if i := slices.IndexFunc(sources, match); i >= 0 {
			return sources[i]
		}
		return ""
	}
	return cmp.Or(
		first(func(name string) bool { return name == "__main__.py" }),
		first(func(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, path.Ext(name)), "main") }),
		first(func(name string) bool {
			ending := path.Ext(name)
			stem := copied.FindStringSubmatch(strings.TrimSuffix(name, ending))
			return stem == nil || !slices.Contains(sources, stem[1]+ending)
		}),
	)
}
