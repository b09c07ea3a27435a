package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of rules.
const (
	MaxRules            = 64 // of an operator, and of a tenant
	MaxRuleWhenBytes    = 4096
	MaxRuleMessageBytes = 512
	// DefaultHold is for how long a job waits for a decision, and MaxHold for how long it may.
	DefaultHold = 24 * time.Hour
	MaxHold     = 30 * 24 * time.Hour
	// MaxNoteBytes bounds what is said with a decision.
	MaxNoteBytes = 1024
)

// What a [Rule] does with what it matches.
const (
	RuleDeny = "deny" // it is refused
	RuleHold = "hold" // it waits until somebody approves it
)

// Rule is a rule of a policy: jobs that When is true of are refused, or wait for a decision.
type Rule struct {
	Name string `json:"name" doc:"What it is called: 1 to 64 of a-z, 0-9 and -." example:"no-raw-images"`
	// When is a CEL expression over what internal/policy names.
	When string `json:"when" doc:"A CEL expression of type bool over source, files, runtime, image, limits and more: docs/policy.md has all of them. An error in it refuses the job." example:"image != '' && !image.startsWith('registry.example.com/')"`
	Then string `json:"then" enum:"deny,hold" doc:"deny refuses it; hold has it wait until somebody approves it."`
	// Message is told to whoever submitted it.
	Message string `json:"message,omitempty" doc:"Told to whoever submitted it."`
	// HoldSeconds is for how long it waits; 0 means [DefaultHold].
	HoldSeconds int64 `json:"hold_seconds,omitempty" minimum:"0" doc:"With hold: for how long it waits for a decision before it ends as canceled; 0 means 86400, the most is 2592000."`
}

// Hold is for how long the rule has a job wait.
func (r Rule) Hold() time.Duration {
	if r.HoldSeconds == 0 {
		return DefaultHold
	}
	return time.Duration(r.HoldSeconds) * time.Second
}

// CheckRules returns what is wrong with rules, except for their expressions. field is what holds them.
func CheckRules(field string, rules []Rule) Invalid {
	if len(rules) > MaxRules {
		return Invalid{{field, len(rules), "has too many rules", fmt.Sprintf("0 to %d", MaxRules)}}
	}
	var errs Invalid
	for i, r := range rules {
		add := func(name string, value any, message, allowed string) {
			errs = append(errs, FieldError{fmt.Sprintf("%s[%d].%s", field, i, name), value, message, allowed})
		}
		if r.Name == "" || len(r.Name) > 64 || strings.Trim(r.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			add("name", clip(r.Name), "is not valid", "1 to 64 of a-z, 0-9 and -")
		} else if slices.ContainsFunc(rules[:i], func(before Rule) bool { return before.Name == r.Name }) {
			add("name", r.Name, "appears more than once", "each name once")
		}
		if r.When == "" || len(r.When) > MaxRuleWhenBytes {
			add("when", clip(r.When), "is empty or too long", fmt.Sprintf("a CEL expression of 1 to %d bytes", MaxRuleWhenBytes))
		}
		if r.Then != RuleDeny && r.Then != RuleHold {
			add("then", clip(r.Then), "is not known", "deny, hold")
		}
		if len(r.Message) > MaxRuleMessageBytes || !utf8.ValidString(r.Message) {
			add("message", clip(r.Message), "is too long, or no UTF-8", fmt.Sprintf("up to %d bytes", MaxRuleMessageBytes))
		}
		most := int64(MaxHold / time.Second)
		if r.HoldSeconds < 0 || r.HoldSeconds > most || r.HoldSeconds > 0 && r.Then == RuleDeny {
			add("hold_seconds", r.HoldSeconds, "is out of range", fmt.Sprintf("0 (%d) to %d, and only with then: hold", int64(DefaultHold/time.Second), most))
		}
	}
	return errs
}

// Hold says of a job that is [Held] why, and what is to be decided.
type Hold struct {
	Rule      string    `json:"rule" doc:"The name of the rule that holds it."`
	Message   string    `json:"message,omitempty"`
	ExpiresAt time.Time `json:"expires_at" doc:"Without a decision by then it ends as canceled, with error.code approval_expired."`
	// InputHash names what is decided about: a decision that names another is refused.
	InputHash string `json:"input_hash" doc:"The SHA-256, in hex, of the job as it will run. A decision names it."`
}

// Approval is who decided that a job which was held may run.
type Approval struct {
	Rule      string    `json:"rule"`
	By        string    `json:"by" doc:"The token whose holder approved: its id, and its label if it has one."`
	At        time.Time `json:"at"`
	Note      string    `json:"note,omitempty"`
	InputHash string    `json:"input_hash" doc:"The SHA-256, in hex, of the job as it was approved."`
}

// Decision is what somebody decides about a job that is held.
type Decision struct {
	InputHash string `json:"input_hash" doc:"The input_hash that was shown with the job: nothing else is decided about."`
	Note      string `json:"note,omitempty" doc:"Kept with the job, up to 1024 bytes."`
}

// Check returns what is wrong with the decision as [Invalid], or nil.
func (d Decision) Check() error {
	if len(d.InputHash) != 64 || strings.Trim(d.InputHash, "0123456789abcdef") != "" {
		return Invalid{{"input_hash", clip(d.InputHash), "is not valid", "the input_hash of the job, 64 hexadecimal digits: GET /v1/approvals/{id} shows it with what is to be decided about"}}
	}
	if len(d.Note) > MaxNoteBytes || !utf8.ValidString(d.Note) {
		return Invalid{{"note", clip(d.Note), "is too long, or no UTF-8", fmt.Sprintf("up to %d bytes", MaxNoteBytes)}}
	}
	return nil
}

// Pending is a job that waits for a decision, as its approver sees it.
type Pending struct {
	Summary

	// Spec is what will run; nil in a list. Values of secrets are not in it.
	Spec *Spec `json:"spec,omitempty" doc:"What will run, once it is approved. Absent in a list."`
	// Context and Language are where in its session an execution will run; "" is main, and the runtime's own.
	Context  string `json:"context,omitempty" doc:"Whose interpreter of the session will execute it; absent for main."`
	Language string `json:"language,omitempty" doc:"That context's; absent for main."`
	// Session that it is an execution of, or "".
	Session string `json:"session,omitempty" doc:"The session that it is an execution of, if it is one: what that executed before can change what this does."`
}
