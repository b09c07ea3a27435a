package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/glovebox-run/glovebox/webhook"
)

// A name that was harmless when it was first seen, and then leads elsewhere, must not
// get there; nor must one that has a harmless address among others.
func TestRebinding(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	inside := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Connection", "close") // so that each attempt dials
	}))
	// One server on two addresses: 127.0.0.2 is allowed and stands for the internet.
	var config net.ListenConfig
	all, err := config.Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	inside.Listener.Close()
	inside.Listener = all
	inside.Start()
	defer inside.Close()
	_, port, err := net.SplitHostPort(all.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dns := newDNS(t)
	s := sender(t, webhook.Config{
		Resolver: dns.resolver(),
		Guard:    webhook.NewGuard(webhook.GuardConfig{Allow: targets(t, "127.0.0.2:*")}),
	})
	for _, step := range []struct {
		addresses string
		blocked   bool
		requests  int64
	}{
		{"127.0.0.2", false, 1},
		{"127.0.0.1", true, 1},
		{"127.0.0.2", false, 2},
		{"127.0.0.1 10.0.0.1 169.254.169.254", true, 2},
	} {
		dns.answer(step.addresses)
		_, err := s.Send(t.Context(), request(t, "http://hooks.example.com:"+port))
		if errors.Is(err, webhook.ErrBlocked) != step.blocked || !step.blocked && err != nil {
			t.Errorf("%s: got %v, want blocked %v", step.addresses, err, step.blocked)
		}
		if err != nil && strings.Contains(err.Error(), "127.") {
			t.Errorf("%s: the error tells the address: %v", step.addresses, err)
		}
		if got := requests.Load(); got != step.requests {
			t.Errorf("%s: got %d requests, want %d", step.addresses, got, step.requests)
		}
	}
}

// dnsServer answers every name with the addresses it was last told.
type dnsServer struct {
	conn      net.PacketConn
	addresses atomic.Value
}

func newDNS(tb testing.TB) *dnsServer {
	tb.Helper()
	var config net.ListenConfig
	conn, err := config.ListenPacket(tb.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	d := &dnsServer{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve(tb)
	}()
	tb.Cleanup(func() { conn.Close(); <-done })
	return d
}

func (d *dnsServer) answer(addresses string) { d.addresses.Store(addresses) }

func (d *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp4", d.conn.LocalAddr().String())
	}}
}

func (d *dnsServer) serve(tb testing.TB) {
	tb.Helper()
	buf := make([]byte, 1500)
	for {
		n, client, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
			tb.Errorf("read DNS question: %v", err)
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			for _, a := range strings.Fields(d.addresses.Load().(string)) {
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
				})
			}
		}
		out, err := m.Pack()
		if err == nil {
			_, err = d.conn.WriteTo(out, client)
		}
		if err != nil {
			tb.Errorf("answer DNS question: %v", err)
		}
	}
}
