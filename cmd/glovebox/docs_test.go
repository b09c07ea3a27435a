package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/docstest"
)

// TestDocsCommands: a call of glovebox in a document names commands and flags that exist.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	calls := 0
	for _, d := range docstest.Documents(t) {
		for _, code := range d.Code() {
			for _, words := range code.Commands("glovebox") {
				calls++
				if err := understands(commands(), words); err != nil {
					t.Errorf("%s:%d: %v: %s", d.Path, code.Line, err, code.Text)
				}
			}
		}
	}
	if calls < 30 {
		t.Errorf("found %d calls of glovebox in the documents, want those of all", calls)
	}
}

// TestDocsFlags: a flag that a document names by itself belongs to one of glovebox's commands,
// or occurs in the tree's scripts and other programs. Decision records and benchmarks are left
// out: they weigh flags of Podman's and runsc's.
func TestDocsFlags(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, text := range docstest.Files(t, func(path string) bool { return !strings.HasSuffix(path, ".md") }) {
		sources.WriteString(text)
	}
	flag := regexp.MustCompile(`^--([a-z][a-z-]+)`)
	for _, d := range docstest.Documents(t) {
		for _, code := range d.Code() {
			m := flag.FindStringSubmatch(code.Text)
			if !code.Inline || m == nil || strings.HasPrefix(d.Path, "docs/adr/") || strings.HasPrefix(d.Path, "docs/benchmarks/") || anyFlag(commands(), m[1]) || m[1] == "help" {
				continue
			}
			if !regexp.MustCompile(regexp.QuoteMeta(m[0]) + `\b`).MatchString(sources.String()) {
				t.Errorf("%s:%d: there is no flag %s", d.Path, code.Line, m[0])
			}
		}
	}
}

func TestUnderstands(t *testing.T) {
	t.Parallel()
	for call, good := range map[string]bool{
		"submit --wait --out charts chart.py": true,
		"submit --image x -- tool --verbose":  true,
		"webhook secret|keys|rotate":          true,
		"tenant …":                            true,
		"submit --no-such-flag":               false,
		"tenant no-such-command":              false,
		"no-such-command":                     false,
		"webhook secret|no-such-command":      false,
	} {
		if err := understands(commands(), strings.Fields(call)); (err == nil) != good {
			t.Errorf("glovebox %s: got %v", call, err)
		}
	}
}

func commands() *cobra.Command {
	root := (&app{}).rootCommand()
	root.InitDefaultHelpCmd()
	return root
}

// understands follows a command line as documents write it: placeholders are in capitals or
// dots, alternatives have a bar between them.
func understands(cmd *cobra.Command, words []string) error {
	for i, word := range words {
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		switch {
		case word == "--":
			return nil
		case strings.HasPrefix(word, "--"):
			if cmd.Flag(name) == nil && name != "help" {
				return fmt.Errorf("%s has no flag %s", cmd.CommandPath(), word)
			}
		case !cmd.HasSubCommands() || strings.HasPrefix(word, "-") || !regexp.MustCompile(`^[a-z]`).MatchString(word):
		case strings.Contains(word, "|"):
			for alternative := range strings.SplitSeq(word, "|") {
				if err := understands(cmd, append([]string{alternative}, words[i+1:]...)); err != nil {
					return err
				}
			}
			return nil
		default:
			next, _, err := cmd.Find([]string{word})
			if err != nil || next == cmd {
				return fmt.Errorf("%s has no command %s", cmd.CommandPath(), word)
			}
			cmd = next
		}
	}
	return nil
}

func anyFlag(cmd *cobra.Command, name string) bool {
	if cmd.Flag(name) != nil {
		return true
	}
	for _, c := range cmd.Commands() {
		if anyFlag(c, name) {
			return true
		}
	}
	return false
}
