// Package judge0 answers clients of Judge0 CE 1.13.1: submissions, alone and in batches, are jobs.
//
// A submission's token is the UUID in its job's id ([job.UUIDOf]), so there is no index. What was sent is kept
// in the job's metadata, or, where it is large, as an upload that the metadata names; it is answered from
// there. The expected output is compared here, when somebody asks: it never enters a sandbox.
//
// The contract is that of the server's own source; docs/moving.md tells what differs.
package judge0

import (
	"net/http"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// version is the one whose contract this is. Clients choose ids of languages by it.
const version = "1.13.1"

// New returns the façade.
func New() facade.Facade {
	return facade.Facade{Name: "judge0", Base: "/judge0", Refuse: refuse, Languages: languageNames(), Routes: []facade.Route{
		{Pattern: "POST /submissions", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: create},
		{Pattern: "GET /submissions/{id}", Scope: job.ScopeRead, Serve: show},
		{Pattern: "POST /submissions/batch", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: createBatch},
		{Pattern: "GET /submissions/batch", Scope: job.ScopeRead, Serve: showBatch},
		{Pattern: "GET /submissions", Scope: job.ScopeRead, Serve: notForGuests(list)},
		{Pattern: "DELETE /submissions/{id}", Scope: job.ScopeManage, Action: "job.purge", Serve: remove},
		{Pattern: "GET /languages", Scope: facade.AnyToken, Serve: listLanguages},
		{Pattern: "GET /languages/all", Scope: facade.AnyToken, Serve: listAllLanguages},
		{Pattern: "GET /languages/{id}", Scope: facade.AnyToken, Serve: showLanguage},
		{Pattern: "GET /statuses", Scope: facade.AnyToken, Serve: listStatuses},
		{Pattern: "GET /about", Scope: facade.AnyToken, Serve: about},
		{Pattern: "GET /config_info", Scope: facade.AnyToken, Serve: configInfo},
		{Pattern: "GET /system_info", Scope: facade.AnyToken, Serve: systemInfo},
		{Pattern: "GET /statistics", Scope: job.ScopeRead, Serve: notForGuests(statistics)},
		{Pattern: "GET /workers", Scope: job.ScopeRead, Serve: notForGuests(workers)},
		{Pattern: "GET /version", Scope: facade.AnyToken, Serve: text(version)},
		{Pattern: "GET /isolate", Scope: facade.AnyToken, Serve: text("gVisor, as Glovebox runs it: https://gvisor.dev")},
		{Pattern: "GET /license", Scope: facade.AnyToken, Serve: text("Glovebox is licensed under the Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0")},
		{Pattern: "GET /{$}", Scope: facade.AnyToken, Serve: text("")},
		{Pattern: "POST /authenticate", Scope: facade.AnyToken, Serve: text("")},
		{Pattern: "POST /authorize", Scope: facade.AnyToken, Serve: authorize},
	}}
}

// refuse answers a request that is not served. Judge0 says nothing of a token that is wrong, nor of a
// path that it doesn't have.
func refuse(w http.ResponseWriter, _ *http.Request, p *producer.Problem) {
	switch {
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden, p.Status == http.StatusNotFound:
		w.WriteHeader(p.Status)
	case p.Code() == job.CodeQuotaExceeded:
		writeJSON(w, http.StatusServiceUnavailable, faultOf("queue is full"))
	default:
		writeJSON(w, p.Status, faultOf(p.Detail))
	}
}

// fault is an error that is not about a field.
type fault struct {
	Error string `json:"error"`
}

func faultOf(message string) fault { return fault{message} }

// fail answers an error.
func fail(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	refuse(w, r, c.Host.Problem(r.Context(), err))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := job.Marshal(v)
	if err != nil {
		panic(err) // all that is answered is made of what JSON has
	}
	facade.SetDeadline(w) // to store many jobs may have taken longer than an answer may
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may have left
}

// text answers a text that never changes.
func text(s string) func(http.ResponseWriter, *http.Request, *facade.Call) {
	return func(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(s)) // the client may have left
	}
}

// notForGuests refuses who has no token: what is answered tells of the tenant's other submissions.
func notForGuests(serve func(http.ResponseWriter, *http.Request, *facade.Call)) func(http.ResponseWriter, *http.Request, *facade.Call) {
	return func(w http.ResponseWriter, r *http.Request, c *facade.Call) {
		if c.Anonymous {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		serve(w, r, c)
	}
}

// authorize answers whether the token may do what an administrator may.
func authorize(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if err := c.Host.May(job.ScopeManage); err != nil || c.Anonymous {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	text("")(w, r, c)
}

func about(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
	writeJSON(w, http.StatusOK, map[string]string{
		"version": version, "homepage": "https://github.com/glovebox-run/glovebox",
		"source_code": "https://github.com/glovebox-run/glovebox", "maintainer": "Glovebox",
	})
}
