package job

import (
	"fmt"
	"strings"
)

// Error says in words why a job or a request came to nothing.
type Error struct {
	// Code is a stable word to decide by: "invalid", "worker_lost", "unavailable"…
	Code string `json:"code"`
	// Message is for people.
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// CodeDeadlineExceeded is the code of the Error of a job that had not ended by its deadline.
const CodeDeadlineExceeded = "deadline_exceeded"

// CodeTenantStopped is the code of the Error of a job that the operator stopped, with all
// others of its tenant.
const CodeTenantStopped = "tenant_stopped"

// FieldError says which field of a request is wrong, what it held and what is allowed.
type FieldError struct {
	Field   string `json:"field"`
	Value   any    `json:"value,omitempty"`
	Message string `json:"message"`
	Allowed string `json:"allowed,omitempty"`
}

func (e FieldError) Error() string {
	s := e.Field + ": " + e.Message
	if e.Value != nil {
		s += fmt.Sprintf(" (got %v)", e.Value)
	}
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// Invalid is every fault of one request.
type Invalid []FieldError

func (e Invalid) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

func outOfRange[T int64 | float64](field string, got, most T) FieldError {
	return FieldError{Field: field, Value: got, Message: "is out of range", Allowed: fmt.Sprintf("0 (the default) to %v", most)}
}
