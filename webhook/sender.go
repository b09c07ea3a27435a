package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	maxExcerpt = 1 << 10
	// maxDrain is how much of an answer is read so that its connection can be used
	// again; beyond it a new one is cheaper.
	maxDrain = 64 << 10
)

// Config of a [Sender].
type Config struct {
	// Guard decides which addresses are dialled. Defaults to NewGuard(GuardConfig{}):
	// public addresses on ports 80 and 443.
	Guard *Guard
	// Timeout of an attempt, from resolving the name to the end of the answer.
	// Defaults to 20 s; the specification asks for 15 to 30.
	Timeout time.Duration
	// UserAgent defaults to "Glovebox-Webhook".
	UserAgent string
	// RootCAs vouch for receivers' certificates. Defaults to the system's.
	RootCAs *x509.CertPool
	// Resolver of host names. Defaults to net.DefaultResolver.
	Resolver *net.Resolver
}

// Sender makes attempts to deliver. It is safe for concurrent use.
type Sender struct {
	guard     *Guard
	timeout   time.Duration
	userAgent string
	client    *http.Client
}

// New returns a Sender.
func New(c Config) *Sender {
	c = c.withDefaults()
	return &Sender{guard: c.Guard, timeout: c.Timeout, userAgent: c.UserAgent, client: NewHTTPClient(c)}
}

func (c Config) withDefaults() Config {
	if c.Guard == nil {
		c.Guard = NewGuard(GuardConfig{})
	}
	if c.Timeout <= 0 {
		c.Timeout = 20 * time.Second
	}
	if c.UserAgent == "" {
		c.UserAgent = "Glovebox-Webhook"
	}
	return c
}

// NewHTTPClient returns a client for requests to strangers' servers: it dials what the guard lets through, follows no redirect and
// uses no proxy. Timeouts of whole requests are the caller's.
func NewHTTPClient(c Config) *http.Client {
	c = c.withDefaults()
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: c.Resolver, Control: c.Guard.Control}
	return &http.Client{
		// A redirect could lead anywhere, and turns a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  nil, // it would dial for us, past the guard
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
			TLSHandshakeTimeout:    10 * time.Second,
			DisableCompression:     true, // an answer can't blow up in memory
			MaxResponseHeaderBytes: 16 << 10,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
		},
	}
}

// Close ends idle connections. Nothing may be under way.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// Request is one attempt.
type Request struct {
	URL string
	// Method defaults to POST.
	Method string
	// ID names the message; every attempt has the same.
	ID string
	// Timestamp of the attempt, which is signed.
	Timestamp time.Time
	Body      []byte
	// Signers are the secrets and keys that sign, at least one.
	Signers []Signer
	// Traceparent is the W3C header of that name, or "" for none. It isn't signed.
	Traceparent string
	// Headers are further ones, which aren't signed. Those of the sender's own come first.
	Headers map[string]string
}

// Response is what the receiver said.
type Response struct {
	// Status is 0 when there was no answer.
	Status int
	// RetryAfter is how long the receiver asks us to wait, up to a day; 0 if it doesn't.
	RetryAfter time.Duration
	// Body begins as the answer does: at most 1 KiB of valid UTF-8.
	Body     string
	Duration time.Duration
}

// Send makes one attempt. The error is nil only when the receiver answered 2xx.
// Otherwise it is a [*Error], whose text may be shown to the user who gave the URL, or an error
// of [Sign], which is ours. errors.Is tells [ErrURL], [ErrBlocked], [ErrGone] and
// [ErrStatus]; the first is not worth another attempt, and the third forbids it.
func (s *Sender) Send(ctx context.Context, r Request) (Response, error) {
	u, err := parseURL(r.URL)
	if err != nil {
		return Response{}, &Error{err.Error(), err}
	}
	headers, err := Sign(r.Signers, r.ID, r.Timestamp, r.Body)
	if err != nil {
		return Response{}, err
	}
	for name, value := range r.Headers {
		if headers.Get(name) == "" {
			headers.Set(name, value)
		}
	}
	headers.Set("Content-Type", "application/json")
	headers.Set("User-Agent", s.userAgent)
	if r.Traceparent != "" {
		headers.Set("Traceparent", r.Traceparent)
	}

	start := time.Now()
	attempt, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(attempt, cmp.Or(r.Method, http.MethodPost), u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, &Error{ErrURL.Error(), ErrURL} // what err says has the URL in it
	}
	req.Header = headers
	res, err := s.client.Do(req)
	if err != nil {
		return Response{Duration: time.Since(start)}, s.explain(ctx, u.Hostname(), err)
	}
	defer res.Body.Close()
	// The status is the answer. How the body ends changes nothing, so errors don't count.
	excerpt, _ := io.ReadAll(io.LimitReader(res.Body, maxExcerpt))
	_, _ = io.CopyN(io.Discard, res.Body, maxDrain)
	answer := Response{
		Status:     res.StatusCode,
		RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now()),
		Body:       strings.ToValidUTF8(string(excerpt), ""),
		Duration:   time.Since(start),
	}
	return answer, judge(res.StatusCode)
}

func judge(status int) error {
	switch {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone:
		return &Error{"the endpoint answered 410: it wants no more webhooks", ErrGone}
	case status >= 300 && status <= 399:
		return &Error{fmt.Sprintf("the endpoint answered %d: redirects are not followed", status), ErrStatus}
	}
	return &Error{fmt.Sprintf("the endpoint answered %d", status), ErrStatus}
}

// What became of an attempt.
var (
	// ErrGone is the answer 410: the endpoint must not be tried again.
	ErrGone = errors.New("endpoint is gone")
	// ErrStatus is any other answer but 2xx.
	ErrStatus = errors.New("endpoint refused")
)

// Error is a failed attempt. Its text says no more than the user who gave the URL knows or
// may know: no address that a name resolved to, no address of ours. What it wraps is for
// logs: it has addresses, and nothing of the URL but its host.
type Error struct {
	Message string
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }
