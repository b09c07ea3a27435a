package api

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Actions of requests that nobody made.
const (
	actionFailed    = "auth.failed"
	actionThrottled = "auth.throttled" // the last of these before the address has to wait
)

// auditNote is what a request's handlers tell the audit log of it.
type auditNote struct {
	caller caller
	// action, where the route alone doesn't say it, and object likewise.
	action, object string
	// outcome is what became of it, where the answer's status doesn't say it.
	outcome string
	// told is what a tool has done by its call so far. The last of it is in action, object and outcome, too.
	told []toldAction
	// refused is a request that was not admitted.
	refused bool
}

// toldAction is one of the things that a tool did.
type toldAction struct{ action, object, outcome string }

// before are the entries of what a tool did before what e says.
func (n *auditNote) before(e job.AuditEntry) (entries []job.AuditEntry) {
	for _, t := range n.told[:max(len(n.told)-1, 0)] {
		one := e
		one.Action, one.Object, one.Outcome = t.action, t.object, t.outcome
		entries = append(entries, one)
	}
	return entries
}

const (
	// refusalPause is how long refusals of a token are not written down again: nothing changes, and
	// a loop of them would push out what does.
	refusalPause = time.Minute
	// maxTold bounds what is remembered of them.
	maxTold = 10_000
)

// refusals are the tokens that were refused, and how, with when that was written down last.
type refusals struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// tell reports whether a refusal is to be written down.
func (r *refusals) tell(c caller, status int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := fmt.Sprint(c.tenant, "/", c.token.ID, " ", status)
	if told, ok := r.told[key]; ok && now.Sub(told) < refusalPause {
		return false
	}
	if r.told == nil || len(r.told) >= maxTold {
		r.told = map[string]time.Time{}
	}
	r.told[key] = now
	return true
}

// noteOf is where to note things of the request that ctx is of.
func noteOf(ctx context.Context) *auditNote { return &requestOf(ctx).note }

// auditEntry is what to write down of a request that changes something, or whose token was
// wrong; of others it is false.
func (a *API) auditEntry(r *http.Request, note *auditNote, answer *watchedWriter) (job.AuditEntry, bool) {
	e := job.AuditEntry{
		At: time.Now().UTC().Truncate(time.Millisecond), Tenant: note.caller.tenant, TokenID: note.caller.token.ID,
		Action: note.action, Object: note.object, Outcome: job.OutcomeOK, Status: answer.status, RequestID: requestID(r.Context()),
	}
	if e.Action == "" {
		e.Action = a.accesses[r.Pattern].action
	}
	if e.Action == "" || answer.status == 0 && note.outcome == "" || e.TokenID == "" && note.action == "" {
		return e, false // nothing changes, nobody is answered, or nobody asked
	}
	if note.refused && answer.status < http.StatusInternalServerError && !a.refusals.tell(note.caller, answer.status, time.Now()) {
		return e, false
	}
	if e.Object == "" {
		e.Object = object(r, answer.Header())
	}
	if a.accesses[r.Pattern].scope == operator && e.TokenID != "" {
		e.Tenant = clip(r.PathValue("name"))
		if e.Tenant == "" {
			e.Tenant = e.Object // of a tenant that is made
		}
	}
	switch {
	case note.outcome != "":
		e.Outcome = note.outcome
	case answer.status >= http.StatusInternalServerError:
		e.Outcome = job.OutcomeFailed
	case answer.status >= http.StatusBadRequest:
		e.Outcome = job.OutcomeRefused
	}
	if address := a.address(r); address.IsValid() {
		e.Address = address.String()
	}
	return e, true
}

// object is what a request was about: what it made, or what its path names.
func object(r *http.Request, answer http.Header) string {
	if made := answer.Get("Location"); made != "" {
		return path.Base(made)
	}
	name := r.PathValue("id")
	if name == "" {
		name = r.PathValue("name")
	}
	if token := r.PathValue("token"); token != "" {
		name += "/" + token
	}
	return clip(name)
}

// auditInput has text only, as listInput.
type auditInput struct {
	Tenant string `query:"tenant" doc:"Entries that concern this tenant."`
	Action string `query:"action" doc:"Entries of this action, such as job.submit, or of a kind of them, such as job."`
	Since  string `query:"since" doc:"Entries written from then on (RFC 3339)."`
	Cursor string `query:"cursor" doc:"The next_cursor of the page before, instead of since."`
	Limit  string `query:"limit" doc:"How many entries to answer at most, 1 to 1000."`
}

type auditOutput struct{ Body producer.AuditPage }

func (a *API) readAudit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	o := producer.AuditOptions{Tenant: in.Tenant, Action: in.Action, Cursor: in.Cursor}
	var invalid job.Invalid
	var err error
	if in.Since != "" {
		if o.Since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			invalid = append(invalid, job.FieldError{Field: "since", Value: clip(in.Since), Message: "is no time", Allowed: "RFC 3339: 2026-11-20T09:00:00Z"})
		}
	}
	if in.Limit != "" {
		if o.Limit, err = strconv.Atoi(in.Limit); err != nil || o.Limit == 0 {
			invalid = append(invalid, job.FieldError{Field: "limit", Value: clip(in.Limit), Message: "is no number of entries", Allowed: "1 to " + strconv.Itoa(producer.MaxAuditPage)})
		}
	}
	if invalid != nil {
		return nil, a.problem(ctx, invalid)
	}
	page, err := a.client.Audit(ctx, o)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &auditOutput{page}, nil
}

// auditRoute is the operator's.
func (a *API) auditRoute(h huma.API, d documenter) {
	op := d.operation("read-audit-log", http.MethodGet, "/v1/admin/audit", "Read the audit log",
		"Who changed what, by token, the oldest first: jobs, batches, secrets, tenants and tokens; and whose token was wrong. Some 100,000 entries about jobs are kept, 20,000 about what the operator did, and 20,000 others.",
		d.problems(401, 422, 503))
	delete(op.Responses, "429") // an operator has no quota
	huma.Register(h, op, a.readAudit)
}
