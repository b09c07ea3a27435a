// Package docstest reads Glovebox's documents for the tests of what they say: that links
// lead somewhere, that what they name exists, that the prose can be read. Start with
// Documents. Only tests import it.
package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Document is a Markdown file of the tree.
type Document struct {
	Path string // from the root of the tree, with slashes
	Text string
}

// Code is a line of a code block, with the lines that continue it, or a piece of inline code.
type Code struct {
	Line   int
	Text   string
	Inline bool
}

// Root returns the directory that holds go.mod.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the test's directory")
		}
		dir = parent
	}
}

// Files returns what keep accepts of the tree's files, by path from the root. Hidden
// directories, build output and test data are no part of it.
func Files(tb testing.TB, keep func(path string) bool) map[string]string {
	tb.Helper()
	root := Root(tb)
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			hidden := strings.HasPrefix(name, ".") && path != root
			if hidden || slices.Contains([]string{"bin", "glovebox-out", "node_modules", "testdata"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		path, err = filepath.Rel(root, path)
		if err != nil || !entry.Type().IsRegular() || !keep(filepath.ToSlash(path)) {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		files[filepath.ToSlash(path)] = string(text)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

// Documents returns the tree's Markdown files, sorted. Of the changelog it is what is
// unreleased: a released version's commands may be gone.
func Documents(tb testing.TB) []Document {
	tb.Helper()
	var documents []Document
	for path, text := range Files(tb, func(path string) bool { return strings.HasSuffix(path, ".md") }) {
		if path == "CHANGELOG.md" {
			text = unreleased(text)
		}
		documents = append(documents, Document{path, text})
	}
	if len(documents) < 10 {
		tb.Fatalf("found %d documents, want those of the whole tree", len(documents))
	}
	slices.SortFunc(documents, func(a, b Document) int { return strings.Compare(a.Path, b.Path) })
	return documents
}

func unreleased(changelog string) string {
	versions := regexp.MustCompile(`(?m)^## `).FindAllStringIndex(changelog, -1)
	if len(versions) < 2 {
		return changelog
	}
	return changelog[:versions[1][0]]
}

var inlineCode = regexp.MustCompile("`([^`\n]+)`")

// Code returns the document's code blocks, fenced or indented, line by line, and its inline code.
func (d Document) Code() []Code {
	var code []Code
	fence, indented, blank := "", false, true
	for number, line := range Lines(d.Text) {
		trimmed := strings.TrimSpace(line)
		marker := strings.HasPrefix(trimmed, "```")
		indented = fence == "" && strings.HasPrefix(line, "    ") && (indented || blank)
		blank = trimmed == ""
		switch {
		case marker && fence == "":
			fence = trimmed
		case marker:
			fence = ""
		case fence != "" || indented:
			last := len(code) - 1
			if last >= 0 && !code[last].Inline && strings.HasSuffix(code[last].Text, `\`) {
				code[last].Text = strings.TrimSuffix(code[last].Text, `\`) + trimmed
			} else {
				code = append(code, Code{number, trimmed, false})
			}
		default:
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				code = append(code, Code{number, m[1], true})
			}
		}
	}
	return code
}

// Block is a fenced block of code as it stands in a document.
type Block struct {
	Line     int    // of its first line of code
	Language string // what stands behind the fence
	Text     string
}

// Blocks returns the document's fenced blocks.
func (d Document) Blocks() (blocks []Block) {
	within := false
	for number, line := range Lines(d.Text) {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !within:
			within, blocks = true, append(blocks, Block{Line: number + 1, Language: language})
		case fence:
			within = false
		case within:
			blocks[len(blocks)-1].Text += line + "\n"
		}
	}
	return blocks
}

// Lines numbers a text's lines from 1.
func Lines(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(text) {
			number++
			if !yield(number, strings.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}
