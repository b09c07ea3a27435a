package e2b

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
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

// prepareSandbox reads what is asked for.
func prepareSandbox(ctx context.Context, r *http.Request, c *facade.Call) (s job.SessionSettings, err error) {
	q, err := readRequest(ctx, r, c)
	if err != nil {
		return s, err
	}
	if err := refused(q); err != nil {
		return s, err
	}
	template, err := q.text("templateID")
	if err != nil {
		return s, err
	}
	metadata, err := q.texts("metadata")
	if err != nil {
		return s, err
	}
	if s.Env, err = q.texts("envVars"); err != nil {
		return s, err
	}
	timeout, given, err := q.number("timeout")
	if err != nil {
		return s, err
	}
	if !given {
		timeout = defaultTimeout
	}
	if s.TTLSeconds, err = lifetime(timeout); err != nil {
		return s, err
	}
	return fill(ctx, c, s, template, metadata)
}

// fill says what a session has besides.
func fill(ctx context.Context, c *facade.Call, s job.SessionSettings, template string, metadata map[string]string) (job.SessionSettings, error) {
	var err error
	if s.Runtime, err = runtimeOf(ctx, c, template); err != nil {
		return s, err
	}
	s.IdleSeconds = s.TTLSeconds                         // a sandbox of E2B's lives on if nothing is asked of it
	env := map[string]string{"GLOVEBOX_RESULTS": "only"} // what clients are told as a result, or as an error, is not printed, too
	maps.Copy(env, s.Env)
	s.Env = env
	s.Metadata = map[string]string{templateKey: template}
	for k, v := range metadata {
		if strings.HasPrefix(k, ownKeys) {
			return s, facade.BadRequest("metadata." + job.Clip(k, 60) + " is not for clients: want a name that doesn't begin with " + ownKeys)
		}
		s.Metadata[k] = v
	}
	if c.Anonymous {
		s.Metadata[guestKey] = "true"
	}
	maximums, err := c.Client.TenantMaximums(ctx)
	if err != nil {
		return s, err
	}
	s.Limits = sandboxLimits(maximums)
	return s, nil
}

// sandboxLimits are those of E2B's sandboxes, as far as the tenant may have so much: there is no time limit of an execution but
// the client's own, and what is read of a file is printed.
func sandboxLimits(m job.Limits) job.Limits {
	return job.Limits{
		WallMS: m.WallMS, MemoryMB: min(512, m.MemoryMB), DiskMB: min(256, m.DiskMB), Processes: min(256, m.Processes), OpenFiles: min(1024, m.OpenFiles),
		OutputKB: m.OutputKB, SourceKB: m.SourceKB, Artifacts: min(64, m.Artifacts),
	}
}

// refused fails for what would change what a sandbox can do, and is not there.
func refused(q request) error {
	pause, err := q.truth("autoPause")
	if err != nil {
		return err
	}
	if pause {
		return facade.BadRequest("autoPause: Glovebox's sandboxes can't be paused; they end")
	}
	// There is no network. That isn't refused: E2B's SDK for Python asks for it with each sandbox, unless told not to.
	if _, err := q.truth("allow_internet_access"); err != nil {
		return err
	}
	for _, name := range []string{"mcp", "volumeMounts", "iam"} {
		if q.has(name) && string(q[name]) != "[]" && string(q[name]) != "{}" {
			return facade.BadRequest(name + ": Glovebox has no such thing")
		}
	}
	return nil
}

// lifetime is a session's, for a timeout in seconds.
func lifetime(timeout int64) (int64, error) {
	if timeout > job.MaxTTLSeconds {
		return 0, facade.BadRequest(fmt.Sprintf("timeout is %d: Glovebox's sandboxes live %d seconds at most", timeout, job.MaxTTLSeconds))
	}
	return max(timeout, 1), nil
}

// multi is the runtime with several languages.
const multi = "multi"

