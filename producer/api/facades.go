package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// anonymousID is what the audit log calls the token of requests that had none, of those that
// Config.FacadeTenant lets in.
const anonymousID = "GLOVEBOX_FACADE_TENANT"

// guestScopes are what they may, and those with a token of a session's at most.
var guestScopes = []job.Scope{job.ScopeSubmit, job.ScopeRead}

// mount registers the routes of a façade. What they may is in a.accesses, as of all others.
func (a *API) mount(mux *listedMux, f facade.Facade) {
	for _, route := range f.Routes {
		method, below, _ := strings.Cut(route.Pattern, " ")
		pattern := method + " " + f.Base + below
		a.accesses[pattern] = access{route.Scope, route.Action}
		mux.HandleFunc(pattern, a.facadeRoute(f, route))
	}
	for pattern, handle := range map[string]http.HandlerFunc{
		f.Base + "/": func(w http.ResponseWriter, r *http.Request) {
			f.Refuse(w, r, newProblem(job.CodeNoRoute, "Not Found").Problem)
		},
		"OPTIONS " + f.Base + "/": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	} {
		a.accesses[pattern] = access{nobodys, ""}
		mux.HandleFunc(pattern, handle)
	}
}

// facadeRoute admits a request to a façade as any other, and lets that answer it.
func (a *API) facadeRoute(f facade.Facade, route facade.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a.lasting.Add(1)
		defer a.lasting.Done()
		host := &facadeHost{api: a, w: w, r: r}
		defer host.release()
		call := &facade.Call{Host: host, Wait: a.facadeWait}
		if route.Scope != facade.Public {
			c, err := a.admitToFacade(w, r, f, host)
			if err != nil {
				f.Refuse(w, r, host.Problem(r.Context(), err))
				return
			}
			host.caller = c
			call.Tenant, call.Token, call.Anonymous = c.tenant, c.token.ID, c.token.ID == anonymousID
		}
		host.client = a.answering(r.Context(), call.Tenant)
		call.Client = host.client
		route.Serve(w, r, call)
	}
}

// admitToFacade is admit for the places where clients of façades put their token. A request with a wrong one
// is refused, also where those with none are let in.
func (a *API) admitToFacade(w http.ResponseWriter, r *http.Request, f facade.Facade, host *facadeHost) (caller, error) {
	token, ok := facade.Token(r)
	if ok && f.Session != nil {
		session := f.Session(r)
		c, err := a.bySession(r.Context(), token, session)
		if !errors.Is(err, artifacts.ErrTokenInvalid) {
			if err != nil {
				return caller{}, err
			}
			host.session = session
			return a.admitCaller(w, r, c)
		}
	}
	if ok || a.facadeTenant == "" || facade.HasToken(r) {
		return a.admitToken(w, r, token, ok)
	}
	return a.admitCaller(w, r, caller{a.facadeTenant, job.Token{ID: anonymousID, Scopes: guestScopes}})
}

// bySession returns who has a token of a session's: the holder of the token that it was made for, as far as guestScopes go. It fails with
// artifacts.ErrTokenInvalid for what is no such token, or another session's, and as lookUp once it or the token behind it is no longer good.
func (a *API) bySession(ctx context.Context, token, session string) (caller, error) {
	tenant, id, err := a.links.VerifySession(token, session)
	if errors.Is(err, artifacts.ErrTokenExpired) {
		return caller{}, direct.ErrTokenExpired
	}
	if err != nil {
		return caller{}, err
	}
	c := caller{tenant, ownToken()}
	if id != c.token.ID {
		c.token, err = a.client.For(tenant).TokenByID(ctx, id)
	} else if !a.configures(tenant) {
		err = job.ErrNoTenant
	}
	if errors.Is(err, job.ErrNoTenant) {
		return caller{}, errToken
	}
	c.token.Scopes = slices.DeleteFunc(slices.Clone(c.token.Scopes), func(s job.Scope) bool { return !slices.Contains(guestScopes, s) })
	return c, err
}

// configures reports whether the settings name a token of that tenant's.
func (a *API) configures(tenant string) bool {
	for _, of := range a.tokens {
		if of == tenant {
			return true
		}
	}
	return false
}

// facadeOf returns the façade that a path belongs to, or nil.
func (a *API) facadeOf(path string) *facade.Facade {
	for i, f := range a.facades {
		if path == f.Base || strings.HasPrefix(path, f.Base+"/") {
			return &a.facades[i]
		}
	}
	return nil
}

// refuseAs answers a problem in the form of the façade whose path was asked for, if it is one's.
func (a *API) refuseAs(w http.ResponseWriter, r *http.Request, p problem) {
	if f := a.facadeOf(r.URL.Path); f != nil {
		f.Refuse(w, r, p.Problem)
		return
	}
	writeProblem(w, p)
}

// corsHeaders are what browsers want to see of the servers whose place façades take: each allows any
// page to ask. Tokens are in headers, which no other page knows.
func corsHeaders(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS, PUT, HEAD, DELETE")
	h.Set("Access-Control-Expose-Headers", "*")
	allowed := "Authorization, X-Auth-Token, X-Auth-User, X-RapidAPI-Key, X-RapidAPI-Host, X-API-KEY, Origin, X-Requested-With, Content-Type, Accept, Access-Control-Request-Method"
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && len(asked) <= maxAskedHeaders {
		allowed = asked
	}
	h.Set("Access-Control-Allow-Headers", allowed)
}

// maxAskedHeaders bounds what a preflight request may ask for and is answered, in bytes.
const maxAskedHeaders = 1024

