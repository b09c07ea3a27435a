package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// newSession is the session_id that starts a session.
const newSession = "new"

// runInSession has a session execute code, and answers what came of it.
func runInSession(ctx context.Context, c Caller, in runCodeArguments) (Answer, error) {
	switch {
	case in.Stdin != "":
		return Answer{}, argumentError("stdin: a session has none; put what is to be read into the code, or into a file that it writes")
	case in.SessionID == newSession && in.Language == "":
		return Answer{}, argumentError("language: is missing; a new session needs it")
	}
	starting, done := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer done()
	id := in.SessionID
	if id != newSession && in.Language != "" {
		if err := c.executes(starting, id, in.Language); err != nil {
			return Answer{}, err
		}
	}
	if id == newSession {
		x, err := c.Glovebox.StartSession(starting, job.SessionSettings{
			Runtime: in.Language, Limits: job.Limits{WallMS: in.TimeoutMS}, Metadata: map[string]string{"tool": RunCode}, IdempotencyKey: c.key(),
		})
		if err != nil {
			return Answer{}, err
		}
		id = x.ID
	}
	j, err := c.Glovebox.ExecuteInSession(starting, id, job.SessionExecution{
		Code: in.Code, Files: in.files(), WallMS: in.TimeoutMS, Metadata: map[string]string{"tool": RunCode}, IdempotencyKey: c.key(),
	})
	if err != nil {
		c.dropNew(ctx, in, id)
		return Answer{}, err
	}
	ended, err := c.await(ctx, j)
	if ctx.Err() != nil { // nobody is left to read the answer, nor to know of a new session
		c.stop(ctx, j.ID, in, id)
		return Answer{}, ctx.Err()
	}
	if err != nil {
		c.report(err)
		return inSession(unfinished(j, err), id, nil), nil
	}
	return inSession(c.answer(ctx, ended), id, ended.Result), nil
}

// executes fails unless the session executes that language. Code may be valid in two languages, and mean something else in each.
func (c Caller) executes(ctx context.Context, id, language string) error {
	x, err := c.Glovebox.Session(ctx, id)
	if err != nil || x.Runtime == language {
		return err
	}
	runtimes, err := c.Glovebox.Runtimes(ctx)
	if err != nil && !errors.Is(err, job.ErrNoRuntimes) {
		return err
	}
	for _, r := range runtimes {
		names := append([]string{r.Name}, r.Aliases...)
		if slices.Contains(names, x.Runtime) && slices.Contains(append(names, r.Languages[:min(len(r.Languages), 1)]...), language) {
			return nil
		}
	}
	return argumentError(fmt.Sprintf("language: this session executes %s; leave it out, or start another with session_id \"new\"", x.Runtime))
}

// stopPatience is how long an interpreter may take to end what its caller has cancelled, before it is ended with its state. A sandbox
// interrupts it a second time after one second, and would kill it after three; whoever cancels wants an end within two.
const stopPatience = 1200 * time.Millisecond

// stop ends an execution that nobody waits for any more: with its interpreter, if that doesn't end it in time.
func (c Caller) stop(ctx context.Context, execution string, in runCodeArguments, session string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer done()
	if in.SessionID == newSession {
		c.dropNew(ctx, in, session)
		return
	}
	if _, err := c.Glovebox.Cancel(ctx, execution); errors.Is(err, job.ErrEnded) {
		return
	} else if err != nil {
		c.report(err)
		return
	}
	patient, over := context.WithTimeout(ctx, stopPatience)
	defer over()
	if _, err := c.Glovebox.Wait(patient, execution); err == nil || patient.Err() == nil { // else Redis or the api went away meanwhile, and the sandbox kills it
		return
	}
	if _, err := c.Glovebox.RestartSession(ctx, session, job.Restart{Execution: execution}); err != nil {
		c.report(err)
	}
}

