package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// auditLine is a line of the log that tells of an action.
type auditLine struct{ Msg, Action, Object, Outcome string }

// audited are those of the log so far.
func (w *world) audited() (lines []auditLine) {
	for text := range strings.Lines(w.log.String()) {
		var line auditLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "audit" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestToolsAudit: a program that a model runs is in the audit log, as one that was submitted otherwise.
func TestToolsAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.endNext(t, nil, nil)
	answer := w.call(t, "run_code", callHello)
	w.call(t, "get_job", `{"arguments":{"job_id":"`+answer.JobID+`"}}`)
	w.call(t, "run_code", strings.Replace(callHello, "python", "cobol", 1)) // is refused
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/tools/run_code", strings.NewReader(callHello), "Content-Type: application/json")
		left <- err
	}()
	id := w.queued(t)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gbtest.Eventually(t, "the log has all four requests", func() bool { return strings.Count(w.log.String(), "/v1/tools/") == 4 && len(w.audited()) >= 3 })
	var audited []string
	for _, entry := range w.audited() {
		audited = append(audited, strings.TrimSpace(fmt.Sprintln(entry.Action, entry.Outcome, entry.Object)))
	}
	slices.Sort(audited)
	want := []string{"job.submit ok " + answer.JobID, "job.submit ok " + id, "job.submit refused run_code"}
	slices.Sort(want)
	if !slices.Equal(audited, want) {
		t.Errorf("got %q, want %q", audited, want)
	}
}

// TestToolsAuditSession: a call that starts a session, executes in it and ends it has done three things, and each is in the audit log.
func TestToolsAuditSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, "/v1/tools/run_code", strings.NewReader(`{"arguments":{"language":"python","code":"1","session_id":"new"}}`), "Content-Type: application/json")
		left <- err
	}()
	id := w.queued(t)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	gbtest.Eventually(t, "the log has all", func() bool { return strings.Contains(w.log.String(), "/v1/tools/") && len(w.audited()) >= 3 })
	var audited, objects []string
	for _, entry := range w.audited() {
		audited, objects = append(audited, entry.Action+" "+entry.Outcome), append(objects, entry.Object)
	}
	if want := []string{"session.start ok", "job.submit ok", "session.end ok"}; !slices.Equal(audited, want) || objects[1] != id || objects[0] == "" || objects[0] != objects[2] {
		t.Errorf("got %q of %q, want %q", audited, objects, want)
	}
}
