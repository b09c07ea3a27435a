package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestAccount: who reads an output on a terminal is told that it is not all of it.
func TestAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result job.Result
		want   string
	}{
		{job.Result{Status: job.Succeeded}, ""},
		{job.Result{Status: job.Succeeded, StdoutTruncated: true}, "  standard output was cut at output_kb\n"},
		{job.Result{Status: job.OutputLimitExceeded, StderrTruncated: true}, "  standard error was cut at output_kb\n"},
	} {
		var out bytes.Buffer
		account(&out, c.result, nil)
		if _, rest, _ := strings.Cut(out.String(), "\n"); rest != c.want {
			t.Errorf("%+v: got %q, want %q below the first line", c.result, out.String(), c.want)
		}
	}
}
