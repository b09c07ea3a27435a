package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
)

// TestPolicyTestAliases: an alias of a runtime is judged as its name is, since the API replaces it before rules see a job.
func TestPolicyTestAliases(t *testing.T) {
	t.Parallel()
	documented := rulesOf(t, "../../docs/policy.md")
	checkers, err := policy.Parse("rules", []job.Rule{{Name: "checkers-in-python", When: "checker_runtime == 'python'", Then: job.RuleDeny}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		policy  policy.Policy
		spec    string
		verdict string
	}{
		"the name":               {documented, `{"runtime": "python", "source": "import subprocess"}`, job.RuleHold},
		"a short alias":          {documented, `{"runtime": "py", "source": "import subprocess"}`, job.RuleHold},
		"a long alias":           {documented, `{"runtime": "python3", "source": "import subprocess"}`, job.RuleHold},
		"an alias, harmless":     {documented, `{"runtime": "py", "source": "import json"}`, "allow"},
		"another runtime":        {documented, `{"runtime": "js", "source": "subprocess"}`, "allow"},
		"a runtime of no name":   {documented, `{"runtime": "mine", "source": "subprocess"}`, "allow"},
		"an alias for a checker": {checkers, `{"runtime": "c", "source": "1", "checker": {"kind": "kattis", "program": {"runtime": "py", "source": "1"}}}`, job.RuleDeny},
	} {
		file := filepath.Join(t.TempDir(), "job.json")
		if err := os.WriteFile(file, []byte(c.spec), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (&app{}).tryPolicy(c.policy, file, policy.Subject{Kind: policy.KindJob})
		if err != nil || got.Verdict != c.verdict {
			t.Errorf("%s: got %+v, %v, want %s", name, got, err, c.verdict)
		}
	}
}

// rulesOf reads the rules that a document shows first.
func rulesOf(t *testing.T, document string) policy.Policy {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	rules, _, _ := strings.Cut(rest, "```")
	p, err := policy.ParseFile([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
