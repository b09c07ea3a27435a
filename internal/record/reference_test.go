package record

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/redisacl"
)

var update = flag.Bool("update", false, "write docs/redis.md anew")

// TestReference: docs/redis.md says of keys and scripts what redisacl's table and the scripts'
// headers say. With -update it is made so, between the marks of each section.
func TestReference(t *testing.T) {
	t.Parallel()
	const file = "../../docs/redis.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(b)
	for name, text := range map[string]string{"keys": keyReference(), "constants": constantReference(), "scripts": scriptReference()} {
		mark := "<!-- " + name + ": internal/record TestReference writes this -->\n"
		section := regexp.MustCompile(`(?s)` + mark + `.*?<!-- end -->\n`)
		if len(section.FindAllString(want, -1)) != 1 {
			t.Fatalf("%s has no section %q, or two", file, mark)
		}
		want = section.ReplaceAllLiteralString(want, mark+text+"<!-- end -->\n")
	}
	if d := cmp.Diff(want, string(b)); d != "" {
		if !*update {
			t.Fatalf("docs/redis.md is not what the code says; go test ./internal/record -run TestReference -update writes it (-want +got):\n%s", d)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func keyReference() string {
	var b strings.Builder
	b.WriteString("| key | type | api | worker | what for | lives |\n|---|---|---|---|---|---|\n")
	for _, k := range redisacl.Keys() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", strings.Replace(k.Pattern, "gb:{*}", "gb:{tenant}", 1), k.Type, k.API, k.Worker, k.Why, k.Life)
	}
	return b.String()
}

// constantReference lists each constant once, as the first file says it that declares it.
func constantReference() string {
	var b strings.Builder
	b.WriteString("| constant | is | what |\n|---|---|---|\n")
	lines := map[string]string{}
	for _, file := range scriptFiles() {
		for _, d := range allTags(file, map[string]bool{}) {
			if d.kind == "const" && lines[d.name] == "" {
				lines[d.name] = fmt.Sprintf("| `%s` | %v | %s |\n", d.name, plain(constants[d.name]), d.about)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(lines[name])
	}
	return b.String()
}

func scriptReference() string {
	var b strings.Builder
	for _, file := range scriptFiles() {
		fmt.Fprintf(&b, "\n### [%s](../internal/record/lua/%s.lua)\n\n%s\n\n", file, file, readHeader(file).about)
		b.WriteString("| | | |\n|---|---|---|\n")
		for _, kind := range []string{"arg", "answer"} {
			title := map[string]string{"arg": "given", "answer": "answers"}[kind]
			for _, d := range allTags(file, map[string]bool{}) {
				if is := d.kind; is == kind || kind == "arg" && (is == "number" || is == "rest") {
					name := d.name
					if is == "rest" {
						name += " …"
					}
					fmt.Fprintf(&b, "| %s | `%s` | %s |\n", title, name, d.about)
					title = ""
				}
			}
		}
	}
	return strings.ReplaceAll(b.String(), "<", "&lt;") + "\n"
}

// allTags are those of a file and of what it includes, in their order in the script.
func allTags(file string, seen map[string]bool) (list []tag) {
	if seen[file] {
		return nil
	}
	seen[file] = true
	for _, d := range readHeader(file).tags {
		if d.kind == "include" {
			list = append(list, allTags("shared/"+d.name, seen)...)
		} else {
			list = append(list, d)
		}
	}
	return list
}
