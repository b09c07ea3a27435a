package direct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// StartSession is [producer.Sessions.StartSession].
func (c *Client) StartSession(ctx context.Context, s job.SessionSettings) (job.Session, error) {
	asked, err := job.Marshal(s)
	if err != nil {
		return job.Session{}, fmt.Errorf("encode session: %w", err)
	}
	if s.IdempotencyKey != "" {
		// Before anything is checked: what was accepted then may not be any more.
		if x, err := c.records.FindSessionByKey(ctx, c.tenant, s.IdempotencyKey, asked); err == nil {
			return wireSession(x), nil
		} else if !errors.Is(err, job.ErrNoSession) {
			return job.Session{}, err
		}
	}
	if s, err = c.checkSession(ctx, s); err != nil {
		return job.Session{}, err
	}
	x, err := c.records.OpenSession(ctx, c.tenant, s, asked)
	if err != nil {
		return job.Session{}, err
	}
	return wireSession(x), nil
}

// ForkSession is [producer.Sessions.ForkSession].
func (c *Client) ForkSession(ctx context.Context, id string, f job.SessionFork) (job.Session, error) {
	if err := c.ownSession(id); err != nil {
		return job.Session{}, err
	}
	asked, err := job.Marshal(struct {
		Of   string          `json:"of"`
		Fork job.SessionFork `json:"fork"`
	}{id, f})
	if err != nil {
		return job.Session{}, fmt.Errorf("encode fork: %w", err)
	}
	if f.IdempotencyKey != "" {
		// Before anything is read or checked: what was forked then may be gone.
		if x, err := c.records.FindSessionByKey(ctx, c.tenant, f.IdempotencyKey, asked); err == nil {
			return wireSession(x), nil
		} else if !errors.Is(err, job.ErrNoSession) {
			return job.Session{}, err
		}
	}
	of, err := c.takeSession(ctx, c.memory, id)
	if err != nil {
		return job.Session{}, err
	}
	s, err := c.checkSession(ctx, f.Settings(of.Settings))
	if err != nil {
		return job.Session{}, err
	}
	s.Limits = of.Settings.Limits // its sandbox has them
	x, err := c.records.OpenFork(ctx, of, s, asked)
	if err != nil {
		return job.Session{}, err
	}
	return wireSession(x), nil
}

// checkSession returns the settings of a session with its runtime's own name and every limit, if the tenant may have it.
func (c *Client) checkSession(ctx context.Context, s job.SessionSettings) (job.SessionSettings, error) {
	if err := s.Check(); err != nil {
		return s, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return s, err
	}
	var with []string
	for _, r := range v.runtimes {
		if r.Sessions && v.offers(r, job.GVisor) {
			with = append(with, r.Name)
		}
	}
	if len(with) == 0 && len(v.runtimes) > 0 { // of workers that isolate by less, or not all up to date
		return s, job.Invalid{{Field: "runtime", Value: s.Runtime, Message: "has no sessions: no worker that isolates by gvisor has them", Allowed: "none"}}
	}
	spec := s.Spec(job.SessionExecution{Code: "0"}) // a session is bounded as a job is
	spec.Metadata, spec.Callback, spec.Placement = s.Metadata, nil, s.Placement
	if s.Callback != nil { // whatever it is told of
		spec.Callback = &job.Callback{URL: s.Callback.URL}
	}
	checked, limits, err := v.check(ctx, spec)
	if err != nil {
		return s, err
	}
	if !slices.Contains(with, checked.Runtime) {
		return s, job.Invalid{{Field: "runtime", Value: s.Runtime, Message: "has no sessions", Allowed: strings.Join(with, ", ")}}
	}
	s.Runtime, s.Limits, s.Placement = checked.Runtime, limits.WithoutCompile(), checked.Placement
	// Nothing is executed yet: what rules hold is each execution.
	if _, err := c.judge(v.terms, policy.Subject{Kind: policy.KindSession, Spec: startOf(checked), Limits: s.Limits}); err != nil {
		return s, err
	}
	return s, nil
}

// Session is [producer.Sessions.Session].
func (c *Client) Session(ctx context.Context, id string) (job.Session, error) {
	x, err := c.session(ctx, id)
	if err != nil {
		return job.Session{}, err
	}
	return wireSession(x), nil
}

