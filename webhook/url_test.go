package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/webhook"
)

var errDialed = errors.New("this is where it would go")

// dialed returns the address, or the name and port, that net/http dials for a URL; "" if it
// refuses the URL itself.
func dialed(tb testing.TB, raw string) (target string) {
	tb.Helper()
	transport := &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		target = addr
		return nil, errDialed
	}}
	transport.DialTLSContext = transport.DialContext
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, raw, http.NoBody)
	if err != nil {
		return ""
	}
	res, err := transport.RoundTrip(req)
	if err == nil {
		res.Body.Close()
	}
	return target
}

// TestGuardCheckURL: what no attempt can reach is refused before the first one, whatever form the
// address has, and no name is.
func TestGuardCheckURL(t *testing.T) {
	t.Parallel()
	guard := webhook.NewGuard(webhook.GuardConfig{Allow: targets(t, "10.1.2.3:8000-8999", "[fd00::/8]:443")})
	blocked, unusable := webhook.ErrBlocked, webhook.ErrURL
	for raw, want := range map[string]error{
		"https://8.8.8.8/": nil, "http://8.8.8.8": nil, "http://8.8.8.8:443/": nil, "https://[2606:4700:4700::1111]/hook": nil, "http://[::ffff:8.8.8.8]/": nil,
		"http://10.1.2.3:8000/": nil, "https://[fd00::1]/": nil, "HTTP://10.1.2.3:8999": nil, // allowed

		// Names, wherever they lead today.
		"https://example.com/": nil, "https://example.com:8080/": nil, "http://localhost/": nil, "http://localhost.:9000": nil, "https://127.0.0.1.example.com/": nil,
		"https://10.example/": nil, "https://münchen.example/": nil, "https://例え.テスト/": nil, "https://xn--wgv71a119e.example/": nil, "https://1.2.3.4a": nil,

		// Loopback, private, link-local, and others that are not public.
		"http://127.0.0.1/": blocked, "https://127.255.255.254:443/x?y=z": blocked, "http://0.0.0.0/": blocked, "http://10.1.2.4:8000/": blocked,
		"http://172.16.0.1/": blocked, "http://192.168.1.1/": blocked, "http://169.254.169.254/latest/meta-data/": blocked, "http://100.64.0.1/": blocked,
		"http://168.63.129.16/": blocked, "http://224.0.0.1/": blocked, "http://255.255.255.255/": blocked, "http://192.0.2.1/": blocked,
		"http://[::1]/": blocked, "http://[::]/": blocked, "http://[0:0:0:0:0:0:0:1]:80/": blocked, "http://[fe80::1]/": blocked, "https://[fc00::1]/": blocked,
		"http://[::ffff:127.0.0.1]/": blocked, "http://[::ffff:7f00:1]/": blocked, "http://[::FFFF:10.0.0.1]/": blocked, "http://[::127.0.0.1]/": blocked,
		"http://[64:ff9b::127.0.0.1]/": blocked, "http://[2002:7f00:1::]/": blocked, "http://[2001:db8::1]/": blocked,

		// Ports that are not those of its address.
		"http://8.8.8.8:22/": blocked, "https://8.8.8.8:8443/": blocked, "http://10.1.2.3/": blocked, "https://10.1.2.3:9000/": blocked, "http://[fd00::1]/": blocked,

		// Numbers that programs read in different ways.
		"http://2130706433/": unusable, "http://0x7f000001/": unusable, "http://017700000001/": unusable, "http://127.1/": unusable, "http://127.0.1/": unusable,
		"http://0177.0.0.1/": unusable, "http://127.0.0.01/": unusable, "http://0x7f.0.0.1/": unusable, "http://0X7F.1/": unusable, "http://127.0.0.0x1/": unusable,
		"http://127.0.0.256/": unusable, "http://1.2.3.4.5/": unusable, "http://0/": unusable, "http://8.8.8.8./": unusable, "http://127.0.0.1.:80/": unusable,
		"http://127.0.0.1../": unusable,
		// Zones.
		"http://[fe80::1%25eth0]/": unusable, "http://[::1%25lo]/": unusable, "http://[::1%lo]/": unusable, "http://127.0.0.1%25lo/": unusable,
		// Brackets.
		"http://::1/": unusable, "http://fe80::1:80/": unusable, "http://[::1/": unusable, "http://::1]/": unusable, "http://[::1]x/": unusable, "http://[::1]./": unusable, "http://[localhost]/": unusable,
		// What net/http makes digits and dots of, or drops.
		"http://１２７.0.0.1/": unusable, "http://127.0.0.１/": unusable, "http://127。0。0。1/": unusable, "http://127．0．0．1/": unusable, "http://127｡0｡0｡1/": unusable,
		"http://①②⑦.⓪.⓪.①/": unusable, "http://127.0.0.𝟏/": unusable, "http://127.0.0.¹/": unusable, "http://127.0.0.\u00ad1/": unusable, "http://127.0.0.\u200b1/": unusable,
		"http://127.0.0.1\ufe0f/": unusable, "http://127.0.0.%EF%BC%91/": unusable, "http://%31%32%37.0.0.1/": unusable,
	} {
		err := guard.CheckURL(raw)
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", raw, err, want)
		}
		if errors.Is(want, blocked) && (err == nil || !strings.Contains(err.Error(), " is not allowed: webhooks go to public addresses, ports 80, 443")) {
			t.Errorf("%s: got %v, want words for a tenant", raw, err)
		}
		checkDial(t, guard, raw, err)
	}
}

// checkDial fails where a URL passed and net/http would dial an address for it which the guard
// refuses: every attempt would fail.
func checkDial(tb testing.TB, guard *webhook.Guard, raw string, passed error) {
	tb.Helper()
	if passed != nil {
		return
	}
	target := dialed(tb, raw)
	address, err := netip.ParseAddrPort(target)
	if err != nil {
		return // a name
	}
	if err := guard.Check(address); err != nil {
		tb.Errorf("%q passed, and would be dialed at %s: %v", raw, target, err)
	}
}

func FuzzGuardCheckURL(f *testing.F) {
	guard := webhook.NewGuard(webhook.GuardConfig{})
	for _, seed := range []string{"https://example.com", "http://[::1]:80", "http://0x7f.1", "http://127。0。0．1", "http://①.1.1.1:8080/", "http://127.0.0.\u00ad1", "http://[fe80::1%25x]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		checkDial(t, guard, raw, guard.CheckURL(raw))
	})
}
