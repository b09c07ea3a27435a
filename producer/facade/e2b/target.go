package e2b

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
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
	// maxEnded is how many sessions in a row may have ended under the keys of the debug session before it is given up.
	maxEnded = 16
)

// debugSession is the session that stands for debugID: one for each token, started when it is first asked for.
func debugSession(ctx context.Context, c *facade.Call) (job.Session, error) {
	x, last, err := findDebug(ctx, c)
	if err != nil || x.ID != "" {
		return x, err
	}
	if err := c.Host.May(job.ScopeSubmit); err != nil { // a route that reads starts it, too
		return job.Session{}, err
	}
	return startDebug(ctx, c, last)
}

// findDebug looks for the debug session of a token. Where none runs, it has no ID, and last is the latest that has ended.
func findDebug(ctx context.Context, c *facade.Call) (x job.Session, last string, err error) {
	oldest := time.Now().Add(-job.MaxTTLSeconds * time.Second) // those before have ended
	for o := (producer.SessionListOptions{Limit: producer.MaxPage}); ; {
		page, err := c.Client.ListSessions(ctx, o)
		if err != nil {
			return job.Session{}, "", err
		}
		for _, x := range page.Sessions {
			if x.Metadata[debugKey] != c.Token || !visible(c, x) {
				continue
			}
			if x.Status != job.SessionEnded {
				return x, "", nil
			}
			if last == "" {
				last = x.ID
			}
		}
		n := len(page.Sessions)
		if o.Cursor = page.Next; o.Cursor == "" || n > 0 && page.Sessions[n-1].CreatedAt.Before(oldest) {
			return job.Session{}, last, nil
		}
	}
}

// startDebug starts a debug session after the last. Clients that ask at the same time get the same, by its key; a key under which there is one that
// has ended leads to the next.
func startDebug(ctx context.Context, c *facade.Call, last string) (job.Session, error) {
	s, err := fill(ctx, c, job.SessionSettings{TTLSeconds: job.MaxTTLSeconds}, "", nil)
	if err != nil {
		return job.Session{}, err
	}
	delete(s.Metadata, templateKey)
	s.Metadata[debugKey] = c.Token
	if last == "" { // what began in an earlier span has ended, and need not be gone through
		last = strconv.FormatInt(time.Now().Unix()/job.MaxTTLSeconds, 10)
	}
	for range maxEnded {
		s.IdempotencyKey = "e2b-debug " + c.Token + " after " + last
		x, err := c.Client.StartSession(ctx, s)
		if err != nil {
			return job.Session{}, err
		}
		if x.Status != job.SessionEnded {
			c.Host.Did("session.start", x.ID)
			return x, nil
		}
		last = x.ID
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
