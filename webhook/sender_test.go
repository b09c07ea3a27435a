package webhook_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/webhook"
)

// loopback is a guard that allows this machine, as `glovebox dev` does.
func loopback(tb testing.TB) *webhook.Guard {
	tb.Helper()
	return webhook.NewGuard(webhook.GuardConfig{Allow: targets(tb, "127.0.0.0/8:*", "[::1]:*")})
}

func sender(tb testing.TB, c webhook.Config) *webhook.Sender {
	tb.Helper()
	if c.Guard == nil {
		c.Guard = loopback(tb)
	}
	s := webhook.New(c)
	tb.Cleanup(s.Close)
	return s
}

func request(tb testing.TB, url string) webhook.Request {
	tb.Helper()
	return webhook.Request{
		URL: url, ID: "msg_1", Timestamp: time.Now(), Body: []byte(`{"type":"job.completed"}`),
		Signers: []webhook.Signer{secret(tb, vectorSecret)},
	}
}

func TestSendIsVerified(t *testing.T) {
	t.Parallel()
	var got webhook.Event
	var fail atomic.Bool
	receiver := httptest.NewServer(webhook.Handler([]webhook.Verifier{secret(t, vectorSecret)}, func(_ context.Context, e webhook.Event) error {
		if fail.Load() {
			return errors.New("database at 10.0.0.5 is down")
		}
		got = e
		return nil
	}))
	defer receiver.Close()
	s := sender(t, webhook.Config{})
	r := request(t, receiver.URL+"/hook?a=b")
	r.Body = []byte(`{"type":"job.completed","timestamp":"2026-11-20T12:00:00Z","data":{"id":"j1"}}`)
	res, err := s.Send(t.Context(), r)
	if err != nil || res.Status != 204 || res.Duration <= 0 {
		t.Fatalf("send: got %+v, %v, want 204", res, err)
	}
	if got.ID != "msg_1" || got.Type != "job.completed" || string(got.Data) != `{"id":"j1"}` || got.Timestamp.Hour() != 12 {
		t.Errorf("received %+v", got)
	}

	for name, test := range map[string]struct {
		change func(*webhook.Request)
		status int
	}{
		"stranger's secret": {func(r *webhook.Request) { r.Signers = []webhook.Signer{webhook.NewSecret()} }, 401},
		"old":               {func(r *webhook.Request) { r.Timestamp = time.Now().Add(-time.Hour) }, 401},
		"no JSON":           {func(r *webhook.Request) { r.Body = []byte("{") }, 400},
		"too large":         {func(r *webhook.Request) { r.Body = make([]byte, webhook.MaxBody+1) }, 413},
	} {
		r := r
		test.change(&r)
		if res, err := s.Send(t.Context(), r); !errors.Is(err, webhook.ErrStatus) || res.Status != test.status {
			t.Errorf("%s: got %d, %v, want %d", name, res.Status, err, test.status)
		}
	}
	fail.Store(true)
	if res, err := s.Send(t.Context(), r); !errors.Is(err, webhook.ErrStatus) || res.Status != 500 || strings.Contains(res.Body, "10.0.0.5") {
		t.Errorf("receiver that fails: got %+v, %v, want 500 without its reason", res, err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, receiver.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := receiver.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: got %d, want 405", plain.StatusCode)
	}
}

func TestSendJudges(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if c := r.Header.Get("Cookie"); c != "" {
			t.Errorf("a cookie came back: %q", c)
		}
		if got := r.Header.Get("User-Agent"); got != "Glovebox-Webhook" {
			t.Errorf("user agent: got %q", got)
		}
		var status int
		if _, err := fmt.Sscan(r.URL.Path[1:], &status); err != nil {
			t.Errorf("path %q: %v", r.URL.Path, err)
		}
		w.Header().Set("Location", "http://"+r.Host+"/200")
		w.Header().Set("Set-Cookie", "a=b")
		if after := r.URL.Query().Get("after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "\xff"+strings.Repeat("é", 5000))
	}))
	defer receiver.Close()
	s := sender(t, webhook.Config{})
	for path, want := range map[string]error{
		"/200": nil, "/201": nil, "/299": nil, "/300": webhook.ErrStatus, "/301": webhook.ErrStatus, "/302": webhook.ErrStatus,
		"/307": webhook.ErrStatus, "/308": webhook.ErrStatus, "/400": webhook.ErrStatus, "/404": webhook.ErrStatus,
		"/410": webhook.ErrGone, "/429": webhook.ErrStatus, "/500": webhook.ErrStatus, "/503": webhook.ErrStatus,
	} {
		before := requests.Load()
		res, err := s.Send(t.Context(), request(t, receiver.URL+path))
		if !errors.Is(err, want) || fmt.Sprint(res.Status) != path[1:] {
			t.Errorf("%s: got %d, %v, want %v", path, res.Status, err, want)
		}
		if n := requests.Load() - before; n != 1 {
			t.Errorf("%s: got %d requests, want 1: no redirect, no retry", path, n)
		}
		if len(res.Body) > 1024 || !utf8.ValidString(res.Body) || !strings.HasPrefix(res.Body, "é") {
			t.Errorf("%s: excerpt of %d bytes: %.20q", path, len(res.Body), res.Body)
		}
	}
	for after, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, "-5": 0, "soon": 0, "1.5": 0, "9999999": 24 * time.Hour, "99999999999999999999": 0,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat):        time.Hour,
		time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		time.Now().Add(1000 * time.Hour).UTC().Format(http.TimeFormat): 24 * time.Hour,
	} {
		res, _ := s.Send(t.Context(), request(t, receiver.URL+"/503?after="+url.QueryEscape(after)))
		if diff := res.RetryAfter - want; res.RetryAfter < 0 || diff > 0 || diff < -gbtest.AtOnce {
			t.Errorf("Retry-After %q: got %s, want %s", after, res.RetryAfter, want)
		}
	}
}

