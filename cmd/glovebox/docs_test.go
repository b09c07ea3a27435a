package main

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/glovebox-run/glovebox/internal/config"
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

// asks is which of Glovebox's variables a server's settings are read from: it asks for all, though none is set.
func asks[T any](read func(config.Getenv) (T, error)) map[string]bool {
	names := map[string]bool{}
	_, _ = read(func(name string) string {
		if strings.HasPrefix(name, "GLOVEBOX_") {
			names[strings.TrimSuffix(name, "_FILE")] = true
		}
		return ""
	})
	return names
}

// TestHelpOfAPI: help explains every variable that the api reads.
func TestHelpOfAPI(t *testing.T) {
	t.Parallel()
	help := (&app{}).apiCommand().Long
	names := asks(config.ReadAPI)
	if len(names) < 30 {
		t.Errorf("it reads %d variables, want all", len(names))
	}
	for name := range names {
		if !regexp.MustCompile(name + `\b`).MatchString(help) {
			t.Errorf("glovebox api --help says nothing of %s", name)
		}
	}
}

// TestTwins: a flag isn't set by a variable of the api or of a worker, whose settings may be in the same environment,
// unless both mean the same.
func TestTwins(t *testing.T) {
	t.Parallel()
	servers := asks(config.ReadAPI)
	maps.Copy(servers, asks(config.ReadWorker))
	same := map[string]bool{
		"GLOVEBOX_API_ADDR":  true, // of glovebox api, and of dev's
		"GLOVEBOX_ISOLATION": true, // what a machine isolates by, and what its user accepts
	}
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name := twin(f); servers[name] && !same[name] {
				t.Errorf("%s: --%s is set by %s, which is a server's setting: want one of its own (setTwin)", cmd.CommandPath(), f.Name, name)
			}
		})
		for _, c := range cmd.Commands() {
			look(c)
		}
	}
	look(commands())
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
