// Package policy decides by an operator's and a tenant's rules what becomes of a job: it runs, is refused, or waits until somebody
// approves it. docs/policy.md is for those who write rules.
package policy