// dropNew ends a session that this call has started, and that nobody knows of.
func (c Caller) dropNew(ctx context.Context, in runCodeArguments, id string) {
	if in.SessionID != newSession {
		return
	}
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer done()
	if _, err := c.Glovebox.EndSession(ending, id); err != nil {
		c.report(err) // it ends by itself when it has been idle
	}
}

// inSession adds the session to an answer, and what became of its state.
func inSession(a Answer, id string, r *job.Result) Answer {
	a.SessionID = id
	text := "session_id: " + id + "\n"
	if r != nil && r.Session != nil {
		a.Outcome.State = r.Session.State
		if r.Session.State == job.StateLost {
			text += "The session's variables are lost with this call; its files are there as long as it lives.\n"
		}
	}
	if a.Outcome != nil {
		a.Outcome.SessionID = id
	}
	a.Content[0].Text += text
	return a
}

const (
	// maxListed is how many sessions list_sessions tells of.
	maxListed = 20
	// maxPages bounds how many it looks for them: a page can have few, where many have ended.
	maxPages = 5
)

// listSessions is the tool that finds a session again whose id is lost.
func listSessions() Tool {
	return Tool{
		Name: ListSessions, Title: "List sessions",
		Description: "Lists the sessions that run_code has started and that have not ended, newest first: for a session_id that is no longer known.",
		Scopes:      []job.Scope{job.ScopeRead}, ReadOnly: true,
		Input: json.RawMessage(`{"type": "object", "additionalProperties": false, "properties": {}}`), textOnly: true,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			if _, err := decode[struct{}](arguments); err != nil {
				return Answer{}, err
			}
			var list []job.Session
			o := producer.SessionListOptions{Status: []job.SessionStatus{job.SessionQueued, job.SessionReady, job.SessionBusy, job.SessionPaused}, Limit: producer.MaxPage}
			for range maxPages {
				page, err := c.Glovebox.ListSessions(ctx, o)
				if err != nil {
					return Answer{}, err
				}
				list = append(list, page.Sessions...)
				if o.Cursor = page.Next; o.Cursor == "" {
					break
				}
			}
			return Answer{Content: []Content{{Type: "text", Text: describeSessions(list)}}}, nil
		},
	}
}

// describeSessions says in words which of the sessions run_code has started.
func describeSessions(list []job.Session) string {
	var b strings.Builder
	n := 0
	for _, x := range list {
		if x.Metadata["tool"] != RunCode { // somebody else's
			continue
		}
		if n++; n > maxListed {
			b.WriteString("There are more, older ones.\n")
			break
		}
		used := x.CreatedAt
		if x.ActiveAt != nil {
			used = *x.ActiveAt
		}
		fmt.Fprintf(&b, "session_id %s: %s, %s, %d calls, used last at %s\n", x.ID, x.Runtime, x.Status, x.Executions, used.UTC().Format(time.RFC3339))
	}
	if n == 0 {
		return "There is no session. run_code with session_id \"new\" starts one.\n"
	}
	return b.String()
}

// endSession is the tool that ends a session.
func endSession() Tool {
	input, _ := json.Marshal(map[string]any{ // of what can be written as JSON
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"session_id"},
		"properties": map[string]any{
			"session_id": map[string]any{"type": "string", "description": "The session_id that run_code answered."},
		},
	})
	return Tool{
		Name: EndSession, Title: "End a session",
		Description: "Ends a session that run_code started, with its variables and files, and what it executes. Without it a session ends after ten minutes without a call, and after an hour in any case.",
		Scopes:      []job.Scope{job.ScopeSubmit},
		Input:       input, textOnly: true, destructive: true,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			in, err := decode[struct {
				SessionID string `json:"session_id"`
			}](arguments)
			if err != nil {
				return Answer{}, err
			}
			x, err := c.Glovebox.EndSession(ctx, in.SessionID)
			if err != nil {
				return Answer{}, err
			}
			return Answer{SessionID: x.ID, Content: []Content{{Type: "text", Text: "The session has ended.\n"}}}, nil
		},
	}
}

var _ Glovebox = (*producer.Client)(nil)
