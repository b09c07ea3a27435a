package e2b

import (
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
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
	case errors.Is(err, job.ErrNoSession):
		return x, errNoSandbox
	case err == nil && x.Status == job.SessionEnded:
		return x, errEnded
	}
	return x, err
}

const (
	// debugID is the sandbox of SDKs that were told E2B_DEBUG=true, which start none.
	debugID = "debug_sandbox_id"
	// debugKey is where the metadata of the session that is it says whose it is.
	debugKey = "e2b.debug"
)

// debugSession is the session that stands for debugID: one for each token, started when it is first asked for.
func debugSession(ctx context.Context, c *facade.Call) (job.Session, error) {
	last := ""
	oldest := time.Now().Add(-job.MaxTTLSeconds * time.Second)
	for o := (producer.SessionListOptions{Limit: producer.MaxPage}); ; {
		page, err := c.Client.ListSessions(ctx, o)
		if err != nil {
			return job.Session{}, err
		}
		for _, x := range page.Sessions {
			if x.Metadata[debugKey] != c.Token {
				continue
			}
			if x.Status != job.SessionEnded {
				return x, nil
			}
			if last == "" {
				last = x.ID
			}
		}
		n := len(page.Sessions)
		if o.Cursor = page.Next; o.Cursor == "" || n > 0 && page.Sessions[n-1].CreatedAt.Before(oldest) {
			break
		}
	}
	s, err := fill(ctx, c, job.SessionSettings{TTLSeconds: job.MaxTTLSeconds}, "", nil)
	if err != nil {
		return job.Session{}, err
	}
	s.Metadata = map[string]string{debugKey: c.Token}
	s.IdempotencyKey = "e2b-debug " + c.Token + " after " + last // who asks at the same time gets the same
	x, err := c.Client.StartSession(ctx, s)
	if err == nil {
		c.Host.Note(x.ID)
	}
	return x, err
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
