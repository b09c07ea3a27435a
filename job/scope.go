package job

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is a part of what a tenant may do, which a token can be narrowed to.
type Scope string

// The scopes. None includes another.
const (
	// ScopeSubmit is to make jobs, batches and uploads, with the result of one's own request
	// (Prefer: wait), and to cancel.
	ScopeSubmit Scope = "submit"
	// ScopeRead is to see jobs, what they print, their files, and what is delivered. A job
	// that names another's artifact as a file needs it, too.
	ScopeRead Scope = "read"
	// ScopeApprove is to see and decide what a rule holds, except for what was submitted with the same token.
	ScopeApprove Scope = "approve"
	// ScopeManage is to change what is not a job: secrets and webhooks' secrets; to have
	// messages sent again; and to purge.
	ScopeManage Scope = "manage"
)

// Scopes lists all of them.
func Scopes() []Scope { return []Scope{ScopeSubmit, ScopeRead, ScopeApprove, ScopeManage} }

// CheckScopes returns what is wrong with a token's scopes as [Invalid], or nil. None is
// as good as all.
func CheckScopes(scopes []Scope) error {
	for i, scope := range scopes {
		field := FieldError{Field: fmt.Sprintf("scopes[%d]", i), Value: clip(string(scope))}
		switch {
		case !slices.Contains(Scopes(), scope):
			field.Message, field.Allowed = "is not known", JoinScopes(Scopes())
		case slices.Contains(scopes[:i], scope):
			field.Message, field.Allowed = "appears more than once", "each scope once"
		default:
			continue
		}
		return Invalid{field}
	}
	return nil
}

// JoinScopes lists scopes for people: "submit, read".
func JoinScopes(scopes []Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}
