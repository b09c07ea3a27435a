package producer

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Sessions are interpreters that keep their state from one execution to the next. Safe for concurrent use.
type Sessions interface {
	// StartSession asks for a session. With an idempotency key the Client of this package bears with an API that is away, or breaks off, for up to 30 s. It can be given executions at once: they wait until a worker holds it. It fails with
	// job.Invalid, job.ErrNoRuntimes, or a *job.Error beyond the tenant's quotas.
	StartSession(ctx context.Context, s job.SessionSettings) (job.Session, error)
	// Session returns a session, or job.ErrNoSession.
	Session(ctx context.Context, id string) (job.Session, error)
	// ListSessions lists the tenant's sessions, newest first, also those that have ended lately. With a status there can be fewer than the limit, or none, on a page that is not the last.
	ListSessions(ctx context.Context, o SessionListOptions) (SessionPage, error)
	// ListExecutions lists a session's executions, newest first, as Lister does jobs.
	ListExecutions(ctx context.Context, session string, o SessionListOptions) (JobPage, error)
	// Transcript yields what a session has executed, in its order: what each execution was given and what came of it. What has not ended is not in it, and what was
	// never begun comes last. It yields one error at most, as the last.
	Transcript(ctx context.Context, session string) iter.Seq2[job.Executed, error]
	// ExecuteInSession has a session execute code once it has executed what came before; with an idempotency key once, however often it is asked for. The execution is a job: Wait, Get and
	// Cancel are for it, too; Cancel interrupts one that runs. It fails with job.Invalid, job.ErrNoSession, job.ErrSessionEnded
	// or job.ErrSessionBusy.
	ExecuteInSession(ctx context.Context, session string, e job.SessionExecution) (Job, error)
	// ChangeSession changes how long a session lives, how long it may be idle, or its metadata. It fails with job.Invalid, for more than a session can live, say, with
	// job.ErrNoSession or with job.ErrSessionEnded.
	ChangeSession(ctx context.Context, id string, change job.SessionChange) (job.Session, error)
	// ForkSession asks for a session that goes on from where another is, as it will be once that has executed what it was given before: it has its interpreters, with all that they know, and its files.
	// Each goes on by itself. It waits for the other one's worker, and ends as failed where that can't fork it after all. It fails with job.ErrNoSession, job.ErrSessionEnded, job.ErrSessionBusy, or
	// job.ErrUnforkable, and as StartSession does.
	ForkSession(ctx context.Context, id string, f job.SessionFork) (job.Session, error)
	// RestartSession gives a context of a session a new interpreter. What it executes ends as canceled, with its state; files stay. It fails with job.Invalid,
	// job.ErrNoSession, job.ErrNoContext or job.ErrSessionEnded.
	RestartSession(ctx context.Context, id string, r job.Restart) (job.Session, error)
	// SessionContexts lists a session's contexts, the main one first.
	SessionContexts(ctx context.Context, id string) ([]job.SessionContext, error)
	// MakeContext makes a context of a session, which the first execution that names it would make, too. One that is there already has to be the same. It fails with job.Invalid,
	// job.ErrNoSession, job.ErrTooManyContexts or job.ErrSessionEnded.
	MakeContext(ctx context.Context, id, name string, s job.ContextSettings) (job.SessionContext, error)
	// DeleteContext ends a context's interpreter and forgets it; what it executes, and what waits for that, ends as canceled. The main one can't be deleted. It fails as
	// RestartSession does.
	DeleteContext(ctx context.Context, id, name string) error
	// InterruptSession interrupts what a session executes, if it executes anything.
	InterruptSession(ctx context.Context, id string) (job.Session, error)
	// SessionDeliveries lists the webhook messages of a session's end, as Deliveries does of a job's. Its executions are jobs, and have their own.
	SessionDeliveries(ctx context.Context, id string) ([]Delivery, error)
	// EndSession ends a session, and what it executes. One that has ended stays as it is.
	EndSession(ctx context.Context, id string) (job.Session, error)
	// PurgeSession deletes everything that is kept of a session that has ended, and of its executions, as [Purger.Purge] does of jobs. It fails with job.ErrNoSession, with
	// job.ErrSessionLive where the session has not ended, or with job.ErrNotEnded where one of its executions has not. Done again, it goes on where it was broken off.
	PurgeSession(ctx context.Context, id string) error
}

var _ Sessions = (*Client)(nil)

// SessionListOptions say which page of the list; the zero value is the first.
type SessionListOptions struct {
	Status []job.SessionStatus // of ListSessions: those in any of these; empty for all
	Cursor string              // next_cursor of the page before
	Limit  int                 // 1 to [MaxPage]; 0 means [DefaultPage]
}

// SessionPage is the answer of GET /v1/sessions.
type SessionPage struct {
	Sessions []job.Session `json:"sessions" nullable:"false" doc:"Newest first."`
	Next     string        `json:"next_cursor,omitempty" doc:"Where the next page begins; absent on the last."`
}

const sessionsPath = "/v1/sessions"

// StartSession is [Sessions.StartSession].
func (c *Client) StartSession(ctx context.Context, s job.SessionSettings) (job.Session, error) {
	return keyed(ctx, s.IdempotencyKey, func() (x job.Session, err error) {
		err = c.send(ctx, http.MethodPost, sessionsPath, s, &x)
		return x, err
	})
}

// keyed asks once, or where there is an idempotency key until there is an answer.
func keyed[T any](ctx context.Context, key string, ask func() (T, error)) (T, error) {
	if key == "" {
		return ask()
	}
	return insist(ctx, ask)
}

