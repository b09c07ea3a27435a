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
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/internal/secrets"
)

// libraries are all scripts, by the packages of internal that have them.
var libraries = []struct {
	of      string
	scripts *script.Library
}{{"record", scripts}, {"secrets", secrets.Scripts}}

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
	for _, l := range libraries {
		for _, file := range l.scripts.Names("*") {
			for _, d := range allTags(l.scripts, file, map[string]bool{}) {
				if d.Kind == "const" && lines[d.Name] == "" {
					lines[d.Name] = fmt.Sprintf("| `%s` | %v | %s |\n", d.Name, script.Plain(l.scripts.Constants()[d.Name]), d.About)
				}
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
	for _, l := range libraries {
		for _, file := range l.scripts.Names("*") {
			fmt.Fprintf(&b, "\n### [%s](../internal/%s/lua/%s.lua)\n\n%s\n\n", file, l.of, file, l.scripts.Read(file).About)
			writeArguments(&b, l.scripts, file)
		}
	}
	return strings.ReplaceAll(b.String(), "<", "&lt;") + "\n"
}

func writeArguments(b *strings.Builder, l *script.Library, file string) {
	b.WriteString("| | | |\n|---|---|---|\n")
	for _, kind := range []string{"arg", "answer"} {
		title := map[string]string{"arg": "given", "answer": "answers"}[kind]
		for _, d := range allTags(l, file, map[string]bool{}) {
			if is := d.Kind; is == kind || kind == "arg" && (is == "number" || is == "rest") {
				name := d.Name
				if is == "rest" {
					name += " …"
				}
				fmt.Fprintf(b, "| %s | `%s` | %s |\n", title, name, d.About)
				title = ""
			}
		}
	}
}

// allTags are those of a file and of what it includes, in their order in the script.
func allTags(l *script.Library, file string, seen map[string]bool) (list []script.Tag) {
	if seen[file] {
		return nil
	}
	seen[file] = true
	for _, d := range l.Read(file).Tags {
		if d.Kind == "include" {
			list = append(list, allTags(l, "shared/"+d.Name, seen)...)
		} else {
			list = append(list, d)
		}
	}
	return list
}
