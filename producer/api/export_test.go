package api

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Patterns lists the routes as they were registered, those included that the OpenAPI
// document doesn't know.
func (a *API) Patterns() []string { return a.patterns }

// ServeWith is Serve with a handler around the API's own.
func (a *API) ServeWith(ctx context.Context, l net.Listener, h http.Handler) error {
	return a.serve(ctx, l, h)
}

// TakeToolCalls takes all of a tenant's places for calls of tools.
func (a *API) TakeToolCalls(tb testing.TB, tenant string) (giveBack func()) {
	tb.Helper()
	var releases []func()
	for range maxToolCalls {
		release, err := a.toolCalls.acquire(tenant)
		if err != nil {
			tb.Fatal(err)
		}
		releases = append(releases, release)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// SetBodyTime changes how long the sender of a batch may take.
func (a *API) SetBodyTime(d time.Duration) { a.bodyTime = d }

// SetSmallTime changes how long the sender of a small body may take.
func (a *API) SetSmallTime(d time.Duration) { a.smallTime = d }

// SetFailureShare changes how long an address waits for each wrong token that is beyond its burst.
func (a *API) SetFailureShare(d time.Duration) { a.failures.share = d }

// BodiesHeld is what bodies hold now, and what is made of them.
func (a *API) BodiesHeld() (held int64) {
	for _, b := range []*memoryBudget{a.smallBodies, a.bodies, a.work} {
		b.mu.Lock()
		for _, n := range b.of {
			held += n
		}
		b.mu.Unlock()
	}
	return held
}

// SetAnswerTime changes how long who is sent an answer may pause.
func (a *API) SetAnswerTime(d time.Duration) { a.answerTime = d }

// SetLookInterval changes how often what lasts looks its token up again.
func (a *API) SetLookInterval(d time.Duration) { a.look = d }

// Needs returns the scope that a route asks for.
func Needs(pattern string) job.Scope { return accesses[pattern].scope }

// Action returns what the audit log calls a route.
func Action(pattern string) string { return accesses[pattern].action }
