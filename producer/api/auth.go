package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// TokenHash is what the API knows of a token that its settings name, so that a leak of
// them is not a leak of tokens.
type TokenHash [sha256.Size]byte

// HashToken returns what Config.Tokens has for a token. Tokens are random, so a plain
// hash is enough.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// caller is who made a request.
type caller struct {
	tenant string
	token  job.Token
}

// ownToken is what is known of the token that the settings name.
func ownToken() job.Token { return job.Token{ID: "GLOVEBOX_TOKEN", Scopes: job.Scopes()} }

type callerKey struct{}

// callerOf is who made the request that ctx is of; nobody has no tenant.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// tenantClient is the client of the tenant whose token the request had.
func (a *API) tenantClient(ctx context.Context) *direct.Client {
	return a.answering(ctx, callerOf(ctx).tenant) // "" owns no job
}

// answering is the client of a tenant for the answer to the request that ctx is of, which
// takes memory until it is sent.
func (a *API) answering(ctx context.Context, tenant string) *direct.Client {
	answer := &requestOf(ctx).answer
	answer.tenant = tenant
	return a.client.ForAnswer(tenant, answer).As(noteOf(ctx).caller.token)
}

// authenticate is middleware of every operation.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	switch a.accesses[r.Pattern].scope {
	case nobodys:
		next(ctx)
	case operator:
		if err := a.admin(w, r); err != nil {
			a.refuse(w, r, err)
			return
		}
		next(ctx)
	default:
		c, err := a.admit(w, r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		requestOf(r.Context()).goesOn = func(ctx context.Context) error { return a.goesOn(ctx, r, c) }
		next(huma.WithValue(ctx, callerKey{}, c))
	}
}

// errToken is a request without a token that somebody has.
var errToken = errors.New("no token, or not one of this Glovebox")

// admit returns who makes the request, if that token may use the route. What it may not is
// counted, too.
func (a *API) admit(w http.ResponseWriter, r *http.Request) (caller, error) {
	token, ok := bearer(r)
	return a.admitToken(w, r, token, ok)
}

// admitToken is admit for a token that was found in the request, if ok.
func (a *API) admitToken(w http.ResponseWriter, r *http.Request, token string, ok bool) (caller, error) {
	if !ok {
		return caller{}, errToken
	}
	c, err := a.whose(r, token)
	if err != nil {
		return c, err
	}
	return a.admitCaller(w, r, c)
}

// admitCaller admits a request of somebody who is known.
func (a *API) admitCaller(w http.ResponseWriter, r *http.Request, c caller) (caller, error) {
	err := a.count(w, r, c)
	if err == nil {
		err = c.may(a.accesses[r.Pattern].scope)
	}
	noteOf(r.Context()).refused = err != nil
	return c, err
}

// count counts the request against its tenant's quota, about which w is told.
func (a *API) count(w http.ResponseWriter, r *http.Request, c caller) error {
	noteOf(r.Context()).caller = c
	limit, err := a.client.For(c.tenant).Admit(r.Context())
	announce(w.Header(), limit)
	return err
}

// whose returns whose token it is. An address that was wrong too often is told to wait,
// before Redis is asked.
func (a *API) whose(r *http.Request, token string) (caller, error) {
	if c, ok := a.configured(token); ok {
		return c, nil
	}
	if a.client.Knows(token) { // such a one is cheap to look up, so no others keep it out who come from there, by the same proxy, say
		if c, err := a.lookUp(r.Context(), token); !isWrong(err) {
			return c, err
		}
	}
	asked, wait := a.failures.enter(r.Context(), source(a.address(r)))
	if wait > 0 {
		return caller{}, tooManyFailures(wait)
	}
	c, err := a.lookUp(r.Context(), token)
	switch {
	case isWrong(err):
		// A token's secret is never said, nor whose it might be: of a made-up one that is a stranger's text.
		note := noteOf(r.Context())
		note.action, note.object = actionFailed, r.Pattern
		if asked.wrong(time.Now()) {
			note.action = actionThrottled
		}
		if errors.Is(err, direct.ErrTokenExpired) {
			note.caller = c
		}
	default:
		asked.notWrong()
	}
	return c, err
}

// isWrong reports whether a token was looked up, and is nobody's or expired.
func isWrong(err error) bool {
	return errors.Is(err, errToken) || errors.Is(err, direct.ErrTokenExpired)
}

