package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try rules that refuse jobs, or hold them until somebody approves",
		Long: `Try rules that refuse jobs, or hold them until somebody approves them. A file of rules is
YAML or JSON, {"policy": [{"name", "when", "then", "message", "hold_seconds"}]}: the first
one whose CEL expression "when" is true of a job decides, "then" is deny or hold, and a job
that none matches runs. A rule that can't judge a job refuses it.

The api reads the operator's rules from the file that GLOVEBOX_POLICY names; those of a
tenant come after them: glovebox tenant update NAME --policy FILE. docs/policy.md has all
variables that rules may name.`,
		Example: `  glovebox policy test rules.yaml job.json
  GLOVEBOX_POLICY=rules.yaml glovebox dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyTestCommand())
	return cmd
}

// policyTest is a job, and what rules say of it.
type policyTest struct {
	Job     string `json:"job"`
	Verdict string `json:"verdict"` // allow, deny or hold
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message,omitempty"`
}

func (a *app) policyTestCommand() *cobra.Command {
	var expect, kind, tenant, token string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test RULES JOB…",
		Short: "Say which rule decides about jobs",
		Long: `Say which rule decides about jobs, each a file of JSON as POST /v1/jobs takes it, or - for
standard input. Nothing is sent anywhere. Limits that a job doesn't name are the defaults, and
an alias of a runtime stands for its name, as in the API.

With --expect, the exit status is 1 where a job meets another verdict.`,
		Example: `  glovebox policy test rules.yaml job.json
  glovebox policy test rules.yaml bad/*.json --expect deny
  echo '{"runtime": "python", "source": "import socket"}' | glovebox policy test rules.yaml - --kind execution`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			if expect != "" && expect != "allow" && expect != job.RuleDeny && expect != job.RuleHold {
				return usagef("--expect %q: want allow, deny or hold", expect)
			}
			text, err := a.read(args[0])
			if err != nil {
				return err
			}
			p, err := policy.ParseFile(text)
			if err != nil {
				return usagef("%s: %s", args[0], err)
			}
			tests := make([]policyTest, len(args)-1)
			for i, path := range args[1:] {
				if tests[i], err = a.tryPolicy(p, path, policy.Subject{Kind: kind, Tenant: tenant, Token: token}); err != nil {
					return err
				}
			}
			if err := a.printPolicyTests(tests, asJSON); err != nil {
				return err
			}
			for _, t := range tests {
				if expect != "" && t.Verdict != expect {
					return &failure{code: exitFailed, err: fmt.Errorf("%s: %s, want %s", t.Job, t.Verdict, expect)}
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&expect, "expect", "", "fail unless the `VERDICT` is allow, deny or hold")
	f.StringVar(&kind, "kind", policy.KindJob, "what is submitted: `KIND` job, batch, pipeline, session or execution")
	f.StringVar(&tenant, "tenant", "default", "the `TENANT` that submits it")
	f.StringVar(&token, "token-label", "", "the `LABEL` of the token that submits it")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// tryPolicy judges the job in a file.
func (a *app) tryPolicy(p policy.Policy, path string, s policy.Subject) (policyTest, error) {
	text, err := a.read(path)
	if err != nil {
		return policyTest{}, err
	}
	if s.Spec, err = strictjson.Decode[job.Spec](text, "the job"); err != nil {
		return policyTest{}, usagef("%s: %s", path, err)
	}
	if err := ownNames(&s.Spec); err != nil {
		return policyTest{}, err
	}
	s.Limits = s.Spec.Limits.Or(job.DefaultLimits)
	v := policy.Decide(s, p)
	t := policyTest{Job: path, Verdict: "allow", Rule: v.Rule.Name, Message: v.Rule.Message}
	switch {
	case v.Denied() != nil:
		t.Verdict, t.Message = job.RuleDeny, v.Denied().Error()
	case v.Held():
		t.Verdict = job.RuleHold
	}
	return t, nil
}

// ownNames replaces aliases of runtimes by their names: the API does so before rules see a job.
func ownNames(spec *job.Spec) error {
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	names := []*string{&spec.Runtime}
	if program := spec.CheckerProgram(); program != nil {
		names = append(names, &program.Runtime)
	}
	for _, name := range names {
		if r, ok := set.Lookup(*name); ok {
			*name = r.Name
		}
	}
	return nil
}

func (a *app) printPolicyTests(tests []policyTest, asJSON bool) error {
	if asJSON {
		return a.printJSON(tests)
	}
	w := a.table()
	fmt.Fprintln(w, "JOB\tVERDICT\tRULE\tMESSAGE")
	for _, t := range tests {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(t.Job), t.Verdict, plain(t.Rule), plain(t.Message))
	}
	return w.Flush()
}
