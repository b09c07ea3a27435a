package e2b

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// hostLabel is how the name of a host begins that is a sandbox's: the port, and the sandbox's ID.
var hostLabel = regexp.MustCompile(`^([0-9]{1,5})-([0-9a-z]{1,32}-s-[0-9a-z]{26})\.`)

// target is the sandbox that a request is to, and its port there: of the header that SDKs send, or of the host's name.
func target(r *http.Request) (id, port string) {
	id, port = r.Header.Get("E2b-Sandbox-Id"), r.Header.Get("E2b-Sandbox-Port")
	if id != "" {
		return id, port
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if m := hostLabel.FindStringSubmatch(host); m != nil {
		return m[2], m[1]
	}
	return "", port
}

// inSandbox are the routes of a sandbox's own, by how their paths begin: all that the access tokens of one are good for.
var inSandbox = []string{"/health", "/execute", "/contexts", "/files", "/filesystem.Filesystem/", "/process.Process/"}

// sessionOf is the session by whose token a request may be admitted, "" for those to the API. It is the one that sandboxOf finds.
func sessionOf(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/e2b")
	if !slices.ContainsFunc(inSandbox, func(begin string) bool { return strings.HasPrefix(path, begin) }) {
		return ""
	}
	id, _ := target(r)
	return id
}

// sandboxOf is the session that a request is to. It fails with errNoSandbox for what is not the tenant's, and with errEnded.
func sandboxOf(ctx context.Context, r *http.Request, c *facade.Call) (job.Session, error) {
	id, _ := target(r)
	switch id {
	case "":
		return job.Session{}, facade.BadRequest("the header E2b-Sandbox-Id is missing")
	case debugID:
		return debugSession(ctx, c)
	}
	x, err := c.Client.Session(ctx, id)
	switch {
	case errors.Is(err, job.ErrNoSession), err == nil && !visible(c, x):
		return job.Session{}, errNoSandbox
	case err == nil && x.Status == job.SessionEnded:
		return x, errEnded
	}
	return x, err
}

const (
	// debugID is the sandbox of SDKs that were told E2B_DEBUG=true, which start none.
	debugID = "debug_sandbox_id"
	// debugKey is where the metadata of the session that is it says whose it is.
	debugKey = ownKeys + "debug"
	// maxRaces is how often in a row a debug session may have ended that another request has started, before it is given up.
	maxRaces = 4
)

// debugSession is the session that stands for debugID: one for each token, started when it is first asked for. It is found by the
// idempotency key that it was started with, which counts the token's sessions of a span: what was started before the last one has ended,
// and so has what was started in an earlier span than the last.
func debugSession(ctx context.Context, c *facade.Call) (job.Session, error) {
	span := time.Now().Unix() / job.MaxTTLSeconds
	x, started, err := findDebug(ctx, c, span)
	if err == nil && started == 0 {
		x, _, err = findDebug(ctx, c, span-1)
	}
	if err != nil || x.ID != "" {
		return x, err
	}
	if err := c.Host.May(job.ScopeSubmit); err != nil { // a route that reads starts it, too
		return job.Session{}, err
	}
	return startDebug(ctx, c, span, started)
}

// findDebug looks for the debug session that a token started in a span, and counts all of them. Where none runs, it has no ID.
func findDebug(ctx context.Context, c *facade.Call, span int64) (x job.Session, started int, err error) {
	last := "" // of those that are there
	isThere := func(n int) bool {
		id := ""
		if err == nil {
			id, err = c.Client.SessionOfKey(ctx, debugName(c, span, n))
		}
		if id != "" {
			last = id
		}
		return id != ""
	}
	missing := 0
	for isThere(missing) {
		missing = 2*missing + 1
	}
	least := (missing + 1) / 2
	started = least + sort.Search(missing-least, func(n int) bool { return !isThere(least + n) })
	if err != nil || last == "" {
		return x, started, err
	}
	x, err = c.Client.Session(ctx, last)
	switch {
	case errors.Is(err, job.ErrNoSession): // it is no longer kept
		return job.Session{}, started, nil
	case err == nil && (x.Status == job.SessionEnded || x.Metadata[debugKey] != c.Token || !visible(c, x)):
		return job.Session{}, started, nil
	}
	return x, started, err
}

// debugName is the idempotency key of a token's nth debug session of a span.
func debugName(c *facade.Call, span int64, n int) string {
	return fmt.Sprintf("e2b-debug %s %d %d", c.Token, span, n)
}

// startDebug starts a debug session, the nth of a span. Clients that ask at the same time get the same, by its key.
func startDebug(ctx context.Context, c *facade.Call, span int64, n int) (job.Session, error) {
	s, err := fill(ctx, c, job.SessionSettings{TTLSeconds: job.MaxTTLSeconds}, "", nil)
	if err != nil {
		return job.Session{}, err
	}
	delete(s.Metadata, templateKey)
	s.Metadata[debugKey] = c.Token
	for race := range maxRaces {
		s.IdempotencyKey = debugName(c, span, n+race)
		x, err := c.Client.StartSession(ctx, s)
		if err != nil {
			return job.Session{}, err
		}
		if x.Status != job.SessionEnded {
			c.Host.Did("session.start", x.ID)
			return x, nil
		}
	}
	return job.Session{}, &job.Error{Code: job.CodeUnavailable, Message: "the debug session ends as soon as it starts"}
}

// interpreterPort is where the code interpreter listens in E2B's sandboxes.
const interpreterPort = "49999"

// health says whether a sandbox runs, as the code interpreter does, or envd.
func health(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if _, err := sandboxOf(r.Context(), r, c); err != nil {
		fail(w, r, c, err)
		return
	}
	if _, port := target(r); port != "" && port != interpreterPort {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	facade.Write(w, http.StatusOK, "OK")
}
