package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestReportOfAnInterruption: who interrupts a command is told what that leaves, if it leaves something, and nothing else.
func TestReportOfAnInterruption(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("list jobs: %w", context.Canceled), ""},
		{&failure{exitFailed, fmt.Errorf("restore x: %w", context.Canceled), "nothing is whole now"}, "nothing is whole now"},
	} {
		var said bytes.Buffer
		a := &app{stderr: &said, entered: true}
		if code := a.report(ctx, tt.err); code != exitInterrupted || !strings.Contains(said.String(), tt.want) || tt.want == "" && said.Len() > 0 {
			t.Errorf("%v: got %d, %q, want %d with %q", tt.err, code, said.String(), exitInterrupted, tt.want)
		}
	}
}