// WaitSession returns a session once it is ready, or has ended. When ctx ends before that, it fails with ctx's error.
func (c *Client) WaitSession(ctx context.Context, id string) (job.Session, error) {
	if err := c.ownSession(id); err != nil {
		return job.Session{}, err
	}
	return await(ctx, c.done, id, func(ctx context.Context) (job.Session, bool, error) {
		x, err := c.Session(ctx, id)
		return x, x.Status != job.SessionQueued, err
	})
}

// SessionOfKey returns the ID of the session that this tenant started under an idempotency key in the last 24 hours, or "". It may be no longer kept.
func (c *Client) SessionOfKey(ctx context.Context, key string) (string, error) {
	return c.records.SessionOfKey(ctx, c.tenant, key)
}

// ListExecutions is [producer.Sessions.ListExecutions].
func (c *Client) ListExecutions(ctx context.Context, session string, o producer.SessionListOptions) (producer.JobPage, error) {
	x, err := c.session(ctx, session)
	if err != nil {
		return producer.JobPage{}, err
	}
	f, err := c.filter(producer.ListOptions{Limit: o.Limit, Cursor: o.Cursor})
	if err != nil {
		return producer.JobPage{}, err
	}
	f.Session, f.Since = session, x.Created.Add(-clockSkew)
	return c.page(ctx, f)
}

// ExecuteInSession is [producer.Sessions.ExecuteInSession].
func (c *Client) ExecuteInSession(ctx context.Context, session string, e job.SessionExecution) (producer.Job, error) {
	x, err := c.sessionOf(ctx, session, e.Context)
	if err != nil {
		return producer.Job{}, err
	}
	id, n := job.NewID(c.tenant), record.NewTurn{Watched: c.watching}
	if e.IdempotencyKey != "" {
		// Before anything is checked: what was accepted then may not be any more.
		id = job.ExecutionID(session, e.IdempotencyKey)
		if n.Asked, err = job.Marshal(e); err != nil {
			return producer.Job{}, fmt.Errorf("encode execution: %w", err)
		}
		if err := c.records.FindTurn(ctx, id, n.Asked); err == nil {
			return c.Get(ctx, id)
		} else if !errors.Is(err, job.ErrNotFound) {
			return producer.Job{}, err
		}
	}
	if err := e.Check(x.Settings.Limits.WallMS); err != nil {
		return producer.Job{}, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return producer.Job{}, err
	}
	// The session's own limits and environment were checked as it began.
	asked := job.Spec{
		Runtime: x.Settings.Runtime, Source: cmp.Or(e.Code, "\n"), Files: e.Files, Entrypoint: noFile, Limits: job.Limits{SourceKB: x.Settings.Limits.SourceKB},
		Callback: x.Settings.Spec(e).Callback, Metadata: e.Metadata, // the hosts that callbacks may lead to can have become fewer
	}
	if asked, _, err = v.check(ctx, asked); err == nil {
		asked, err = c.pinInputs(ctx, asked, x.Settings.Limits)
	}
	if err != nil {
		return producer.Job{}, namedCode(err)
	}
	e.Files = asked.Files
	spec := x.Settings.Spec(e)
	spec.Env, spec.Secrets = nil, nil // the session's worker has them
	if n.Place, err = v.placeOf(x, e.Context, e.Language); err != nil {
		return producer.Job{}, err
	}
	n.Expect = e.ExpectGeneration
	judged := spec
	judged.Env, judged.Secrets, judged.Source = x.Settings.Env, x.Settings.Secrets, e.Code
	judged.Placement = x.Settings.Placement // its own has none: where the session is, it runs
	verdict, err := c.judge(v.terms, policy.Subject{Kind: policy.KindExecution, Spec: judged, Limits: x.Settings.Limits, Session: session, Context: n.Place.Context, Language: n.Place.Language})
	if err != nil {
		return producer.Job{}, err
	}
	if verdict.Held() {
		text, err := record.MarshalExecution(spec, n.Place)
		if err != nil {
			return producer.Job{}, err
		}
		n.Hold = c.held(verdict, id, text)
	}
	var sent func(error)
	n.Trace, sent = c.tracer.Send(ctx, id)
	n.At = time.Now()
	err = c.records.AddTurn(ctx, session, id, spec, n)
	sent(err)
	if errors.Is(err, record.ErrExists) {
		return c.Get(ctx, id)
	}
	if err != nil {
		if job.CodeOf(err) != "" || errors.As(err, new(job.Invalid)) {
			return producer.Job{}, err
		}
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // only the answer may have got lost
		defer cancel()
		if _, getErr := c.records.Get(looking, id); getErr != nil {
			return producer.Job{}, err
		}
		if err := c.records.Confirm(looking); err != nil { // it may be on the primary alone
			return producer.Job{}, fmt.Errorf("execute: %w", err)
		}
	}
	failpoint.Hit(failpoint.RecordCreated)
	return producer.Job{Summary: accepted(id, n.At, spec, n.Hold)}, nil
}

