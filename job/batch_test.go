package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestBatchOptionsCheck(t *testing.T) {
	t.Parallel()
	for _, fine := range []job.BatchOptions{
		{},
		{IdempotencyKey: "import 2026-11-20/~", Metadata: map[string]string{"k": "v"}, Callback: &job.Callback{URL: "https://example.com/"}},
		{IdempotencyKey: strings.Repeat("k", job.MaxKeyBytes), Callback: &job.Callback{URL: "https://example.com/", Events: []string{job.EventBatchCompleted}}},
	} {
		if err := fine.Check(); err != nil {
			t.Errorf("%+v: got %v, want it accepted", fine, err)
		}
	}
	for field, wrong := range map[string]job.BatchOptions{
		"idempotency_key":    {IdempotencyKey: "ü"},
		"callback.url":       {Callback: &job.Callback{URL: "ftp://example.com"}},
		"callback.events[0]": {Callback: &job.Callback{URL: "https://example.com", Events: []string{job.EventCompleted}}},
		"metadata":           {Metadata: map[string]string{"": "v"}},
	} {
		var invalid job.Invalid
		if err := wrong.Check(); !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != field || invalid[0].Allowed == "" {
			t.Errorf("got %v, want only %s to be wrong", err, field)
		}
	}
	if err := (job.BatchOptions{IdempotencyKey: strings.Repeat("k", job.MaxKeyBytes+1)}).Check(); err == nil {
		t.Error("a key that is too long: got no error")
	}
}
