package gbtest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// S3Proxy is a way to an S3 server that counts the requests that take it.
type S3Proxy struct {
	Endpoint string

	mu    sync.Mutex
	count map[string]int
	hold  chan struct{} // nil: nothing is held
}

// Gateway returns a way to the server, for a test that serves and changes it.
func (s *S3Server) Gateway(tb testing.TB) *httputil.ReverseProxy {
	tb.Helper()
	to, err := url.Parse(s.Endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which is signed
	}}
}

// Proxy starts a proxy before the server.
func (s *S3Server) Proxy(tb testing.TB) *S3Proxy {
	tb.Helper()
	p := &S3Proxy{count: map[string]int{}}
	forward := s.Gateway(tb)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.count[r.Method+" "+r.URL.Path]++
		hold := p.hold
		p.mu.Unlock()
		if hold != nil {
			<-hold
		}
		forward.ServeHTTP(w, r)
	}))
	p.Endpoint = server.URL
	tb.Cleanup(server.Close)
	return p
}

// Counts returns how often each request was made: "GET /bucket/key" and its number.
func (p *S3Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.count)
}

// Hold keeps requests from going on until release is called.
func (p *S3Proxy) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold := make(chan struct{})
	p.hold = hold
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.hold = nil
		p.mu.Unlock()
		close(hold)
	})
}
