// Package e2b answers clients of E2B's code interpreter: a sandbox of theirs is a session of ours, and what they have
// it do is an execution. There are the API that starts and ends sandboxes, the code interpreter in a sandbox, and what
// SDKs ask of envd, the daemon in a sandbox that has its files and processes. docs/moving.md says what differs.
package e2b

import (
	"errors"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// New returns the façade.
func New() facade.Facade {
	return facade.Facade{Name: "e2b", Base: "/e2b", Refuse: refuse, Session: sessionOf, Languages: languages(), Routes: []facade.Route{
		{Pattern: "POST /sandboxes", Scope: job.ScopeSubmit, Action: "session.start", Serve: createSandbox},
		{Pattern: "POST /v2/sandboxes", Scope: job.ScopeSubmit, Action: "session.start", Serve: createSandbox},
		{Pattern: "GET /sandboxes", Scope: job.ScopeRead, Serve: listSandboxes},
		{Pattern: "GET /v2/sandboxes", Scope: job.ScopeRead, Serve: listSandboxes},
		{Pattern: "GET /sandboxes/{id}", Scope: job.ScopeRead, Serve: showSandbox},
		{Pattern: "DELETE /sandboxes/{id}", Scope: job.ScopeSubmit, Action: "session.end", Serve: killSandbox},
		{Pattern: "POST /sandboxes/{id}/timeout", Scope: job.ScopeSubmit, Action: "session.change", Serve: setTimeout},
		{Pattern: "POST /sandboxes/{id}/refreshes", Scope: job.ScopeSubmit, Action: "session.change", Serve: refreshSandbox},
		{Pattern: "POST /sandboxes/{id}/connect", Scope: job.ScopeSubmit, Action: "session.change", Serve: connectSandbox},
		{Pattern: "POST /v2/sandboxes/{id}/connect", Scope: job.ScopeSubmit, Action: "session.change", Serve: connectSandbox},
		{Pattern: "POST /sandboxes/{id}/resume", Scope: job.ScopeSubmit, Serve: resumeSandbox},
		{Pattern: "GET /sandboxes/{id}/metrics", Scope: job.ScopeRead, Serve: listMetrics},
		{Pattern: "POST /sandboxes/{id}/pause", Scope: job.ScopeSubmit, Serve: missing("sandboxes can't be paused")},
		{Pattern: "POST /sandboxes/{id}/snapshots", Scope: job.ScopeSubmit, Serve: missing("there are no snapshots of sandboxes")},
		{Pattern: "POST /sandboxes/{id}/fork", Scope: job.ScopeSubmit, Serve: missing("sandboxes can't be forked")},
		{Pattern: "PUT /sandboxes/{id}/network", Scope: job.ScopeSubmit, Serve: missing("sandboxes have no network")},

		{Pattern: "GET /health", Scope: job.ScopeRead, Serve: health},
		{Pattern: "POST /execute", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: execute},
		{Pattern: "GET /contexts", Scope: job.ScopeRead, Serve: listContexts},
		{Pattern: "POST /contexts", Scope: job.ScopeSubmit, Action: "session.change", Serve: createContext},
		{Pattern: "DELETE /contexts/{id}", Scope: job.ScopeSubmit, Action: "job.cancel", Serve: removeContext},
		{Pattern: "POST /contexts/{id}/restart", Scope: job.ScopeSubmit, Action: "job.cancel", Serve: restartContext},

		// Files are read by code that a session executes, so whoever reads one submits, and needs job.ScopeRead besides.
		{Pattern: "GET /files", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: readFile},
		{Pattern: "POST /files", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: writeFiles},
		{Pattern: "POST /filesystem.Filesystem/{method}", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: filesystem},
		{Pattern: "POST /process.Process/{method}", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: process},
		{Pattern: "POST /process.Process/SendSignal", Scope: job.ScopeSubmit, Action: "job.cancel", Serve: signalProcess},
	}}
}

// languages are by which names clients ask for an interpreter.
func languages() (list []facade.Language) {
	for _, l := range interpreters {
		list = append(list, facade.Language{Runtime: l.runtime, Names: l.names})
	}
	return list
}

// refuse answers what is not served as E2B would: the interpreter says what is wrong as text, all else as JSON.
func refuse(w http.ResponseWriter, r *http.Request, p *producer.Problem) {
	status, message := facade.Say(p)
	path := strings.TrimPrefix(r.URL.Path, "/e2b")
	switch {
	case strings.HasPrefix(path, "/filesystem.") || strings.HasPrefix(path, "/process."):
		refuseCall(w, r, callError{codeOfStatus(status), message})
	case path == "/execute", path == "/health", strings.HasPrefix(path, "/contexts"):
		writeText(w, status, message)
	default:
		writeFault(w, status, message)
	}
}

// missing refuses what Glovebox has nothing for.
func missing(what string) func(http.ResponseWriter, *http.Request, *facade.Call) {
	return func(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
		writeFault(w, http.StatusNotImplemented, "Glovebox has no such thing: "+what)
	}
}

// fault is an error of the API and of envd.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func writeFault(w http.ResponseWriter, status int, message string) {
	facade.Write(w, status, fault{status, message})
}

func writeText(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(message)) // the client may have left
}

// statusError is an answer that is not a success.
type statusError struct {
	status  int
	message string
}

func (e statusError) Error() string { return e.message }

// What clients are told of a sandbox that isn't there: SDKs take 502, which a proxy of E2B's answers, for one that has ended.
var (
	errNoSandbox = statusError{http.StatusNotFound, "The sandbox was not found"}
	errEnded     = statusError{http.StatusBadGateway, "The sandbox is not running anymore"}
)

// problemOf says what err means, in E2B's way where E2B has one.
func problemOf(r *http.Request, c *facade.Call, err error) *producer.Problem {
	var said statusError
	var bad facade.BadRequest
	switch {
	case errors.As(err, &said):
		return producer.NewProblem(said.status, "", said.message)
	case errors.As(err, &bad):
		return producer.NewProblem(http.StatusBadRequest, job.CodeInvalid, bad.Error())
	case errors.Is(err, job.ErrSessionEnded):
		return producer.NewProblem(errEnded.status, "", errEnded.message)
	}
	return c.Host.Problem(r.Context(), err)
}

// fail answers what went wrong.
func fail(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	refuse(w, r, problemOf(r, c, err))
}
