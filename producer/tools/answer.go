package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// What an answer may hold, so that it leaves a model room to think.
const (
	// maxStdout, maxStderr and maxCompile bound what is told of a stream, in bytes: its beginning
	// and its end, where tracebacks are.
	maxStdout, maxStderr, maxCompile = 12_000, 6_000, 2_000
	// maxValue bounds a value, and an exception without its traceback.
	maxValue = 2_000
)

// Answer is what a tool answers.
type Answer struct {
	// Content is for the model: text first, then images and links.
	Content []Content `json:"content"`
	// IsError: the program did not succeed, or the call could not be done.
	IsError bool   `json:"is_error"`
	JobID   string `json:"job_id,omitempty"`
	// SessionID is the session that executed the program; "" for none.
	SessionID string `json:"session_id,omitempty"`
	// Outcome is the same for programs; nil if there is no job.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Content is one piece of an answer.
type Content struct {
	// Type is "text", "image" or "link".
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// Data is the bytes of an image, MediaType what they are. A link has a MediaType, too.
	Data      []byte `json:"data,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Name      string `json:"name,omitempty"`
	Size      int64  `json:"size,omitempty"`
	URL       string `json:"url,omitempty"`
}

// Outcome is what a job came to, as far as a tool tells it.
type Outcome struct {
	JobID     string     `json:"job_id"`
	Status    job.Status `json:"status"`
	ExitCode  *int       `json:"exit_code"`
	Stdout    string     `json:"stdout"`
	Stderr    string     `json:"stderr"`
	Artifacts []Artifact `json:"artifacts"`
	Error     string     `json:"error,omitempty"`
	// Value is that of the last expression as text, in a session. Exception is the name of what ended the program there, and what it says.
	Value     string `json:"value,omitempty"`
	Exception string `json:"exception,omitempty"`

	SessionID string `json:"session_id,omitempty"`
	State     string `json:"state,omitempty"` // of the session: job.StateKept or job.StateLost
}

// Artifact is a file that the program made.
type Artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	URL       string `json:"url,omitempty"`
}

// answer tells what a job came to, or that it goes on.
func (c Caller) answer(ctx context.Context, j producer.Job) Answer {
	if !j.Ended() {
		return unfinished(j, nil)
	}
	r := j.Result
	o := &Outcome{
		JobID: r.ID, Status: r.Status, ExitCode: r.ExitCode, Artifacts: []Artifact{},
		Stdout: c.stream(ctx, r.ID, producer.Stdout, r.Stdout, r.StdoutURL, maxStdout), Stderr: c.stream(ctx, r.ID, producer.Stderr, r.Stderr, r.StderrURL, maxStderr),
	}
	if r.Error != nil {
		o.Error = r.Error.Message
	}
	for _, x := range r.Results {
		if x.Kind == job.ShownValue {
			o.Value = cut(x.Data["text/plain"].Text, maxValue)
		}
	}
	if e := r.Exception; e != nil {
		o.Exception = cut(strings.TrimSuffix(e.Name+": "+e.Value, ": "), maxValue)
	}
	a := Answer{JobID: r.ID, IsError: r.Status != job.Succeeded, Outcome: o}
	images := 0
	for _, f := range r.Artifacts {
		o.Artifacts = append(o.Artifacts, Artifact{f.Name, f.MediaType, f.Size, f.URL})
		if images < maxImages && isImage(f) {
			if b, err := c.readImage(ctx, r.ID, f); err == nil { // else the link is there
				images++
				a.Content = append(a.Content, Content{Type: "image", Data: b, MediaType: f.MediaType, Name: f.Name})
			}
		}
		if f.URL != "" {
			a.Content = append(a.Content, Content{Type: "link", Name: f.Name, MediaType: f.MediaType, Size: f.Size, URL: f.URL})
		}
	}
	a.Content = append([]Content{{Type: "text", Text: describe(r, o)}}, a.Content...)
	return a
}

// describe says in words what a job came to.
func describe(r *job.Result, o *Outcome) string {
	var b strings.Builder
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s:\n%s\n", title, strings.TrimRight(text, "\n"))
		}
	}
	fmt.Fprintf(&b, "status: %s", r.Status)
	if r.ExitCode != nil {
		fmt.Fprintf(&b, ", exit code %d", *r.ExitCode)
	}
	b.WriteByte('\n')
	section("error", o.Error)
	if r.Compile != nil && (r.Status != job.Succeeded || o.Stdout == "") {
		section("compiler", cut(r.Compile.Output, maxCompile))
	}
	section("stdout", o.Stdout)
	if r.StdoutURL != "" {
		section("all of stdout", r.StdoutURL)
	}
	if !strings.HasSuffix(strings.TrimRight(r.Stdout, "\n"), o.Value) { // it was not printed
		section("value", o.Value)
	}
	section("stderr", o.Stderr)
	if e := r.Exception; e != nil && !strings.Contains(r.Stderr, e.Traceback) {
		section("traceback", cut(e.Traceback, maxStderr))
	}
	if r.StderrURL != "" {
		section("all of stderr", r.StderrURL)
	}
	if len(o.Artifacts) > 0 {
		b.WriteString("files:\n")
		for _, f := range o.Artifacts {
			fmt.Fprintf(&b, "- %s (%s, %d bytes)\n", f.Name, f.MediaType, f.Size)
		}
	}
	if r.ArtifactsSkippedTotal > 0 {
		fmt.Fprintf(&b, "files that were not kept: %d\n", r.ArtifactsSkippedTotal)
		for _, f := range r.ArtifactsSkipped {
			fmt.Fprintf(&b, "- %s: %s\n", f.Name, f.Reason)
		}
	}
	fmt.Fprintf(&b, "job_id: %s\n", r.ID)
	return b.String()
}

// unfinished says that a job goes on. why, if any, is what kept its end from being known.
func unfinished(j producer.Job, why error) Answer {
	text := fmt.Sprintf("The program has not ended yet (status %s). Call get_job with job_id %q and wait_seconds to get its result.\n", j.Status, j.ID)
	if j.Status == job.Held && j.Hold != nil {
		text = fmt.Sprintf("The program waits for a person: the rule %s holds it until somebody approves it, until %s at the latest. %s\nDo not submit it again. Call get_job with job_id %q later to see what became of it.\n", j.Hold.Rule, j.Hold.ExpiresAt.Format(time.RFC3339), j.Hold.Message, j.ID)
	}
	if why != nil {
		what, _ := said(why)
		text = fmt.Sprintf("The program was accepted, but its end could not be awaited: %s.\n", what) + text
	}
	return Answer{
		JobID: j.ID, IsError: why != nil, Content: []Content{{Type: "text", Text: text}},
		Outcome: &Outcome{JobID: j.ID, Status: j.Status, Artifacts: []Artifact{}},
	}
}

// failed is the answer to a call that could not be done.
func failed(err error) Answer {
	text, _ := said(err)
	return Answer{IsError: true, Content: []Content{{Type: "text", Text: text + "\n"}}}
}

// maxFaults bounds how many faults of one call are told.
const maxFaults = 32

// argumentNames are what a model calls the fields of a spec.
var argumentNames = map[string]string{"runtime": "language", "source": "code", "limits.wall_ms": "timeout_ms", "wall_ms": "timeout_ms"}

// said is an error in words for a model: what the tenant may know of it, and how to mend it. It is
// not known where that is nothing.
func said(err error) (text string, known bool) {
	var argument argumentError
	var refused *job.Error
	var invalid job.Invalid
	switch {
	case errors.As(err, &invalid):
		var b strings.Builder
		for _, f := range invalid[:min(len(invalid), maxFaults)] {
			fmt.Fprintf(&b, "%s: %s", cmp.Or(argumentNames[f.Field], f.Field), f.Message)
			if f.Allowed != "" {
				fmt.Fprintf(&b, "; allowed: %s", f.Allowed)
			}
			b.WriteByte('\n')
		}
		return strings.TrimSuffix(b.String(), "\n"), true
	case errors.As(err, &argument):
		return argument.Error(), true
	case errors.As(err, &refused) && refused.Code != job.CodeInternal && refused.Code != job.CodeUnavailable:
		return refused.Message, true
	}
	return "Glovebox could not do it just now: try again in a moment", false
}