func TestSendIsGuarded(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	secretService := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer secretService.Close()
	_, port, err := net.SplitHostPort(secretService.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	strict := sender(t, webhook.Config{Guard: webhook.NewGuard(webhook.GuardConfig{})})
	// This machine, on the port that is open, by names that resolve and numbers that
	// don't look like it; a guard that checked a name before dialling would be beaten
	// by the first two as by a name that changes its address.
	ownPort := webhook.NewGuard(webhook.GuardConfig{Ports: []uint16{portOf(t, port)}})
	byName := sender(t, webhook.Config{Guard: ownPort})
	for _, host := range []string{"localhost", "localhost.", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]"} {
		for _, s := range []*webhook.Sender{strict, byName} {
			_, err := s.Send(t.Context(), request(t, "http://"+host+":"+port))
			if err == nil {
				t.Errorf("%s: got nil, want an error", host)
				continue
			}
			if !errors.Is(err, webhook.ErrBlocked) && !strings.Contains(err.Error(), "does not lead to a public address") {
				t.Errorf("%s: got %v (%v), want ErrBlocked", host, err, errors.Unwrap(err))
			}
			if host == "localhost" && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%s: the error tells the address: %v", host, err)
			}
		}
	}
	for _, bad := range []string{
		"http://2130706433:" + port, "http://0x7f000001:" + port, "http://017700000001:" + port, "http://0x7f.1:" + port, "http://127.1:" + port,
		"http://0177.0.0.1:" + port, "http://127.0.0.1.:" + port, "http://127.0.0.１:" + port, "http://user:hunter2@127.0.0.1:" + port, "http://[fe80::1%25eth0]:" + port,
		"ftp://127.0.0.1", "file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "//127.0.0.1", "http://", "http://:80", "http://a:", "http://a:0",
		"http://a:99999", "http://a b/", "http://a/\x7f", "http://%31%32%37.0.0.1/", "", "javascript:alert(1)",
	} {
		if err := webhook.CheckURL(bad); !errors.Is(err, webhook.ErrURL) {
			t.Errorf("CheckURL(%q): got %v, want ErrURL", bad, err)
		}
		_, err := strict.Send(t.Context(), request(t, bad))
		if !errors.Is(err, webhook.ErrURL) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("send to %q: got %v, want ErrURL without the password", bad, err)
		}
	}
	for _, good := range []string{
		"https://example.com", "http://example.com:8080/a?b#c", "https://127.0.0.1/", "https://[::1]:443", "https://münchen.example/",
		"https://a.b.c.d.0x.example", "https://3com.com.", "HTTPS://EXAMPLE.COM",
	} {
		if err := webhook.CheckURL(good); err != nil {
			t.Errorf("CheckURL(%q): got %v, want nil", good, err)
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("the guarded service got %d requests", n)
	}
}

func portOf(tb testing.TB, s string) uint16 {
	tb.Helper()
	return targets(tb, "127.0.0.1:"+s)[0].From
}

func TestSendNeedsNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	if _, err := sender(t, webhook.Config{}).Send(t.Context(), request(t, receiver.URL)); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestSendFailures(t *testing.T) {
	t.Parallel()
	quiet := log.New(io.Discard, "", 0) // failed handshakes are the point
	newTLS := func(c *tls.Config) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.TLS, s.Config.ErrorLog = c, quiet
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	modern, ancient := newTLS(nil), newTLS(&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	pool := x509.NewCertPool()
	pool.AddCert(modern.Certificate())
	trusting := sender(t, webhook.Config{RootCAs: pool})
	impatient := sender(t, webhook.Config{Timeout: 200 * time.Millisecond})
	short := sender(t, webhook.Config{Timeout: 25 * time.Second})

	if _, err := trusting.Send(t.Context(), request(t, modern.URL)); err != nil {
		t.Errorf("TLS: got %v, want nil", err)
	}
	byName := strings.Replace(modern.URL, "127.0.0.1", "localhost", 1)
	for name, test := range map[string]struct {
		s    *webhook.Sender
		url  string
		want string
	}{
		"unknown authority":  {short, modern.URL, "signed by nobody we know"},
		"another name":       {trusting, byName, "is not one of localhost"},
		"TLS 1.1":            {trusting, ancient.URL, "TLS 1.2"},
		"plain HTTP on TLS":  {short, "https" + serve(t, answer("HTTP/1.1 200 OK\r\n\r\n"))[4:], "TLS 1.2"},
		"nobody listens":     {short, "http://" + gbtest.Addr(t), "refused the connection"},
		"closes at once":     {short, serve(t, func(c net.Conn) { readRequest(c) }), "without an answer"},
		"never answers":      {impatient, serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), "did not answer in time"},
		"endless header":     {short, serve(t, endless("HTTP/1.1 200 OK\r\nX: ", "x")), "could not be reached"},
		"no such name":       {short, "http://nothing.invalid", "nothing.invalid"},
		"not HTTP":           {short, serve(t, answer("-ERR unknown command\r\n")), "could not be reached"},
		"informs for ever":   {short, serve(t, endless("", "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n")), "could not be reached"},
		"canceled by caller": {short, "canceled", "interrupted"},
	} {
		ctx := t.Context()
		if test.url == "canceled" {
			canceled, cancel := context.WithCancel(ctx)
			cancel()
			ctx, test.url = canceled, modern.URL
		}
		start := time.Now()
		res, err := test.s.Send(ctx, request(t, test.url))
		var told *webhook.Error
		if !errors.As(err, &told) || !strings.Contains(err.Error(), test.want) || res.Status != 0 {
			t.Errorf("%s: got %d, %v (%v), want %q in it", name, res.Status, err, errors.Unwrap(err), test.want)
			continue
		}
		if took := time.Since(start); took > gbtest.AtOnce {
			t.Errorf("%s: took %s", name, took)
		}
		if strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: the error tells an address: %v", name, err)
		}
	}
}

// What comes after the status can't turn success into failure, nor hold us for ever.
func TestSendBoundsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(net.Conn){
		"endless body": endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 4096)),
		"body that stops": func(c net.Conn) {
			answer("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")(c)
			_, _ = io.Copy(io.Discard, c)
		},
	} {
		url := serve(t, answer)
		// A body that stops is waited for until the time-out, which holds for the status, too: the second try gives a busy machine longer.
		for _, timeout := range []time.Duration{2 * time.Second, gbtest.AtOnce} {
			start := time.Now()
			res, err := sender(t, webhook.Config{Timeout: timeout}).Send(t.Context(), request(t, url))
			took := time.Since(start)
			if err == nil && res.Status == 200 && len(res.Body) <= 1024 && took <= 2*gbtest.AtOnce {
				break
			}
			if timeout == gbtest.AtOnce {
				t.Errorf("%s: got %d, %d bytes, %v after %s, want 200", name, res.Status, len(res.Body), err, took)
			}
		}
	}
}

// serve runs a TCP server that talks to one client after another, and returns its URL.
func serve(tb testing.TB, talk func(net.Conn)) string {
	tb.Helper()
	l := listen(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(gbtest.Patience))
			talk(c)
			c.Close()
		}
	}()
	tb.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func readRequest(c net.Conn) {
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func answer(text string) func(net.Conn) {
	return func(c net.Conn) {
		readRequest(c)
		_, _ = io.WriteString(c, text)
	}
}

// endless sends begin and then more, until the client has enough.
func endless(begin, more string) func(net.Conn) {
	return func(c net.Conn) {
		answer(begin)(c)
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c, more)
		}
	}
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}