// tidyFacades makes requests to façades ready for the mux: with the headers for browsers, and a path that it
// doesn't redirect, since a client that is redirected loses its body.
func (a *API) tidyFacades(next http.Handler) http.Handler {
	if len(a.facades) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := a.facadeOf(r.URL.Path); f != nil {
			clean := path.Clean(r.URL.Path)
			switch {
			case clean == f.Base:
				clean += "/"
			case !strings.HasPrefix(clean, f.Base+"/"): // its way out of the façade leads nowhere
				clean = f.Base + "/404"
			}
			r.URL.Path, r.URL.RawPath = clean, ""
			corsHeaders(w.Header(), r)
		}
		next.ServeHTTP(w, r)
	})
}

// ServeFacade answers a façade's requests on an address of its own, until ctx ends, as Serve does: with
// and without the façade's base path.
func (a *API) ServeFacade(ctx context.Context, l net.Listener, name string) error {
	for _, f := range a.facades {
		if f.Name == name {
			return a.serve(ctx, l, a.alone(f))
		}
	}
	return fmt.Errorf("serve façade %s: it is not on", name)
}

// alone answers a façade's requests only.
func (a *API) alone(f facade.Facade) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != f.Base && !strings.HasPrefix(r.URL.Path, f.Base+"/") {
			r.URL.Path, r.URL.RawPath = f.Base+"/"+strings.TrimPrefix(r.URL.Path, "/"), ""
		}
		a.ServeHTTP(w, r)
	})
}

// checkFacades fails for façades that can't be told apart.
func checkFacades(c Config) error {
	seen := map[string]bool{}
	for _, f := range c.Facades {
		if f.Name == "" || seen[f.Name] || !strings.HasPrefix(f.Base, "/") || f.Refuse == nil {
			return fmt.Errorf("open API: façade %q has no name or base path, or appears more than once", f.Name)
		}
		seen[f.Name] = true
	}
	if c.FacadeTenant != "" && !job.ValidTenant(c.FacadeTenant) {
		return fmt.Errorf("open API: the façades' tenant %.40q is not 1 to 32 lower-case letters and digits", c.FacadeTenant)
	}
	return nil
}

// facadeHost is [facade.Host] for one request.
type facadeHost struct {
	api    *API
	w      http.ResponseWriter
	r      *http.Request
	caller caller
	client *direct.Client
	// session is the one whose token admitted the request, if one did.
	session string
	held    []func() // give back what the body takes, and what is made of it
}

// Body is [facade.Host.Body].
func (h *facadeHost) Body(ctx context.Context) (text []byte, done func(), err error) {
	text, done, err = h.api.bodyText(ctx, sentBody{h.w, h.r, h.api.bodyLimit}, h.caller.tenant)
	if err == nil {
		h.held = append(h.held, done)
	}
	return text, done, err
}

func (h *facadeHost) release() {
	for _, giveBack := range h.held {
		giveBack()
	}
}

// Hold is [facade.Host.Hold].
func (h *facadeHost) Hold(ctx context.Context, bytes int64) error {
	return requestOf(ctx).answer.Take(ctx, bytes)
}

// Work is [facade.Host.Work].
func (h *facadeHost) Work(ctx context.Context, bytes int64) (done func(), err error) {
	work := &reservation{budget: h.api.bodies, tenant: h.caller.tenant} // as if the body were so large
	if err := work.add(ctx, bytes, bodyPatience); err != nil {
		return nil, memoryProblem(err)
	}
	h.held = append(h.held, work.release)
	return work.release, nil
}

// Passing is [facade.Host.Passing].
func (h *facadeHost) Passing() (giveBack func()) {
	answer := &requestOf(h.r.Context()).answer
	before := answer.holds()
	return func() { answer.give(answer.holds() - before) }
}

// Wait is [facade.Host.Wait].
func (h *facadeHost) Wait(ctx context.Context, id string, d time.Duration) (producer.Job, error) {
	return h.api.wait(ctx, h.client, id, min(d, h.api.maxWait))
}

// MaxWait is [facade.Host.MaxWait].
func (h *facadeHost) MaxWait() time.Duration { return h.api.maxWait }

// May is [facade.Host.May].
func (h *facadeHost) May(scope job.Scope) error {
	err := h.caller.may(scope)
	if err != nil {
		noteOf(h.r.Context()).refused = true
	}
	return err
}

// SessionToken is [facade.Host.SessionToken].
func (h *facadeHost) SessionToken(session string, until time.Time) (string, error) {
	return h.api.links.SessionToken(session, h.caller.token.ID, until)
}

// Note is [facade.Host.Note].
func (h *facadeHost) Note(object string) { noteOf(h.r.Context()).object = object }

// Did is [facade.Host.Did].
func (h *facadeHost) Did(action, object string) {
	note := noteOf(h.r.Context())
	if h.api.accesses[h.r.Pattern].action == "" { // it is all that there is to tell
		note.action, note.object, note.outcome = action, object, job.OutcomeOK
		return
	}
	note.told = append(note.told[:max(len(note.told)-1, 0)], toldAction{action, object, job.OutcomeOK}, toldAction{}) // the last is the route's own
}

// Problem is [facade.Host.Problem].
func (h *facadeHost) Problem(ctx context.Context, err error) *producer.Problem {
	if isWrong(err) {
		return unauthorized(err, facade.HasToken(h.r)).Problem
	}
	err = h.api.problem(ctx, err)
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			h.w.Header()[name] = values
		}
	}
	var p problem
	if !errors.As(err, &p) { // API.problem makes one of everything
		p = newProblem(job.CodeInternal, "Glovebox has a fault")
	}
	return p.Problem
}
