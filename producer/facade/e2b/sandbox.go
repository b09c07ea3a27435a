package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// defaultTimeout is how long a sandbox lives whose client doesn't say, in seconds. It is E2B's.
	defaultTimeout = 300
	// envdVersion is whose contract this is: from 0.5.7 on files may be sent as they are, and 0.6.2 would have metadata of files.
	envdVersion = "0.5.7"
	// ownKeys is how the names in a session's metadata begin that are the façade's: its clients can't set them. Clients of the native
	// routes can: what they say there about a session is for those who may reach it by a token of its tenant anyway.
	ownKeys = "e2b."
	// templateKey is where a session's metadata has the template that its client asked for.
	templateKey = ownKeys + "template"
	// guestKey marks a session that a client without a token started.
	guestKey = ownKeys + "guest"
	// mostScanned is how many sessions, the newest, are looked at for one answer, and leastScanned how many are asked for at once.
	mostScanned  = 200
	leastScanned = 50
)

// visible reports whether a session is there for a client. For one without a token those are that such a client started, and none with
// secrets: those of the tenant's own users are not there.
func visible(c *facade.Call, x job.Session) bool {
	return !c.Anonymous || x.Metadata[guestKey] != "" && len(x.Secrets) == 0
}

// sandbox is one as the API shows it.
type sandbox struct {
	TemplateID         string            `json:"templateID"`
	SandboxID          string            `json:"sandboxID"`
	ClientID           string            `json:"clientID"`
	StartedAt          time.Time         `json:"startedAt"`
	EndAt              time.Time         `json:"endAt"`
	State              string            `json:"state"`
	CPUCount           int               `json:"cpuCount"`
	MemoryMB           int64             `json:"memoryMB"`
	DiskSizeMB         int64             `json:"diskSizeMB"`
	EnvdVersion        string            `json:"envdVersion"`
	Metadata           map[string]string `json:"metadata"`
	Domain             string            `json:"domain,omitempty"`
	EnvdAccessToken    string            `json:"envdAccessToken,omitempty"`
	TrafficAccessToken string            `json:"trafficAccessToken,omitempty"`
}

// shown is a session as a sandbox.
func shown(x job.Session) sandbox {
	s := sandbox{
		TemplateID: x.Runtime, SandboxID: x.ID, ClientID: "glovebox", StartedAt: x.CreatedAt, EndAt: x.ExpiresAt, State: "running",
		CPUCount: max(int(x.Limits.CPUs), 1), MemoryMB: x.Limits.MemoryMB, DiskSizeMB: x.Limits.DiskMB, EnvdVersion: envdVersion, Metadata: map[string]string{},
	}
	for k, v := range x.Metadata {
		switch {
		case k == templateKey:
			s.TemplateID = v
		case !strings.HasPrefix(k, ownKeys):
			s.Metadata[k] = v
		}
	}
	return s
}

// toConnect is a sandbox with what its client is to send with requests to it: SDKs send no key there, but what they are told here. They
// take it to the domain, unless they were told another address: without one, to E2B's.
func toConnect(r *http.Request, c *facade.Call, x job.Session) (sandbox, error) {
	s := shown(x)
	s.Domain = r.Host
	if c.Anonymous {
		return s, nil
	}
	token, err := c.Host.SessionToken(x.ID, x.CreatedAt.Add(job.MaxTTLSeconds*time.Second)) // it can't live longer
	s.EnvdAccessToken, s.TrafficAccessToken = token, token
	return s, err
}

// createSandbox starts a session. It is answered at once: what is asked of the sandbox waits until a worker holds it.
func createSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	settings, err := prepareSandbox(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	x, err := c.Client.StartSession(ctx, settings)
	if err != nil {
		fail(w, r, c, inTheirWords(err))
		return
	}
	c.Host.Note(x.ID)
	made, err := toConnect(r, c, x)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusCreated, made)
}

// inTheirWords says what is wrong with a session in the names of the request.
func inTheirWords(err error) error {
	var invalid job.Invalid
	if !errors.As(err, &invalid) || len(invalid) == 0 {
		return err
	}
	f := invalid[0]
	switch f.Field {
	case "runtime":
		return statusError{http.StatusNotFound, fmt.Sprintf("template %.100v not found: want code-interpreter-v1, or one of %s", f.Value, f.Allowed)}
	case "ttl_seconds", "idle_seconds":
		f.Field = "timeout"
	case "env":
		f.Field = "envVars"
	}
	return facade.BadRequest(f.Error())
}

// running is the session of that id, if it has not ended.
func running(ctx context.Context, c *facade.Call, id string) (job.Session, error) {
	x, err := c.Client.Session(ctx, id)
	if errors.Is(err, job.ErrNoSession) || err == nil && (x.Status == job.SessionEnded || !visible(c, x)) {
		return job.Session{}, statusError{http.StatusNotFound, fmt.Sprintf("sandbox %.100q not found", id)}
	}
	return x, err
}

func showSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	x, err := running(r.Context(), c, r.PathValue("id"))
	if err != nil {
		fail(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusOK, shown(x))
}

func killSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx, id := r.Context(), r.PathValue("id")
	_, err := running(ctx, c, id)
	if err == nil {
		c.Host.Note(id)
		_, err = c.Client.EndSession(ctx, id)
	}
	if err != nil {
		fail(w, r, c, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// connectSandbox answers how to reach a sandbox that runs, and lets it live longer where it would end before the timeout, as far as
// it can.
func connectSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx, id := r.Context(), r.PathValue("id")
	q, err := readRequest(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	timeout, given, err := q.number("timeout")
	if err != nil {
		fail(w, r, c, err)
		return
	}
	if !given {
		timeout = defaultTimeout
	}
	x, err := running(ctx, c, id)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	left := int64(time.Until(x.ExpiresAt).Seconds())
	most := int64(time.Until(x.CreatedAt.Add(job.MaxTTLSeconds*time.Second)).Seconds()) - 1
	if wanted := min(timeout, most); wanted > left {
		c.Host.Note(id)
		if x, err = changeLife(ctx, c, x, wanted); err != nil {
			fail(w, r, c, err)
			return
		}
	}
	found, err := toConnect(r, c, x)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusOK, found)
}

// resumeSandbox refuses: a sandbox that is there runs.
func resumeSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if _, err := running(r.Context(), c, r.PathValue("id")); err != nil {
		fail(w, r, c, err)
		return
	}
	writeFault(w, http.StatusConflict, "the sandbox is running: Glovebox's sandboxes can't be paused")
}

// listMetrics has none to list.
func listMetrics(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if _, err := running(r.Context(), c, r.PathValue("id")); err != nil {
		fail(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusOK, []struct{}{})
}
