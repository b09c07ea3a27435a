package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/backup"
	"github.com/glovebox-run/glovebox/job"
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

// TestNotRestored: a restore that failed says whether anything was deleted, and which server a backup wants.
func TestNotRestored(t *testing.T) {
	t.Parallel()
	head := backup.Head{Redis: "7.2.4", Valkey: "9.0.5"}
	for _, tt := range []struct {
		err   error
		begun bool
		want  string
	}{
		{io.ErrUnexpectedEOF, true, "restore again with --replace, before you start an api"},
		{backup.ErrRunning, true, "nothing is whole now: stop that"},
		{backup.ErrRunning, false, "stop them first"},
		{backup.ErrOlder, false, "nothing was deleted: the backup is from Valkey 9.0.5"},
		{backup.ErrFull, false, "nothing was deleted: redis-cli CONFIG SET maxmemory"},
		{io.ErrUnexpectedEOF, false, "nothing was deleted"},
	} {
		f, ok := errors.AsType[*failure](notRestored("x.tar", tt.err, head, tt.begun))
		if !ok || !errors.Is(f, tt.err) || !strings.Contains(f.hint, tt.want) {
			t.Errorf("%v, begun %t: got %+v, want %q", tt.err, tt.begun, f, tt.want)
		}
	}
}

// TestExitCodes: what was refused for good is not what a script may try again.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		job.CodeInvalid: exitUsage, job.CodeNotFound: exitFailed, job.CodeSessionEnded: exitFailed, job.CodeSessionBusy: exitFailed, job.CodeNoFile: exitFailed,
		job.CodeUnforkable: exitFailed, job.CodeGenerationChanged: exitFailed, job.CodeConflict: exitFailed, job.CodeNoSchedule: exitFailed,
		job.CodeNoEndpoint: exitFailed, job.CodeUnavailable: exitGlovebox, job.CodeUnauthorized: exitGlovebox,
	} {
		if got := (&app{entered: true}).classify(&job.Error{Code: code, Message: "said"}).code; got != want {
			t.Errorf("%s: got exit code %d, want %d", code, got, want)
		}
	}
}