// configured compares with every token that the settings name, so that the time it
// takes says nothing.
func (a *API) configured(token string) (c caller, ok bool) {
	got := HashToken(token)
	for want, of := range a.tokens {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			c, ok = caller{of, ownToken()}, true
		}
	}
	return c, ok
}

// lookUp returns whose token it is, by the settings or else the records.
func (a *API) lookUp(ctx context.Context, token string) (c caller, err error) {
	if c, ok := a.configured(token); ok {
		return c, nil
	}
	if a.isAdmin(HashToken(token)) {
		return c, newProblem(job.CodeForbidden, "the admin token is no tenant's: this needs one that a tenant has")
	}
	c.tenant, c.token, err = a.client.Authenticate(ctx, token)
	if errors.Is(err, job.ErrNoTenant) {
		return c, errToken
	}
	return c, err
}

// goesOn fails when the request's token was revoked or has expired since, or its tenant is
// disabled: what takes long asks at each step, as it would outlive all of these.
func (a *API) goesOn(ctx context.Context, r *http.Request, c caller) error {
	token, _ := bearer(r)
	return a.stillGood(ctx, token, c)
}

// stillGood is goesOn for a request with that token.
func (a *API) stillGood(ctx context.Context, token string, c caller) error {
	var err error
	if c.token.ID != "" { // else it has a capability
		_, err = a.lookUp(ctx, token)
	}
	if err == nil {
		err = a.client.For(c.tenant).Enabled(ctx)
	}
	var said *job.Error
	if isWrong(err) || errors.As(err, &said) {
		return err
	}
	return nil // a Redis that is away for a while is for the step itself to notice
}

// admin fails unless the request has the admin token. Only a tenant is told that its
// own is not enough.
func (a *API) admin(w http.ResponseWriter, r *http.Request) error {
	token, ok := bearer(r)
	if ok && a.isAdmin(HashToken(token)) {
		noteOf(r.Context()).caller.token.ID = record.OperatorToken
		return nil
	}
	if a.adminToken == nil {
		return newProblem(job.CodeForbidden, "this Glovebox has no admin API: its operator has set no GLOVEBOX_ADMIN_TOKEN")
	}
	if !ok {
		return errToken
	}
	c, err := a.whose(r, token)
	if err != nil {
		return err
	}
	noteOf(r.Context()).refused = true
	if err := a.count(w, r, c); err != nil {
		return err
	}
	return newProblem(job.CodeForbidden, "this needs the admin token")
}

func (a *API) isAdmin(got TokenHash) bool {
	return a.adminToken != nil && subtle.ConstantTimeCompare(got[:], a.adminToken[:]) == 1
}

// bearer is the token of the request, of which there may be one.
func bearer(r *http.Request) (string, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, found && strings.EqualFold(scheme, "Bearer") && len(r.Header.Values("Authorization")) == 1
}

// announce tells of the tenant's quota of requests, if it has one, as
// draft-ietf-httpapi-ratelimit-headers does.
func announce(h http.Header, l direct.RateLimit) {
	if l.Quota == 0 {
		return
	}
	until := l.Reset
	if l.Wait > 0 {
		until = l.Wait
		h.Set("Retry-After", fmt.Sprint(seconds(l.Wait)))
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"requests";q=%d;w=%d`, l.Quota, seconds(l.Window)))
	h.Set("RateLimit", fmt.Sprintf(`"requests";r=%d;t=%d`, l.Remaining, seconds(until)))
}

// seconds rounds up: a client that comes back after that many is not too early.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// refuse answers a request that was not admitted.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errToken) || errors.Is(err, direct.ErrTokenExpired) {
		writeUnauthorized(w, r, err)
		return
	}
	a.writeError(w, r, err)
}

func writeUnauthorized(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="glovebox"`)
	if r.Header.Get("Authorization") != "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="glovebox", error="invalid_token"`)
	}
	writeProblem(w, unauthorized(err, r.Header.Get("Authorization") != ""))
}

// unauthorized is the problem of a request whose token is nobody's, or that has none.
func unauthorized(err error, hasToken bool) problem {
	detail := "this needs a token: Authorization: Bearer <token>"
	if hasToken {
		detail = "the token is not one of this Glovebox"
		if errors.Is(err, direct.ErrTokenExpired) { // whoever has it may know
			detail = err.Error()
		}
	}
	return newProblem(job.CodeUnauthorized, detail)
}
