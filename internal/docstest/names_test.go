package docstest_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/docstest"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	web     = regexp.MustCompile(`^[a-z]+:`)
)

// TestLinks: a relative link leads to a file, and its fragment to a heading there.
func TestLinks(t *testing.T) {
	t.Parallel()
	root := docstest.Root(t)
	for _, d := range docstest.Documents(t) {
		for number, line := range docstest.Lines(d.Text) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if web.MatchString(m[1]) {
					continue
				}
				target, fragment, _ := strings.Cut(m[1], "#")
				file := filepath.Join(root, path.Dir(d.Path), target)
				if target == "" {
					file = filepath.Join(root, d.Path)
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s:%d: the link %s leads nowhere", d.Path, number, m[1])
				} else if fragment != "" && !slices.Contains(anchors(t, file), fragment) {
					t.Errorf("%s:%d: the link %s leads to no heading", d.Path, number, m[1])
				}
			}
		}
	}
}

// anchors are the fragments that GitHub gives a document's headings.
func anchors(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var anchors []string
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		anchor := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	return anchors
}

var (
	file = regexp.MustCompile(`^(?:\./)?[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*/?$`)
	// A document of the tree is cited by its path, or has a name in capitals: README.md.
	citation = regexp.MustCompile(`\b(?:docs|adr)/[A-Za-z0-9_./-]+\.md\b|\b(?:[a-z0-9_-]+/)*[A-Z]{3,}\.md\b`)
	record   = regexp.MustCompile(`\bADR (\d+)`)
)

// notFiles look like paths in the tree.
var notFiles = map[string]bool{
	"artifacts/plot.png": true, // a key in the bucket
}

// TestFiles: a path in code, below a directory of the tree or the document's own, exists.
func TestFiles(t *testing.T) {
	t.Parallel()
	root := docstest.Root(t)
	for _, d := range docstest.Documents(t) {
		for _, code := range d.Code() {
			for _, word := range strings.Fields(code.Text) {
				word = strings.TrimSuffix(strings.TrimPrefix(strings.Trim(word, "`'\"(),;:"), "$PWD/"), "/...")
				first, _, below := strings.Cut(strings.TrimPrefix(word, "./"), "/")
				if !below || !file.MatchString(word) || notFiles[word] || first == "bin" || strings.HasPrefix(first, ".") {
					continue
				}
				for _, base := range []string{".", path.Dir(d.Path)} {
					if isDirectory(filepath.Join(root, base, first)) && !exists(filepath.Join(root, base, word)) {
						t.Errorf("%s:%d: %s does not exist", d.Path, code.Line, word)
					}
				}
			}
		}
	}
}

// TestCitations: documents that any file cites are in the tree.
func TestCitations(t *testing.T) {
	t.Parallel()
	root := docstest.Root(t)
	records, err := filepath.Glob(filepath.Join(root, "docs/adr/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]bool{}
	for _, r := range records {
		number, _, _ := strings.Cut(filepath.Base(r), "-")
		numbers[strings.TrimLeft(number, "0")] = true
	}
	for name, text := range docstest.Files(t, func(string) bool { return true }) {
		for number, line := range docstest.Lines(text) {
			for _, m := range record.FindAllStringSubmatch(line, -1) {
				if !numbers[m[1]] {
					t.Errorf("%s:%d: there is no %s in docs/adr", name, number, m[0])
				}
			}
			for _, cited := range citation.FindAllString(line, -1) {
				if !slices.ContainsFunc([]string{".", "docs", path.Dir(name)}, func(dir string) bool {
					return exists(filepath.Join(root, dir, cited))
				}) {
					t.Errorf("%s:%d: there is no %s", name, number, cited)
				}
			}
		}
	}
}

var (
	variable = regexp.MustCompile(`\bGLOVEBOX_[A-Z0-9_]*[A-Z0-9]\b`)
	test     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*`)
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)\(`)
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]*(?: [a-z-]+)*):`)
)

// TestNames: targets of make, environment variables and tests that a document names exist.
func TestNames(t *testing.T) {
	t.Parallel()
	targets, variables, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for name, text := range docstest.Files(t, func(path string) bool { return !strings.HasSuffix(path, ".md") }) {
		for _, v := range variable.FindAllString(text, -1) {
			variables[v] = true
		}
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			tests[m[1]] = true
		}
		if name != "Makefile" {
			continue
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			for _, name := range strings.Fields(m[1]) {
				targets[name] = true
			}
		}
	}
	for _, d := range docstest.Documents(t) {
		for _, code := range d.Code() {
			for _, call := range code.Commands("make") {
				for _, word := range call {
					if regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) && !targets[word] {
						t.Errorf("%s:%d: there is no target %s: %s", d.Path, code.Line, word, code.Text)
					}
				}
			}
		}
		for number, line := range docstest.Lines(d.Text) {
			for _, v := range variable.FindAllString(line, -1) {
				if !variables[v] && !variables[strings.TrimSuffix(v, "_FILE")] {
					t.Errorf("%s:%d: nothing reads %s", d.Path, number, v)
				}
			}
			for _, name := range test.FindAllString(line, -1) {
				if !tests[name] && !strings.HasPrefix(d.Path, "docs/benchmarks/") {
					t.Errorf("%s:%d: there is no %s", d.Path, number, name)
				}
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
