package docstest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/docstest"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want [][]string
	}{
		{"glovebox", [][]string{{}}},
		{"$ bin/glovebox dev &             # everything", [][]string{{"dev"}}},
		{"glovebox secret set API_TOKEN < token.txt", [][]string{{"secret", "set", "API_TOKEN"}}},
		{"(set -a; . /etc/worker.env; glovebox doctor)", [][]string{{"doctor"}}},
		{"seq 3 | glovebox submit - && glovebox get --json ID", [][]string{{"submit", "-"}, {"get", "--json", "ID"}}},
		{"glovebox tenant show a; glovebox audit", [][]string{{"tenant", "show", "a"}, {"audit"}}},
		{"ID=$(glovebox submit a.py)", [][]string{{"submit", "a.py"}}},
		{"GLOVEBOX_URL=http://x glovebox list", [][]string{{"list"}}},
		{"userdel glovebox", nil},
		{"glovebox-worker --help", nil},
	}
	for _, tt := range tests {
		got := docstest.Code{Text: tt.line}.Commands("glovebox")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.line, diff)
		}
	}
}

// TestFlagsOfScripts: a flag in a call of a script, or of the worker, occurs in its source.
// The flags of glovebox itself are looked at in cmd/glovebox.
func TestFlagsOfScripts(t *testing.T) {
	t.Parallel()
	sources := docstest.Files(t, func(path string) bool {
		handsOn := strings.HasSuffix(path, "podman.sh") || strings.HasSuffix(path, "podman-user.sh") // to podman, to a test
		return strings.HasPrefix(path, "infra/") && strings.HasSuffix(path, ".sh") && !handsOn || path == "cmd/glovebox-worker/run.go"
	})
	calls := 0
	for _, d := range docstest.Documents(t) {
		for _, code := range d.Code() {
			for name, source := range sources {
				program := name
				if !strings.HasSuffix(name, ".sh") {
					program = "glovebox-worker"
				}
				for _, call := range code.Commands(program) {
					calls++
					for _, word := range call {
						flag, _, _ := strings.Cut(word, "=")
						if strings.HasPrefix(flag, "--") && flag != "--" && !regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).MatchString(source) {
							t.Errorf("%s:%d: %s has no flag %s", d.Path, code.Line, program, flag)
						}
					}
				}
			}
		}
	}
	if calls < 10 {
		t.Errorf("found %d calls of scripts in the documents, want those of all", calls)
	}
}
