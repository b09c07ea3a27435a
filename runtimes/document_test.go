package runtimes

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/runtimes.md anew")

const documentFile = "../docs/runtimes.md"

// TestDocument: docs/runtimes.md says what the runtimes' files do.
func TestDocument(t *testing.T) {
	t.Parallel()
	set, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	want := document(set, measurements(t, set))
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/runtimes.md is not what the runtimes' files say: go test ./runtimes -run TestDocument -update\n%s", diff)
	}
}

func document(set Set, measured map[string][]string) string {
	var b strings.Builder
	b.WriteString(`# Languages

<!-- Written by go test ./runtimes -run TestDocument -update: change runtimes/*/runtime.yaml instead. -->

A job names its language by the runtime's name or one of its aliases. Its source is called as the
column "file" says, unless the job's ` + "`entrypoint`" + ` says otherwise. Versions are checked in the images.
The last columns are the size of the image, and how long a hello takes from the claim of a sandbox to its end, with its
compile step: in a sandbox that is started for it (cold), and in one that waited (warm), from a snapshot where the runtime has a preload. ` + "`make measure-runtimes`" + `
found them, on the machines and at the loads that [benchmarks/runtimes.md](benchmarks/runtimes.md) names for each;
– was not measured.

## The core

` + "`glovebox runtimes build`" + ` without a name, ` + "`make setup`" + ` and ` + "`make test`" + ` build these.

`)
	table(&b, set.Core(), measured)
	b.WriteString(`
## More

` + "`glovebox runtimes build rust ruby`" + ` builds some of these, ` + "`make runtimes`" + ` all, and ` + "`make test-runtimes`" + ` runs
their cases. A worker offers whatever its machine has. Of these it keeps a sandbox started only while jobs
ask for them.

`)
	table(&b, slices.DeleteFunc(set.List(), func(r Runtime) bool { return r.Core }), measured)
	b.WriteString(`
## Sessions

These runtimes have [sessions](agents.md#sessions). The first language is that of the context ` + "`main`" + `; further contexts can have any of them.

| runtime | languages of contexts |
|---|---|
`)
	for _, r := range set.List() {
		if languages := r.Languages(); len(languages) > 0 {
			fmt.Fprintf(&b, "| `%s` | `%s` |\n", r.Name, strings.Join(languages, "`, `"))
		}
	}
	b.WriteString(`
## Commands

What runs, in the job's directory. ` + "`{file}`" + ` stands for the file; the job's arguments follow.

| runtime | compiles with | runs with |
|---|---|---|
`)
	for _, r := range set.List() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, inShell(r.Compile), inShell(r.Run))
	}
	return b.String()
}

// measurements are what docs/benchmarks/runtimes.md says of each runtime: its image's size, cold and warm.
func measurements(t *testing.T, set Set) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/benchmarks/runtimes.md")
	if err != nil {
		t.Fatal(err)
	}
	measured := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		row := measuredRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		if r, ok := set.Lookup(row[1]); !ok || r.Name != row[1] {
			t.Errorf("docs/benchmarks/runtimes.md has %s, which is no runtime", row[1])
		}
		measured[row[1]] = row[2:]
	}
	if len(measured) == 0 {
		t.Error("docs/benchmarks/runtimes.md has no row that this test can read")
	}
	return measured
}

var measuredRow = regexp.MustCompile("^\\| `([^`]+)` \\| [^|]+ \\| ([0-9]+) \\| ([0-9]+) \\| ([0-9]+) \\| [^|]+ \\|\n$")

func table(b *strings.Builder, list []Runtime, measured map[string][]string) {
	b.WriteString("| runtime | version | aliases | file | image, MB | cold, ms | warm, ms |\n|---|---|---|---|---|---|---|\n")
	for _, r := range list {
		aliases := ""
		if len(r.Aliases) > 0 {
			aliases = "`" + strings.Join(r.Aliases, "`, `") + "`"
		}
		figures := []string{"–", "–", "–"}
		if m, ok := measured[r.Name]; ok {
			figures = m
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | `%s` | %s |\n", r.Name, r.Version, aliases, r.File, strings.Join(figures, " | "))
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./{}-]+$`)

// inShell is a command as one would type it, for a cell of a table.
func inShell(command []string) string {
	if len(command) == 0 {
		return ""
	}
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = word
		if !plainWord.MatchString(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return "`" + strings.ReplaceAll(strings.Join(words, " "), "|", `\|`) + "`"
}