// runtimeOf is the runtime of a template: E2B's own templates are the runtime with several languages, or where no worker has that, Python. Any
// other is a runtime's name.
func runtimeOf(ctx context.Context, c *facade.Call, template string) (string, error) {
	name, _, _ := strings.Cut(template, ":") // a tag
	switch name {
	case "", "base", "code-interpreter", "code-interpreter-v1":
	default:
		return name, nil
	}
	list, err := c.Client.Runtimes(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(list, func(r producer.Runtime) bool { return r.Name == multi }) {
		return multi, nil
	}
	return "python", nil
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

// setTimeout lets a sandbox live so many seconds from now.
func setTimeout(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	prolong(w, r, c, "timeout", func(job.Session, int64) bool { return true })
}

// refreshSandbox is setTimeout that makes no life shorter.
func refreshSandbox(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	prolong(w, r, c, "duration", func(x job.Session, asked int64) bool {
		return time.Now().Add(time.Duration(asked) * time.Second).After(x.ExpiresAt)
	})
}

// prolong lets a sandbox live as many seconds from now as the field says, where that is wanted.
func prolong(w http.ResponseWriter, r *http.Request, c *facade.Call, field string, wanted func(x job.Session, asked int64) bool) {
	ctx, id := r.Context(), r.PathValue("id")
	x, err := running(ctx, c, id)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	q, err := readRequest(ctx, r, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	asked, given, err := q.number(field)
	if err == nil && !given {
		err = facade.BadRequest(field + " is missing: want seconds")
	}
	if err == nil {
		asked, err = lifetime(asked)
	}
	if err == nil && wanted(x, asked) {
		c.Host.Note(id)
		_, err = c.Client.ChangeSession(ctx, id, job.SessionChange{TTLSeconds: &asked, IdleSeconds: &asked})
	}
	switch {
	case errors.Is(err, job.ErrSessionEnded):
		err = statusError{http.StatusNotFound, fmt.Sprintf("sandbox %.100q not found", id)}
	case err != nil:
		err = inTheirWords(err)
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
		if x, err = c.Client.ChangeSession(ctx, id, job.SessionChange{TTLSeconds: &wanted, IdleSeconds: &wanted}); err != nil {
			fail(w, r, c, inTheirWords(err))
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

// listSandboxes lists the tenant's sessions that have not ended, newest first. Clients without a token are told of none: which are theirs
// nobody knows, and the ID is all that keeps one from another.
func listSandboxes(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	query := r.URL.Query()
	limit := producer.MaxPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			fail(w, r, c, facade.BadRequest(fmt.Sprintf("limit is %.40q: want a number from 1 to %d", text, producer.MaxPage)))
			return
		}
		limit = min(n, producer.MaxPage)
	}
	matches, err := filterOf(query)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	list, next, err := listRunning(r.Context(), c, query.Get("nextToken"), limit, matches)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	facade.Write(w, http.StatusOK, list)
}

// listRunning returns up to limit sandboxes, and where to go on.
func listRunning(ctx context.Context, c *facade.Call, cursor string, limit int, matches func(sandbox) bool) (list []sandbox, next string, err error) {
	list = []sandbox{}
	for scanned := 0; ; {
		page, err := c.Client.ListSessions(ctx, producer.SessionListOptions{Cursor: cursor, Limit: max(limit-len(list), leastScanned)})
		if err != nil || c.Anonymous {
			return list, "", err
		}
		for i, x := range page.Sessions {
			s := shown(x)
			if x.Status == job.SessionEnded || !matches(s) {
				continue
			}
			if list = append(list, s); len(list) == limit {
				if i+1 < len(page.Sessions) {
					page.Next = direct.SessionCursor(x)
				}
				return list, page.Next, nil
			}
		}
		cursor = page.Next
		if scanned += len(page.Sessions); cursor == "" || scanned >= mostScanned {
			return list, cursor, nil
		}
	}
}

// filterOf reads which sandboxes are asked for.
func filterOf(query url.Values) (func(sandbox) bool, error) {
	metadata, err := url.ParseQuery(query.Get("metadata"))
	if err != nil {
		return nil, facade.BadRequest("metadata is not a query of names and values")
	}
	states := strings.Split(strings.Join(query["state"], ","), ",")
	return func(s sandbox) bool {
		for k := range metadata {
			if s.Metadata[unescaped(k)] != unescaped(metadata.Get(k)) {
				return false
			}
		}
		return (states[0] == "" || slices.Contains(states, s.State)) && (query.Get("template") == "" || query.Get("template") == s.TemplateID)
	}, nil
}

// unescaped undoes the second of two escapes: SDKs escape names and values before they make a query of them.
func unescaped(s string) string {
	if once, err := url.QueryUnescape(s); err == nil {
		return once
	}
	return s
}