// startOf is the start of a session as rules see it: nothing is executed yet.
func startOf(spec job.Spec) job.Spec {
	spec.Source = ""
	return spec
}

// noFile is where a job would have the code of an execution, which is in no file.
const noFile = ".glovebox/code"

// namedCode calls code what a job calls source.
func namedCode(err error) error {
	var invalid job.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	for i := range invalid {
		if invalid[i].Field == "source" {
			invalid[i].Field = "code"
		}
	}
	return invalid
}

// InterruptSession is [producer.Sessions.InterruptSession].
func (c *Client) InterruptSession(ctx context.Context, id string) (job.Session, error) {
	x, err := c.session(ctx, id)
	if err != nil {
		return job.Session{}, err
	}
	if x.State == job.SessionBusy && x.Execution != "" {
		if _, err := c.Cancel(ctx, x.Execution); err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, job.ErrNotFound) {
			return job.Session{}, err
		}
	}
	return wireSession(x), nil
}

// ChangeSession is [producer.Sessions.ChangeSession].
func (c *Client) ChangeSession(ctx context.Context, id string, change job.SessionChange) (job.Session, error) {
	held := &reservation{Memory: c.memory} // it is read again once it is changed
	defer held.keep(0)
	if _, err := c.takeSession(ctx, held, id); err != nil {
		return job.Session{}, err
	}
	if err := change.Check(); err != nil {
		return job.Session{}, err
	}
	x, err := c.records.ChangeSession(ctx, id, change)
	if err != nil {
		return job.Session{}, err
	}
	return wireSession(x), nil
}

// EndSession is [producer.Sessions.EndSession].
func (c *Client) EndSession(ctx context.Context, id string) (job.Session, error) {
	if _, err := c.session(ctx, id); err != nil {
		return job.Session{}, err
	}
	err := c.records.EndSession(ctx, id, "", job.SessionEnd{Reason: job.EndDeleted, Message: "it was deleted"})
	if err != nil && !errors.Is(err, job.ErrSessionEnded) {
		return job.Session{}, err
	}
	return c.Session(ctx, id)
}

// wireSession is what is shown of a session.
func wireSession(x record.Session) job.Session {
	s := job.Session{
		ID: x.ID, Status: x.State, Runtime: x.Settings.Runtime, Limits: x.Settings.Limits, Generation: x.Generation, Executions: x.Executions,
		Placement: x.Settings.Placement, CPUMS: x.CPUMS, Budget: x.Settings.Budget, Head: x.Head, Attested: x.Attested, Secrets: x.Settings.Secrets, Execution: x.Execution, TTLSeconds: x.Settings.TTLSeconds, IdleSeconds: x.Settings.IdleSeconds,
		CreatedAt: x.Created, ExpiresAt: x.Expires, Metadata: x.Settings.Metadata, ForkOf: x.ForkOf, ForkedAt: x.ForkedAt,
	}
	for _, at := range []struct {
		from time.Time
		to   **time.Time
	}{{x.Ready, &s.ReadyAt}, {x.Active, &s.ActiveAt}, {x.Finished, &s.EndedAt}} {
		if !at.from.IsZero() {
			*at.to = &at.from
		}
	}
	if x.State == job.SessionEnded {
		s.Execution, s.End = "", &job.SessionEnd{Reason: x.EndReason, Message: x.EndedBecause}
	}
	return s
}
