package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/webhook"
)

// The path and the query of an endpoint are often its secret: no error has them, however
// deep one looks, whatever went wrong.
func TestErrorsHideTheURL(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	encrypted := httptest.NewUnstartedServer(nil)
	encrypted.Config.ErrorLog = nil
	encrypted.StartTLS()
	defer encrypted.Close()
	s := sender(t, webhook.Config{Timeout: time.Second})
	for name, base := range map[string]string{
		"refused": "http://" + gbtest.Addr(t), "timed out": hangs.URL, "cut": cuts.URL, "unknown certificate": encrypted.URL,
		"no TLS": strings.Replace(cuts.URL, "http:", "https:", 1), "blocked": "http://10.1.2.3", "no such host": "http://nobody.invalid",
		"no URL": "http://a b", "a port": "http://a:0",
	} {
		_, err := s.Send(t.Context(), request(t, base+"/hook/hush-path?key=hush-query"))
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %T holds the URL: %v", name, err, err)
			}
		}
	}
}

// A tenant must not learn which names there are inside: one that leads to a private
// address is answered for as one that leads nowhere.
func TestNamesInsideAreNotTold(t *testing.T) {
	t.Parallel()
	dns := newDNS(t)
	s := sender(t, webhook.Config{Resolver: dns.resolver(), Guard: webhook.NewGuard(webhook.GuardConfig{})})
	broken := sender(t, webhook.Config{
		Guard: webhook.NewGuard(webhook.GuardConfig{}),
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no DNS today")
		}},
	})
	ask := func(s *webhook.Sender, addresses string) string {
		t.Helper()
		dns.answer(addresses)
		_, err := s.Send(t.Context(), request(t, "https://db.internal.example/hook"))
		if err == nil {
			t.Fatalf("%s: got no error", addresses)
		}
		return err.Error()
	}
	nowhere := ask(s, "")
	for name, got := range map[string]string{
		"private": ask(s, "10.0.0.1"), "metadata": ask(s, "169.254.169.254"), "several": ask(s, "127.0.0.1 10.0.0.1"), "no answer": ask(broken, ""),
	} {
		if got != nowhere {
			t.Errorf("%s: got %q, want %q as of a name that leads nowhere", name, got, nowhere)
		}
	}
	if !strings.Contains(nowhere, "db.internal.example") || !strings.Contains(nowhere, "80, 443") {
		t.Errorf("got %q, want the host and the ports in it", nowhere)
	}
}
