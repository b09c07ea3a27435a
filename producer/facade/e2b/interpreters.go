package e2b

import (
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// interpreter is a language of E2B's, on one of our runtimes.
type interpreter struct {
	names   []string // what clients call it, its own name first
	runtime string   // ours
}

var interpreters = []interpreter{
	{[]string{"python"}, "python"},
	{[]string{"javascript", "js"}, "node"},
	{[]string{"typescript", "ts"}, "typescript"},
	{[]string{"bash"}, "bash"},
}

// interpreterNamed fails for one that there is none of.
func interpreterNamed(name string) (interpreter, error) {
	i := slices.IndexFunc(interpreters, func(l interpreter) bool { return slices.Contains(l.names, strings.ToLower(name)) })
	if i < 0 {
		return interpreter{}, facade.BadRequest("language " + job.Clip(name, 60) + " is not supported: want python, javascript, typescript or bash")
	}
	return interpreters[i], nil
}

// dedented is Python code whose lines may all be indented, as what is pasted from within a function.
func dedented(code string) string {
	indent := ""
	for line := range strings.Lines(code) { // one at a time: a list of them takes many times what short ones do
		if text := strings.TrimLeft(line, " \t"); strings.TrimSpace(text) != "" {
			indent = line[:len(line)-len(text)]
			break
		}
	}
	if indent == "" {
		return code
	}
	var b strings.Builder
	b.Grow(len(code))
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimPrefix(line, indent))
	}
	return b.String()
}
