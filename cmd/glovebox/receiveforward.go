package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// forwardTimeout bounds what a message is posted on to: longer than a sender of ours waits.
	forwardTimeout = 35 * time.Second
	// maxForwarded is how much of an answer goes back to the sender.
	maxForwarded = 64 << 10
)

// forwarded is what the program answered that a message was posted on to.
type forwarded struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
	err    error
}

// forwardClient leaves redirects to the sender, as it would see them without us.
var forwardClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       forwardTimeout,
}

// ofConnection are headers of a connection, and those that the client sets itself.
var ofConnection = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Content-Length", "Accept-Encoding",
}

// forward posts a message on as it came.
func forward(r *http.Request, to string, body []byte) (f forwarded) {
	began := time.Now()
	defer func() { f.took = time.Since(began) }()
	unanswered := func(err error) forwarded { return forwarded{status: http.StatusBadGateway, err: err} }
	// Not r's context: a sender that hangs up early is told later, and the program has the message either way.
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, to, bytes.NewReader(body))
	if err != nil {
		return unanswered(err)
	}
	req.Header = r.Header.Clone()
	for _, name := range ofConnection {
		req.Header.Del(name)
	}
	res, err := forwardClient.Do(req)
	if err != nil {
		return unanswered(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxForwarded))
	if err != nil {
		return unanswered(err)
	}
	return forwarded{status: res.StatusCode, header: res.Header, body: text}
}

func (f forwarded) taken() bool { return f.status >= 200 && f.status <= 299 }

// write answers the sender with what the program answered, or that nothing did.
func (f forwarded) write(w http.ResponseWriter) {
	for _, name := range []string{"Content-Type", "Retry-After", "Location"} {
		if value := f.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	if f.err != nil {
		http.Error(w, "what the message is forwarded to does not answer", f.status)
		return
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body) // the sender may have left
}

func (f forwarded) String() string {
	if f.err != nil {
		return "no answer: " + plain(f.err.Error())
	}
	return fmt.Sprintf("answered %d in %d ms", f.status, f.took.Milliseconds())
}

// told is what --json says of it.
func (f forwarded) told() map[string]any {
	if f.err != nil {
		return map[string]any{"error": f.err.Error(), "ms": f.took.Milliseconds()}
	}
	return map[string]any{"status": f.status, "ms": f.took.Milliseconds()}
}
