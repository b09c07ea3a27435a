package direct

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Links turns what a stored result calls "artifacts/plot.png" or "stdout" into URLs of
// the API that need no token of a tenant, because they carry a capability.
//
// Every reader of one result gets the same URLs: they expire with the job's record.
type Links struct {
	base   string
	host   string // of base, without its port
	tokens *artifacts.Tokens
}

// NewLinks returns Links to the API that the world reaches at base.
func NewLinks(base string, tokens *artifacts.Tokens) (*Links, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("read URL of the API: %.100q is not http(s)://host[:port][/path]", base)
	}
	if tokens == nil {
		return nil, errors.New("link to artifacts: no keys to sign with")
	}
	return &Links{strings.TrimRight(base, "/"), u.Hostname(), tokens}, nil
}

// IsHost reports whether a Host header names the API as the world does. Ports don't matter: proxies change them.
func (l *Links) IsHost(header string) bool {
	u, err := url.Parse("http://" + header)
	return err == nil && strings.EqualFold(u.Hostname(), l.host)
}

// Absolute returns a result whose URLs lead to the API, until its job expires.
func (l *Links) Absolute(r job.Result, expires time.Time) (job.Result, error) {
	var err error
	link := func(stored, path string) string {
		if stored == "" || err != nil {
			return ""
		}
		var u string
		u, err = l.URL(r.ID, path, expires)
		return u
	}
	r.StdoutURL = link(r.StdoutURL, producer.Stdout)
	r.StderrURL = link(r.StderrURL, producer.Stderr)
	r.Artifacts = slices.Clone(r.Artifacts)
	for i, a := range r.Artifacts {
		r.Artifacts[i].URL = link(a.URL, producer.ArtifactPath(a.Name))
	}
	return r, err
}

// URL leads to a file of a job, by its path as in [producer.Files.Open], until then.
func (l *Links) URL(id, path string, expires time.Time) (string, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return "", fmt.Errorf("link to job %.80q: not a job id", id)
	}
	return l.sign(producer.FilePath(id, path), artifacts.Capability{Tenant: tenant, Job: id, Path: path, Expires: expires})
}

// JobURL leads to a job, for who has a token of its tenant.
func (l *Links) JobURL(id string) string { return l.base + producer.JobPath(id) }

// RunURL leads to a run of a pipeline, for a token of its tenant.
func (l *Links) RunURL(id string) string { return l.base + producer.RunPath(id) }

// UsageURL is where tenants ask what their jobs used.
func (l *Links) UsageURL() string { return l.base + "/v1/usage" }

// BatchURL leads to the results of a batch, until then.
func (l *Links) BatchURL(id string, expires time.Time) (string, error) {
	tenant, ok := job.TenantOfBatch(id)
	if !ok {
		return "", fmt.Errorf("link to batch %.80q: not a batch id", id)
	}
	return l.sign(producer.BatchPath(id)+"/"+producer.Results, artifacts.Capability{Tenant: tenant, Job: id, Path: producer.Results, Expires: expires})
}

const (
	// sessionPath is what a session's token permits, where a file's has a path. No file is called so.
	sessionPath = "session of token "
	// sessionPrefix is how such a token begins.
	sessionPrefix = "gbs_"
)

// SessionToken returns a token that opens a session until then, to be taken as the tenant's token of that id.
func (l *Links) SessionToken(session, tokenID string, until time.Time) (string, error) {
	tenant, ok := job.TenantOfSession(session)
	if !ok || tokenID == "" || strings.Contains(tokenID, ".") {
		return "", fmt.Errorf("make token of session %.80q for token %.80q: not such ids", session, tokenID)
	}
	signed, err := l.tokens.Sign(artifacts.Capability{Tenant: tenant, Job: session, Path: sessionPath + tokenID, Expires: until})
	return sessionPrefix + tokenID + "." + signed, err
}

// VerifySession returns which token a session's token stands for. It fails with artifacts.ErrTokenInvalid, also for another
// session's, or artifacts.ErrTokenExpired.
func (l *Links) VerifySession(token, session string) (tenant, tokenID string, err error) {
	rest, ok := strings.CutPrefix(token, sessionPrefix)
	tokenID, signed, found := strings.Cut(rest, ".")
	if !ok || !found {
		return "", "", artifacts.ErrTokenInvalid
	}
	c, err := l.tokens.Verify(signed, session, sessionPath+tokenID, time.Now())
	return c.Tenant, tokenID, err
}

func (l *Links) sign(path string, c artifacts.Capability) (string, error) {
	token, err := l.tokens.Sign(c)
	if err != nil {
		return "", err
	}
	return l.base + path + "?token=" + url.QueryEscape(token), nil
}

// Verify returns the tenant whose file the token opens. It fails with
// artifacts.ErrTokenInvalid or artifacts.ErrTokenExpired.
func (l *Links) Verify(token, id, path string) (tenant string, err error) {
	c, err := l.tokens.Verify(token, id, path, time.Now())
	return c.Tenant, err
}
