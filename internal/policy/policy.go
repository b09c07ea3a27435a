package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/internal/expression"
	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
)

// maxCost bounds what all rules together may calculate about one job, in CEL's units: to look for a word in 1 MiB of source takes some
// 100,000. Where they would take more, the job is refused.
const maxCost = 5_000_000

// maxFile bounds an operator's file of rules: [job.MaxRules] of the largest, and comments.
const maxFile = 1 << 20

// Policy is a list of rules. The zero value lets all pass.
type Policy struct{ rules []rule }

type rule struct {
	job.Rule

	condition expression.Condition
}

// Parse reads rules. It fails with [job.Invalid]; field is what holds them.
func Parse(field string, rules []job.Rule) (Policy, error) {
	errs := job.CheckRules(field, rules)
	var p Policy
	for i, r := range rules {
		condition, err := expression.Parse(r.When, maxCost, declared...)
		if err != nil {
			errs = append(errs, job.FieldError{Field: fmt.Sprintf("%s[%d].when", field, i), Value: job.Clip(r.When, 120), Message: err.Error(), Allowed: "a CEL expression of type bool, over the variables of docs/policy.md"})
		}
		p.rules = append(p.rules, rule{r, condition})
	}
	if len(errs) > 0 {
		return Policy{}, errs
	}
	return p, nil
}

// Rules reads the rules of a file, {"policy": […]} as YAML or JSON. [Parse] says whether they are right.
func Rules(b []byte) ([]job.Rule, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("the file has %d bytes, and up to %d are read", len(b), maxFile)
	}
	asJSON, err := strictjson.FromYAML(b, maxFile)
	if err != nil {
		return nil, fmt.Errorf("no list of rules under policy: %w", err)
	}
	file, err := strictjson.Decode[struct {
		Policy *[]job.Rule `json:"policy"`
	}](asJSON, "the file")
	if err != nil {
		return nil, fmt.Errorf("no list of rules under policy: %w", err)
	}
	if file.Policy == nil { // an empty file is a mistake more often than a wish
		return nil, errors.New("no list of rules under policy: policy: [] is none")
	}
	return *file.Policy, nil
}

// ParseFile is [Parse] of the rules of a file.
func ParseFile(b []byte) (Policy, error) {
	rules, err := Rules(b)
	if err != nil {
		return Policy{}, err
	}
	return Parse("policy", rules)
}

// Verdict is what becomes of a job.
type Verdict struct {
	// Rule that decided; its name is "" where none matched, and the job runs.
	Rule job.Rule
	// Fault is why the rule could not be evaluated, or nil: it refuses what it can't judge.
	Fault error
}

// Denied is why the job is refused, or nil.
func (v Verdict) Denied() error {
	switch {
	case v.Fault != nil:
		return &job.Error{Code: job.CodeDenied, Message: fmt.Sprintf("the rule %s could not judge it, so it is refused: %v", v.Rule.Name, v.Fault)}
	case v.Rule.Then != job.RuleDeny:
		return nil
	case v.Rule.Message == "":
		return &job.Error{Code: job.CodeDenied, Message: fmt.Sprintf("the rule %s denies it", v.Rule.Name)}
	}
	return &job.Error{Code: job.CodeDenied, Message: fmt.Sprintf("the rule %s denies it: %s", v.Rule.Name, v.Rule.Message)}
}

// Held reports whether the job is to wait for a decision.
func (v Verdict) Held() bool { return v.Fault == nil && v.Rule.Then == job.RuleHold }

// Decide finds the first rule that matches, of the operator's and then of the tenant's.
func Decide(s Subject, policies ...Policy) Verdict {
	v := decide(s, policies)
	if s.Around == nil || v.Denied() != nil {
		return v
	}
	s.Spec.Callback = s.Around
	if around := decide(s, policies); around.Denied() != nil || !v.Held() {
		return around
	}
	return v
}

func decide(s Subject, policies []Policy) Verdict {
	var known map[string]any
	var spent uint64
	for _, p := range policies {
		for _, r := range p.rules {
			if (s.Kind == KindSession || s.Opens) && r.Then == job.RuleHold {
				continue // nothing is executed yet: each execution and each job is judged
			}
			if s.Opens && !slices.Contains(r.condition.Names, callbackHost) {
				continue // it would judge a job without a program
			}
			if known == nil {
				known = s.known()
			}
			matches, cost, err := r.condition.Holds(known)
			if spent += cost; err == nil && spent > maxCost {
				err = errors.New("the rules calculate for too long about this job")
			}
			if err != nil {
				return Verdict{Rule: r.Rule, Fault: errors.New(job.Clip(err.Error(), 200))}
			}
			if matches {
				return Verdict{Rule: r.Rule}
			}
		}
	}
	return Verdict{}
}

// Empty reports whether there is no rule.
func (p Policy) Empty() bool { return len(p.rules) == 0 }
