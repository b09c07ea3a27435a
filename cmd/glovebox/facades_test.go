package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/runtimes"
)

var update = flag.Bool("update", false, "write the table of languages in docs/moving.md anew, and the golden files")

// TestFacadeLanguages: docs/moving.md lists each name by which a façade's clients ask for a runtime. What they
// come to is in TestFacadeLanguages of e2e, which walks the same list.
func TestFacadeLanguages(t *testing.T) {
	t.Parallel()
	const page, begin, end = "../../docs/moving.md", "-update: change the façade's languages instead. -->\n", "<!-- The end of what is written. -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	written, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	want := languageTable(t)
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		written = want
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("%s does not list what the façades have: go test ./cmd/glovebox -run TestFacadeLanguages -update\n%s", page, diff)
	}
}

// TestFacadeRoutes: docs/moving.md lists each route of each façade in its section, below the base path that its clients know.
func TestFacadeRoutes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/moving.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		name, _, _ := strings.Cut(strings.ToLower(title), " ")
		sections[name] = body
	}
	for _, f := range facadesNamed(config.Facades()) {
		for _, route := range f.Routes {
			pattern := strings.NewReplacer("/index.php/restapi/", "", "/api/v2/piston/", "/api/v2/", "{$}", "").Replace(route.Pattern)
			if !strings.Contains(sections[f.Name], "`"+pattern+"`") {
				t.Errorf("the section %s of docs/moving.md has no %s", f.Name, pattern)
			}
		}
	}
}

func languageTable(t *testing.T) string {
	t.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	facades := facadesNamed(config.Facades())
	names := map[string]map[string][]string{} // by façade and runtime
	for _, f := range facades {
		names[f.Name] = namesByRuntime(t, set, f)
	}
	var table strings.Builder
	table.WriteString("\n| runtime | Judge0 | Piston | Jobe | E2B |\n|---|---|---|---|---|\n")
	for _, r := range set.List() {
		if len(names["judge0"][r.Name])+len(names["piston"][r.Name])+len(names["jobe"][r.Name])+len(names["e2b"][r.Name]) == 0 {
			continue
		}
		fmt.Fprintf(&table, "| `%s` |", r.Name)
		for _, f := range []string{"judge0", "piston", "jobe", "e2b"} {
			cell := ""
			if list := names[f][r.Name]; len(list) > 0 {
				cell = " `" + strings.Join(list, "`, `") + "`"
			}
			table.WriteString(cell + " |")
		}
		table.WriteString("\n")
	}
	table.WriteString("\n")
	return table.String()
}

// namesByRuntime checks that each name of a façade's belongs to one language, on a runtime of ours.
func namesByRuntime(t *testing.T, set runtimes.Set, f facade.Facade) map[string][]string {
	t.Helper()
	seen, names := map[string]bool{}, map[string][]string{}
	for _, l := range f.Languages {
		if r, ok := set.Lookup(l.Runtime); !ok || r.Name != l.Runtime {
			t.Errorf("%s: %v are on %s, which is no runtime of ours", f.Name, l.Names, l.Runtime)
		}
		for _, name := range l.Names {
			if seen[name] {
				t.Errorf("%s: %s is two languages'", f.Name, name)
			}
			seen[name] = true
		}
		names[l.Runtime] = slices.Concat(names[l.Runtime], l.Names)
	}
	if len(seen) == 0 {
		t.Errorf("%s has no languages", f.Name)
	}
	return names
}