// Session is [Sessions.Session].
func (c *Client) Session(ctx context.Context, id string) (x job.Session, err error) {
	path, err := sessionPath(id)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path, 0, nil, &x)
	}
	return x, err
}

// ListSessions is [Sessions.ListSessions].
func (c *Client) ListSessions(ctx context.Context, o SessionListOptions) (page SessionPage, err error) {
	err = c.json(ctx, http.MethodGet, sessionsPath+o.query(), 0, nil, &page)
	return page, err
}

// ListExecutions is [Sessions.ListExecutions].
func (c *Client) ListExecutions(ctx context.Context, session string, o SessionListOptions) (page JobPage, err error) {
	path, err := sessionPath(session)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path+"/executions"+o.query(), 0, nil, &page)
	}
	return page, err
}

// Transcript is [Sessions.Transcript].
func (c *Client) Transcript(ctx context.Context, session string) iter.Seq2[job.Executed, error] {
	path, err := sessionPath(session)
	if err != nil {
		return func(yield func(job.Executed, error) bool) { yield(job.Executed{}, err) }
	}
	return readLines[job.Executed](ctx, c, path+"/transcript", "transcript of session "+session)
}

func (o SessionListOptions) query() string {
	q := url.Values{}
	for _, s := range o.Status {
		q.Set("status", strings.TrimPrefix(q.Get("status")+","+string(s), ","))
	}
	if o.Cursor != "" {
		q.Set("cursor", o.Cursor)
	}
	if o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	return "?" + q.Encode()
}

// ExecuteInSession is [Sessions.ExecuteInSession].
func (c *Client) ExecuteInSession(ctx context.Context, session string, e job.SessionExecution) (j Job, err error) {
	path, err := sessionPath(session)
	if err != nil {
		return j, err
	}
	return keyed(ctx, e.IdempotencyKey, func() (j Job, err error) {
		err = c.send(ctx, http.MethodPost, path+"/execute", e, &j)
		return j, err
	})
}

// ChangeSession is [Sessions.ChangeSession].
func (c *Client) ChangeSession(ctx context.Context, id string, change job.SessionChange) (x job.Session, err error) {
	path, err := sessionPath(id)
	if err == nil {
		err = c.send(ctx, http.MethodPatch, path, change, &x)
	}
	return x, err
}

// InterruptSession is [Sessions.InterruptSession].
func (c *Client) InterruptSession(ctx context.Context, id string) (x job.Session, err error) {
	path, err := sessionPath(id)
	if err == nil {
		err = c.json(ctx, http.MethodPost, path+"/interrupt", 0, nil, &x)
	}
	return x, err
}

// ForkSession is [Sessions.ForkSession].
func (c *Client) ForkSession(ctx context.Context, id string, f job.SessionFork) (job.Session, error) {
	path, err := sessionPath(id)
	if err != nil {
		return job.Session{}, err
	}
	return keyed(ctx, f.IdempotencyKey, func() (x job.Session, err error) {
		err = c.send(ctx, http.MethodPost, path+"/fork", f, &x)
		return x, err
	})
}

// RestartSession is [Sessions.RestartSession].
func (c *Client) RestartSession(ctx context.Context, id string, r job.Restart) (x job.Session, err error) {
	path, err := sessionPath(id)
	if err == nil {
		err = c.send(ctx, http.MethodPost, path+"/restart", r, &x)
	}
	return x, err
}

// ContextList is the answer of GET /v1/sessions/{id}/contexts.
type ContextList struct {
	Contexts []job.SessionContext `json:"contexts" nullable:"false" doc:"The main one first, then in the order in which they were made."`
}

// SessionContexts is [Sessions.SessionContexts].
func (c *Client) SessionContexts(ctx context.Context, id string) ([]job.SessionContext, error) {
	path, err := sessionPath(id)
	if err != nil {
		return nil, err
	}
	var list ContextList
	err = c.json(ctx, http.MethodGet, path+"/contexts", 0, nil, &list)
	return list.Contexts, err
}

// MakeContext is [Sessions.MakeContext].
func (c *Client) MakeContext(ctx context.Context, id, name string, s job.ContextSettings) (x job.SessionContext, err error) {
	path, err := contextPath(id, name)
	if err == nil {
		err = c.send(ctx, http.MethodPut, path, s, &x)
	}
	return x, err
}

// DeleteContext is [Sessions.DeleteContext].
func (c *Client) DeleteContext(ctx context.Context, id, name string) error {
	path, err := contextPath(id, name)
	if err != nil {
		return err
	}
	res, err := c.do(ctx, http.MethodDelete, path)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func contextPath(id, name string) (string, error) {
	path, err := sessionPath(id)
	if err == nil {
		err = job.CheckContext("context", name)
	}
	return path + "/contexts/" + name, err
}

// EndSession is [Sessions.EndSession].
func (c *Client) EndSession(ctx context.Context, id string) (x job.Session, err error) {
	path, err := sessionPath(id)
	if err == nil {
		err = c.json(ctx, http.MethodDelete, path, 0, nil, &x)
	}
	return x, err
}

// PurgeSession is [Sessions.PurgeSession].
func (c *Client) PurgeSession(ctx context.Context, id string) error {
	path, err := sessionPath(id)
	if err != nil {
		return err
	}
	res, err := c.do(ctx, http.MethodDelete, path+"?purge=true")
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func sessionPath(id string) (string, error) {
	if _, ok := job.TenantOfSession(id); !ok {
		return "", job.ErrNoSession // "..", say, would mean another URL
	}
	return sessionsPath + "/" + id, nil
}
