package producer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// waitSeconds is how long one request of a Wait asks the API to hold it.
	waitSeconds = 30
	// minRound keeps a Wait from spinning when an API answers at once, as one that
	// shuts down does.
	minRound = time.Second
	// maxAnswer bounds an answer: a result has two streams of 64 KiB, which JSON may make six
	// times as long, compile output, metadata, and hundreds of artifacts.
	maxAnswer = 8 << 20
	// outage is how long a Wait or a Watch bears with an API that doesn't answer, or with a
	// bucket that doesn't.
	outage     = 30 * time.Second
	retryDelay = 250 * time.Millisecond
)

// HTTP is [Jobs] over the API.
type HTTP struct {
	base   string
	token  string
	client *http.Client
}

var _ Jobs = (*HTTP)(nil)

// NewHTTP returns [Jobs] over the API at baseURL, as the tenant whose token it is. It
// does not talk to the API yet. The caller may Close it.
func NewHTTP(baseURL, token string) (*HTTP, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("read URL of the API: want http(s)://host[:port][/path], without user name or password")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = (waitSeconds + 30) * time.Second
	transport.DisableCompression = true // or the size of a download would not be known
	return &HTTP{
		base: strings.TrimRight(baseURL, "/"), token: token,
		client: &http.Client{Transport: transport, CheckRedirect: followDownload},
	}, nil
}

// followDownload follows the API to the bucket without taking the token there. Go
// would: it compares host names without ports.
func followDownload(req *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 3 {
		return fmt.Errorf("follow redirect to %s: not expected there", req.URL.Host)
	}
	req.Header.Del("Authorization")
	req.Header.Del("Referer") // it may hold a capability
	return nil
}

// Close ends idle connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Submit is [Jobs.Submit]. With an idempotency key it bears with an API that is away, or
// an answer that gets lost, for up to 30 s.
func (h *HTTP) Submit(ctx context.Context, spec job.Spec) (Job, error) {
	b, err := json.Marshal(spec)
	if err != nil {
		return Job{}, fmt.Errorf("encode spec: %w", err)
	}
	var failing time.Time
	for {
		var j Job
		err := h.json(ctx, http.MethodPost, "/v1/jobs", 0, b, &j)
		if spec.IdempotencyKey == "" || !broke(err) {
			return j, err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > outage {
			return j, err
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return j, errors.Join(ctx.Err(), err)
		}
	}
}

// broke reports whether an error leaves open if the API has done what it was asked for.
func broke(err error) bool {
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeTimeout:
		return true
	case "":
		return err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	return false
}

// Get is [Jobs.Get].
func (h *HTTP) Get(ctx context.Context, id string) (Job, error) {
	return h.job(ctx, http.MethodGet, id, 0)
}

// Cancel is [Jobs.Cancel].
func (h *HTTP) Cancel(ctx context.Context, id string) (Job, error) {
	return h.job(ctx, http.MethodDelete, id, 0)
}

// Wait is [Jobs.Wait]. The API holds each request until the job ends or 30 s have
// passed. Wait bears with an API that is away for up to 30 s.
func (h *HTTP) Wait(ctx context.Context, id string) (Job, error) {
	return awaitHTTP(ctx, func(ctx context.Context) (Job, bool, error) {
		j, err := h.job(ctx, http.MethodGet, id, waitSeconds)
		return j, j.Ended(), err
	})
}

// awaitHTTP asks, with a request that the API holds, until a job or a batch has ended.
func awaitHTTP[T any](ctx context.Context, ask func(context.Context) (v T, ended bool, err error)) (T, error) {
	var none T
	var failing time.Time
	for {
		round := time.Now()
		v, ended, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
			return none, ctx.Err()
		case err == nil && ended:
			return v, nil
		case err == nil:
			failing = time.Time{}
		case !Temporary(err), !failing.IsZero() && time.Since(failing) > outage:
			return none, err
		case failing.IsZero():
			failing = time.Now()
		}
		select {
		case <-time.After(minRound - time.Since(round)):
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Temporary reports whether what failed for that error may succeed the next time: because
// Glovebox is away, say, or the way to it.
func Temporary(err error) bool {
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeTimeout, job.CodeRateLimited:
		return true
	case "": // nobody has said what is wrong: the way to Glovebox is
		return err != nil
	}
	return false
}

// Open is [Jobs.Open]. The API redirects to the bucket, which sends the bytes.
func (h *HTTP) Open(ctx context.Context, id, path string) (*Download, error) {
	name, ok := strings.CutPrefix(path, artifactDir)
	if !ok && path != Stdout && path != Stderr || !isJobID(id) || job.CheckName(name) != "" {
		return nil, job.ErrNotFound // "..", say, would mean another URL
	}
	res, err := h.do(ctx, http.MethodGet, FilePath(id, path), 0, nil) //nolint:bodyclose // the caller closes the Download
	if err != nil {
		return nil, err
	}
	if !ok {
		name = id + "." + path + ".txt"
	}
	return &Download{res.Body, name, res.ContentLength, res.Header.Get("Content-Type")}, nil
}

// Runtimes is [Jobs.Runtimes].
func (h *HTTP) Runtimes(ctx context.Context) ([]Runtime, error) {
	var list struct {
		Runtimes []Runtime `json:"runtimes"`
	}
	err := h.json(ctx, http.MethodGet, "/v1/runtimes", 0, nil, &list)
	return list.Runtimes, err
}

// Images is [Jobs.Images].
func (h *HTTP) Images(ctx context.Context) ([]Image, error) {
	var list struct {
		Images []Image `json:"images"`
	}
	err := h.json(ctx, http.MethodGet, "/v1/runtimes", 0, nil, &list)
	return list.Images, err
}

// Keys lists the public keys that attest results, as the API has them.
func (h *HTTP) Keys(ctx context.Context) ([]attest.Key, error) {
	var list attest.KeyList
	err := h.json(ctx, http.MethodGet, "/v1/keys", 0, nil, &list)
	return list.Keys, err
}

func (h *HTTP) job(ctx context.Context, method, id string, wait int) (Job, error) {
	var j Job
	if !isJobID(id) {
		return j, job.ErrNotFound // "..", say, would mean another URL
	}
	err := h.json(ctx, method, jobPath(id), wait, nil, &j)
	return j, err
}

func isJobID(id string) bool {
	_, ok := job.TenantOf(id)
	return ok
}

func (h *HTTP) json(ctx context.Context, method, path string, wait int, body []byte, into any) error {
	res, err := h.do(ctx, method, path, wait, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, h.base+path, err)
	}
	return nil
}

// do returns a successful answer, whose body the caller closes.
func (h *HTTP) do(ctx context.Context, method, path string, wait int, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the API: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(wait))
	}
	return h.ask(req)
}

// ask adds who asks, and returns a successful answer, whose body the caller closes.
func (h *HTTP) ask(req *http.Request) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("User-Agent", "glovebox")
	res, err := h.client.Do(req)
	if err != nil {
		var where *url.Error // its URL may hold a capability or a signature
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, fmt.Errorf("ask the API at %s: %w", h.base, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, problemOf(res)
	}
	return res, nil
}
