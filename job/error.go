package job

import (
	"errors"
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

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e.Code == t.Code
}

func (e *Error) code() string { return e.Code }

// CodeOf returns the code of an [*Error], an [Invalid], a [*GoneError] or a [*WaitOverError],
// or of the first of these that err wraps; "" where it is none.
func CodeOf(err error) string {
	var coded interface {
		error
		code() string
	}
	if errors.As(err, &coded) {
		return coded.code()
	}
	return ""
}

// GoneError says that the job or batch that an idempotency key began is no longer kept.
// Nothing else is begun under the key before its 24 hours are over.
type GoneError struct {
	ID string // of the job or batch
}

func (e *GoneError) Error() string {
	return "the idempotency key is that of " + e.ID + ", which is no longer kept: what is new wants a new key"
}

func (e *GoneError) code() string { return CodeGone }

// WaitOverError says that a job had not ended when the time to wait for it was over. The job
// goes on.
type WaitOverError struct {
	ID string
}

func (e *WaitOverError) Error() string {
	return "the job " + e.ID + " has not ended yet: it goes on, and its result can be asked for by its id"
}

func (e *WaitOverError) code() string { return CodeWaitOver }

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

func (e Invalid) code() string { return CodeInvalid }

func outOfRange[T int64 | float64](field string, got, most T) FieldError {
	return FieldError{Field: field, Value: got, Message: "is out of range", Allowed: fmt.Sprintf("0 (the default) to %v", most)}
}
