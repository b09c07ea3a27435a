package facade

import (
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// What routes ask for besides job.Scopes.
const (
	// AnyToken is for routes that any token of a tenant may use.
	AnyToken job.Scope = "any"
	// Public is for routes that need no token.
	Public job.Scope = "public"
)

// Facade is the contract of another server.
type Facade struct {
	// Name is what GLOVEBOX_FACADES calls it: "judge0".
	Name string
	// Base is the path below which its routes are, "/judge0". On a listening address of its own the
	// same routes are also there without it.
	Base string
	// Routes are all that it answers. A slash at the end of a request's path makes no difference.
	Routes []Route
	// Languages are all by which its clients ask for programs to be run, be there workers for them or not.
	Languages []Language
	// Session, if set, is the session that a request is to, or "": a token of that session's admits it, too ([Host.SessionToken]).
	// All that such a request reaches has to be in that session.
	Session func(r *http.Request) string
	// Refuse answers a request that is not admitted, has no route or met a fault of Glovebox, as the
	// server would. Headers such as Retry-After are set already.
	Refuse func(w http.ResponseWriter, r *http.Request, p *producer.Problem)
}

// Language is one of the other server's, on a runtime of Glovebox's.
type Language struct {
	Runtime string // of Glovebox
	// Names are what clients may call it, an id or a name, the one that it is listed by first.
	Names []string
}

// Submitted is the Action of a route that submits a job.
const Submitted = "job.submit"

// CompileTime is what a compile step may take at least: it has nothing to do with how long its program may.
const CompileTime = 30 * time.Second

// Route is one of a façade's.
type Route struct {
	// Pattern is as of http.ServeMux, below Base: "GET /submissions/{token}".
	Pattern string
	// Scope that the token needs: one of job.Scopes, AnyToken or Public.
	Scope job.Scope
	// Action is what the audit log calls it; "" for what changes nothing.
	Action string
	// Serve answers an admitted request. What it reads of bodies and results it reads by way of c.
	Serve func(w http.ResponseWriter, r *http.Request, c *Call)
}
