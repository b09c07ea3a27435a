package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// keepalive is how long nothing may be said: E2B's.
	keepalive = 5 * time.Second
	// lineTime is how long a client may take for one line.
	lineTime = 30 * time.Second
)

// execute has a sandbox execute code, and tells what comes of it in lines of JSON as it comes.
func execute(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	q, done, err := readHeld(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	e, in, env, err := prepareExecution(ctx, c, x, q)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	id, err := executeWith(ctx, c, x.ID, e, in, env)
	done() // an execution that is watched holds nothing of the body
	if err != nil {
		fail(w, r, c, executionFault(err))
		return
	}
	c.Host.Note(id)
	t := &telling{w: w, call: c, language: in, id: id}
	err = t.tell(ctx)
	if err == nil {
		return
	}
	// Nobody reads what comes of it now: an execution whose client leaves is interrupted, and its context works on.
	err = errors.Join(err, c.Abandon(ctx, id))
	if t.begun {
		t.lost(ctx, problemOf(r, c, err).Detail)
		return
	}
	fail(w, r, c, err)
}

// prepareExecution reads what is to be executed, in which language, and with what environment variables besides.
func prepareExecution(ctx context.Context, c *facade.Call, x job.Session, q request) (e job.SessionExecution, in string, env map[string]string, err error) {
	if e.Code, err = q.text("code"); err != nil {
		return e, in, nil, err
	}
	if !q.has("code") {
		return e, in, nil, facade.BadRequest("code is missing: want a string")
	}
	if e.Code == "" {
		e.Code = "\n" // nothing to execute, which is no error there
	}
	contextID, err := q.text("context_id")
	if err != nil {
		return e, in, nil, err
	}
	language, err := q.text("language")
	if err != nil {
		return e, in, nil, err
	}
	if contextID != "" && language != "" {
		return e, in, nil, facade.BadRequest("Only one of context_id or language can be provided")
	}
	if env, err = q.texts("env_vars"); err != nil {
		return e, in, nil, err
	}
	if in, err = place(ctx, c, x, &e, contextID, language); err != nil {
		return e, in, nil, err
	}
	if err := checkEnv(env, in, x.Limits.SourceKB<<10); err != nil {
		return e, in, nil, err
	}
	if in == "python" {
		e.Code = dedented(e.Code)
	}
	return e, in, env, nil
}

// executionFault names fields as requests do.
func executionFault(err error) error {
	var invalid job.Invalid
	if !errors.As(err, &invalid) || len(invalid) == 0 {
		return err
	}
	f := invalid[0]
	switch f.Field {
	case "context":
		f.Field = "context_id"
	case "env":
		f.Field = "env_vars"
	}
	return facade.BadRequest(f.Error())
}

// telling is an execution of which a client is told.
type telling struct {
	w        http.ResponseWriter
	call     *facade.Call
	language string
	id       string
	begun    bool // a line was sent
	stdout   output
	stderr   output
}

// tell follows the execution to its end.
func (t *telling) tell(ctx context.Context) error {
	for e, err := range t.call.Host.Watch(ctx, t.id, keepalive) {
		switch {
		case err != nil:
		case e.Type == "":
			err = t.line(message{Type: "keepalive"})
		case e.Type == producer.EventStatus && !t.begun:
			err = t.begin()
		case e.Type == producer.EventStdout:
			err = t.text("stdout", t.stdout.take(e))
		case e.Type == producer.EventStderr:
			err = t.text("stderr", t.stderr.take(e))
		case e.Type == producer.EventResult:
			return t.end(ctx, *e.Job.Result)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("watch execution %s: it has no end", t.id)
}

// message is a line of the answer, but those of results.
type message struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitempty"`
	Timestamp string  `json:"timestamp,omitempty"`
	Count     *int64  `json:"execution_count,omitempty"`
	Name      *string `json:"name,omitempty"`
	Value     *string `json:"value,omitempty"`
	Traceback *string `json:"traceback,omitempty"`
}

// begin sends the headers: clients wait for them no longer than for any answer.
func (t *telling) begin() error {
	t.begun = true
	h := t.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Accel-Buffering", "no") // what nginx would keep back
	control := http.NewResponseController(t.w)
	if err := control.SetWriteDeadline(time.Now().Add(lineTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	t.w.WriteHeader(http.StatusOK)
	return control.Flush()
}

// line sends a line of JSON.
func (t *telling) line(v any) error {
	b, err := job.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return t.answer(func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// answer sends a line as write writes it.
func (t *telling) answer(write func(io.Writer) error) error {
	if !t.begun {
		if err := t.begin(); err != nil {
			return err
		}
	}
	control := http.NewResponseController(t.w)
	if err := control.SetWriteDeadline(time.Now().Add(lineTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if err := write(t.w); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return control.Flush()
}

// text tells what was printed, if anything was.
func (t *telling) text(stream string, printed []byte) error {
	if len(printed) == 0 {
		return nil
	}
	text := facade.Valid(printed)
	return t.line(message{Type: stream, Text: &text, Timestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")})
}

// end tells what came of the execution.
func (t *telling) end(ctx context.Context, r job.Result) error {
	err := t.rest(ctx, r)
	if err == nil && r.Session != nil {
		err = t.line(message{Type: "number_of_executions", Count: &r.Session.Sequence})
	}
	if err == nil {
		err = t.results(ctx, r)
	}
	if name, value, traceback, failed := errorOf(r, t.language); err == nil && failed {
		err = t.line(message{Type: "error", Name: &name, Value: &value, Traceback: &traceback})
	}
	if err == nil {
		err = t.line(message{Type: "end_of_execution"})
	}
	return err
}

// unexpected is how E2B calls an execution that was lost with its context.
const unexpected = "UnexpectedEndOfExecution"

// lost tells that no more will be heard of the execution.
func (t *telling) lost(ctx context.Context, why string) {
	if ctx.Err() != nil {
		return // nor is there anybody to be told
	}
	name, none := unexpected, ""
	_ = t.line(message{Type: "error", Name: &name, Value: &why, Traceback: &none}) // the client may have left
	_ = t.line(message{Type: "end_of_execution"})
}

// errorOf is the error that ended an execution.
func errorOf(r job.Result, language string) (name, value, traceback string, failed bool) {
	why := ""
	if r.Error != nil {
		why = r.Error.Message
	}
	switch {
	case r.Status == job.Succeeded:
		return "", "", "", false
	case r.Status == job.TimedOut:
		return "TimeoutError", "the execution took longer than " + r.Limit + " allows", "", true
	case r.Status == job.OutputLimitExceeded:
		return "OutputLimitExceeded", "the execution printed more than " + r.Limit + " allows", "", true
	case r.Status == job.OutOfMemory:
		return "MemoryError", "the sandbox used more memory than it has", "", true
	case r.Exception != nil: // of what passed a limit it is that it was interrupted
		return r.Exception.Name, r.Exception.Value, r.Exception.Traceback, true
	case r.Status == job.Canceled && (r.Session == nil || r.Session.State == job.StateKept) && why == "":
		return "KeyboardInterrupt", "", "", true
	case r.Session != nil && r.Session.State == job.StateLost, r.Status != job.Failed, r.ExitCode == nil:
		return unexpected, why, "", true
	case language == "bash": // an exit code is no error there
		return "", "", "", false
	}
	return "SystemExit", fmt.Sprint(*r.ExitCode), "", true
}

// results tells what the execution showed.
func (t *telling) results(ctx context.Context, r job.Result) error {
	for _, shown := range r.Results {
		if err := t.result(ctx, r.ID, shown); err != nil {
			return err
		}
	}
	return nil
}

// result tells one. What it holds of an artifact is given back once it is sent.
func (t *telling) result(ctx context.Context, id string, shown job.Shown) error {
	giveBack := t.call.Host.Passing()
	defer giveBack()
	m := &room{left: mostShown, take: func(bytes int64) error { return t.call.Host.Hold(ctx, bytes) }}
	line, err := resultOf(shown, m, func(name string) ([]byte, error) { return t.artifact(ctx, id, name, m) })
	if err != nil {
		return err
	}
	return t.answer(func(w io.Writer) error {
		if err := line.write(w); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\n")
		return err
	})
}
