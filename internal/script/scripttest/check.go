// Package scripttest checks the scripts of a package.
package scripttest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/script"
)

// Check fails for a script of the library whose header doesn't fit its file, and for a call of one
// in the Go files of the test's directory whose arguments don't fit the header. elsewhere are
// the variables of scripts whose calls have their arguments from elsewhere: tests make these.
func Check(t *testing.T, l *script.Library, elsewhere ...string) {
	t.Helper()
	namesOnce(t, l)
	headers(t, l)
	calls(t, l, elsewhere)
}

var topLevel = regexp.MustCompile(`(?m)^local (?:function )?([\w, ]+)`)

// namesOnce: a name that two files of a script declare would mean one thing above and another below.
func namesOnce(t *testing.T, l *script.Library) {
	t.Helper()
	for _, name := range l.Names("*") {
		declared := map[string]bool{}
		for _, m := range topLevel.FindAllStringSubmatch(l.Load(name).Text(), -1) {
			for local := range strings.SplitSeq(m[1], ",") {
				if local = strings.TrimSpace(local); declared[local] {
					t.Errorf("lua/%s.lua: %s is declared twice", name, local)
				}
				declared[local] = true
			}
		}
	}
}

// headers: what a header declares, its file uses.
func headers(t *testing.T, l *script.Library) {
	t.Helper()
	files := append(l.Names("*"), l.Names("shared/*")...)
	included, constant := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		h := l.Read(file)
		for _, d := range h.Tags {
			switch d.Kind {
			case "include":
				included["shared/"+d.Name] = true
			case "answer":
			default:
				constant[d.Name] = constant[d.Name] || d.Kind == "const"
				if !regexp.MustCompile(`\b` + d.Name + `\b`).MatchString(h.Body) {
					t.Errorf("lua/%s.lua declares %s and doesn't use it", file, d.Name)
				}
			}
			if d.Kind != "include" && d.About == "" {
				t.Errorf("lua/%s.lua doesn't say what %s is", file, d.Name)
			}
		}
		if h.About == "" {
			t.Errorf("lua/%s.lua doesn't say what it is", file)
		}
	}
	for _, file := range files {
		if strings.HasPrefix(file, "shared/") && !included[file] {
			t.Errorf("nothing includes lua/%s.lua", file)
		}
	}
	for name := range l.Constants() {
		if !constant[name] {
			t.Errorf("no script uses the constant %s", name)
		}
	}
}
