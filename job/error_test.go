package job_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func ExampleCodeOf() {
	err := fmt.Errorf("read job: %w", &job.Error{Code: job.CodeNotFound, Message: "there is no job of that id"})
	fmt.Println(job.CodeOf(err), errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrEnded))
	// Output: not_found true false
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"":                job.FieldError{Field: "runtime"},
		job.CodeInvalid:   fmt.Errorf("submit: %w", job.Invalid{{Field: "runtime"}}),
		job.CodeGone:      fmt.Errorf("submit: %w", &job.GoneError{ID: "x"}),
		job.CodeRevision:  errors.Join(errors.New("other"), job.ErrRevision),
		job.CodeForbidden: &job.Error{Code: job.CodeForbidden},
	} {
		if got := job.CodeOf(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	if got := job.CodeOf(nil); got != "" {
		t.Errorf("no error: got %q", got)
	}
}

// Codes tell errors apart, whatever their messages are.
func TestErrorIs(t *testing.T) {
	t.Parallel()
	said := fmt.Errorf("the API: %w", &job.Error{Code: job.CodeEnded, Message: "another text"})
	if !errors.Is(said, job.ErrEnded) || errors.Is(said, job.ErrNotEnded) || errors.Is(said, errors.New("another text")) {
		t.Errorf("%v: want that it is ErrEnded, and nothing else", said)
	}
}
