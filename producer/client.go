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

// Client is [Jobs], and what is beside it, over the API. It is safe for concurrent use.
//
// Every request ends with its context, and with that alone: a Wait may take hours. The package's
// documentation says which requests are tried again.
type Client struct {
	base  string
	token string
	http  *http.Client
	lent  bool // http is the caller's
}

var _ Jobs = (*Client)(nil)

// An Option says how [New] makes a [Client].
type Option func(*Client)

// WithHTTPClient makes the Client ask with h: with its transport, which may know a proxy or
// a certificate authority. Leave its Timeout at 0, or it cuts off waits and downloads. What
// h does with redirects doesn't count: those to the bucket are followed without the token.
// The transport asks the bucket, too, so it must not add credentials of its own.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		own.CheckRedirect = followDownload
		c.http, c.lent = &own, true
	}
}

// New returns a Client of the API at baseURL, as the tenant, or the operator, whose token it
// is. It does not talk to the API yet.
func New(baseURL, token string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, errors.New("read URL of the API: want http(s)://host[:port][/path], without user name or password")
	}
	c := &Client{base: strings.TrimRight(baseURL, "/"), token: token}
	for _, o := range options {
		o(c)
	}
	if c.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.ResponseHeaderTimeout = (waitSeconds + 30) * time.Second
		c.http = &http.Client{Transport: transport, CheckRedirect: followDownload}
	}
	return c, nil
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

// Close ends idle connections, unless they are of the caller's own http.Client. It returns nil.
func (c *Client) Close() error {
	if !c.lent {
		c.http.CloseIdleConnections()
	}
	return nil
}

// Ready fails unless a job submitted now would be accepted durably.
func (c *Client) Ready(ctx context.Context) error {
	res, err := c.do(ctx, http.MethodGet, "/readyz")
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Temporary reports whether what failed for that error may succeed the next time: because
// Glovebox is away, say, or the way to it. What was canceled is not; after a deadline, only the
// caller knows whose it was.
func Temporary(err error) bool {
	switch job.CodeOf(err) {
	case job.CodeUnavailable, job.CodeTimeout, job.CodeRateLimited:
		return true
	case "": // nobody has said what is wrong: the way to Glovebox is
		return err != nil && !errors.Is(err, context.Canceled)
	}
	return false
}

// Keys lists the public keys that attest results, as the API has them.
func (c *Client) Keys(ctx context.Context) ([]attest.Key, error) {
	var list attest.KeyList
	err := c.json(ctx, http.MethodGet, "/v1/keys", 0, nil, &list)
	return list.Keys, err
}

func (c *Client) json(ctx context.Context, method, path string, wait int, body []byte, into any) error {
	req, err := c.request(ctx, method, path, wait, body)
	if err != nil {
		return err
	}
	return c.askJSON(req, into)
}

// askJSON is ask, and reads the answer.
func (c *Client) askJSON(req *http.Request, into any) error {
	res, err := c.ask(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", req.Method, req.URL.Redacted(), err)
	}
	return nil
}

// do returns a successful answer, whose body the caller closes.
func (c *Client) do(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := c.request(ctx, method, path, 0, nil)
	if err != nil {
		return nil, err
	}
	return c.ask(req)
}

func (c *Client) request(ctx context.Context, method, path string, wait int, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the API: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(wait))
	}
	return req, nil
}

// ask adds who asks, and returns a successful answer, whose body the caller closes.
func (c *Client) ask(req *http.Request) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("User-Agent", "glovebox")
	req.Header.Set("Accept-Encoding", "identity") // else the size of a download would not be known
	res, err := c.http.Do(req)
	if err != nil {
		var where *url.Error // its URL may hold a capability or a signature
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, fmt.Errorf("ask the API at %s: %w", c.base, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		return nil, problemOf(res)
	}
	return res, nil
}

// send sends a request with a JSON body.
func (c *Client) send(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return c.json(ctx, method, path, 0, b, into)
}
