package docstest_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/docstest"
)

// patterns are turns of phrase that readers stumble over. A space stands for any white
// space, a line's end and the comment sign of the next line included.
var patterns = []struct {
	expression string
	instead    string
	inGo       int // how many are left in Go files, as of the last change here: the number may only fall
}{
	{`\b(?:by|for|from|of|than|to|with) who\b`, "the caller, the operator, whoever", 3},
	{`(?:^|[.:;|] |- )Who (?:[a-z]{2,}s|can|may)\b`, "whoever; or a noun: a client that", 1},
	{`\b(?:he|him|his)\b`, "they; or the noun", 1},
	{`\bbut for\b`, "except for", 2},
	{`\bafter what\b`, "how long, how often, the delay before", 5},
	{`\bwhich which\b`, "two sentences", 0},
	{`\bthat there (?:is|are)(?:[.,;:)]|$)`, "that exist", 0},
	{`\b(?:is|are|stands) (?:in )?there twice\b`, "appears more than once", 0},
	{`\bsees? to it\b`, "enforces, makes sure", 0},
	{`\bby and by\b`, "gradually, later", 0},
}

// TestProse keeps these turns of phrase out of documents, scripts and settings, and from
// spreading in Go's comments and strings. With -v it lists those that are left there.
func TestProse(t *testing.T) {
	t.Parallel()
	goFiles := docstest.Files(t, func(path string) bool { return strings.HasSuffix(path, ".go") })
	for path, text := range goFiles {
		goFiles[path] = proseOfGo(text)
	}
	delete(goFiles, "internal/docstest/prose_test.go") // it quotes them
	others := docstest.Files(t, func(path string) bool {
		return regexp.MustCompile(`(?:\.(?:md|service|sh|socket|ya?ml)|^Makefile)$`).MatchString(path)
	})
	sign := regexp.MustCompile(`(?m)^[ \t]*#`)
	for path, text := range others {
		others[path] = sign.ReplaceAllStringFunc(text, blank)
	}
	for _, p := range patterns {
		expression := regexp.MustCompile(`(?m)` + strings.ReplaceAll(p.expression, " ", `\s+`))
		for _, place := range places(others, expression) {
			t.Errorf("%s is hard to read, better is: %s", place, p.instead)
		}
		left := places(goFiles, expression)
		if len(left) > p.inGo {
			t.Errorf("Go files have %d of these, want %d at most; better is: %s", len(left), p.inGo, p.instead)
		}
		if len(left) > p.inGo || testing.Verbose() {
			t.Logf("%q:\n%s", p.expression, strings.Join(left, "\n"))
		}
	}
}

// places lists what matches in the files' texts: where, and the words.
func places(files map[string]string, expression *regexp.Regexp) []string {
	var places []string
	for path, text := range files {
		for _, at := range expression.FindAllStringIndex(text, -1) {
			words := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			places = append(places, fmt.Sprintf("%s:%d: %q", path, 1+strings.Count(text[:at[0]], "\n"), words))
		}
	}
	slices.Sort(places)
	return places
}

func blank(s string) string { return strings.Repeat(" ", len(s)) }

// proseOfGo returns the words of a Go file's comments and strings, each on its line.
func proseOfGo(source string) string {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, scanner.ScanComments)
	var prose strings.Builder
	for line := 1; ; {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			return prose.String()
		}
		if kind != token.COMMENT && kind != token.STRING {
			continue
		}
		for ; line < file.Line(position); line++ {
			prose.WriteByte('\n')
		}
		prose.WriteString(strings.TrimPrefix(literal, "// ") + " ")
		line += strings.Count(literal, "\n")
	}
}
