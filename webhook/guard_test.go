package webhook_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/glovebox-run/glovebox/webhook"
)

func targets(tb testing.TB, texts ...string) []webhook.Target {
	tb.Helper()
	var list []webhook.Target
	for _, text := range texts {
		target, err := webhook.ParseTarget(text)
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, target)
	}
	return list
}

func TestGuardDenies(t *testing.T) {
	t.Parallel()
	guard := webhook.NewGuard(webhook.GuardConfig{})
	// The first and last address of every special range.
	for _, prefix := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
		"::/128", "::1/128", "::/96", "::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "::ffff:169.254.0.0/112", "::ffff:0:0:0/96",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2002::/16",
		"3fff::/20", "5f00::/16", "fc00::/7", "fd00:ec2::254/128", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		p := netip.MustParsePrefix(prefix)
		for _, ip := range []netip.Addr{p.Addr(), lastOf(p)} {
			if err := guard.Check(netip.AddrPortFrom(ip, 443)); !errors.Is(err, webhook.ErrBlocked) {
				t.Errorf("%s of %s: got %v, want ErrBlocked", ip, prefix, err)
			}
		}
	}
	for _, address := range []string{
		"8.8.8.8:22", "8.8.8.8:6379", "8.8.8.8:0", "[2606:4700:4700::1111]:8080", // ports
		"[64:ff9b::127.0.0.1]:443", "[64:ff9b::8.8.8.8]:443", "[2002:7f00:1::]:443", "[::7f00:1]:443", "[::ffff:7f00:1]:443",
		"[2001:0:4136:e378:8000:63bf:80ff:fffe]:443", // Teredo whose client is 127.0.0.1
	} {
		if err := guard.Check(netip.MustParseAddrPort(address)); !errors.Is(err, webhook.ErrBlocked) {
			t.Errorf("%s: got %v, want ErrBlocked", address, err)
		}
	}
	for _, bad := range [][2]string{
		{"udp4", "8.8.8.8:443"},
		{"unix", "/run/redis.sock"},
		{"tcp", "8.8.8.8:443"},
		{"tcp4", "example.com:443"},
		{"tcp4", "8.8.8.8"},
		{"tcp6", "[fe80::1%eth0]:443"},
		{"tcp6", "[2606:4700::1%eth0]:443"},
	} {
		if err := guard.Control(bad[0], bad[1], nil); !errors.Is(err, webhook.ErrBlocked) {
			t.Errorf("%s %s: got %v, want ErrBlocked", bad[0], bad[1], err)
		}
	}
}

func TestGuardAllowsPublic(t *testing.T) {
	t.Parallel()
	guard := webhook.NewGuard(webhook.GuardConfig{})
	for _, address := range []string{"8.8.8.8:443", "1.1.1.1:80", "[2606:4700:4700::1111]:443", "[::ffff:8.8.8.8]:443", "172.32.0.1:443", "100.128.0.1:443"} {
		if err := guard.Control("tcp4", address, nil); err != nil {
			t.Errorf("%s: got %v, want nil", address, err)
		}
	}
	other := webhook.NewGuard(webhook.GuardConfig{Ports: []uint16{8443}})
	if err := other.Check(netip.MustParseAddrPort("8.8.8.8:8443")); err != nil {
		t.Errorf("configured port: got %v, want nil", err)
	}
	if err := other.Check(netip.MustParseAddrPort("8.8.8.8:443")); !errors.Is(err, webhook.ErrBlocked) {
		t.Errorf("port that was configured away: got %v, want ErrBlocked", err)
	}
}

func TestGuardAllowList(t *testing.T) {
	t.Parallel()
	guard := webhook.NewGuard(webhook.GuardConfig{
		Allow: targets(t, "127.0.0.0/8:8000-8999", "10.1.2.3:*", "[64:ff9b::/96]:443", "[2002::/16]:443", "[2001::/32]:443",
			"[64:ff9b:1::/48]:443", "[::1]:9000"),
	})
	for address, allowed := range map[string]bool{
		"127.0.0.1:8000": true, "127.255.0.1:8999": true, "127.0.0.1:7999": false, "127.0.0.1:9000": false, "127.0.0.1:443": false,
		"[::ffff:127.0.0.1]:8000": true, "[::1]:9000": true, "[::1]:8000": false,
		"10.1.2.3:1": true, "10.1.2.3:65535": true, "10.1.2.4:443": false,
		"8.8.8.8:443": true, "8.8.8.8:8000": false,
		// What an address carries must be allowed too.
		"[64:ff9b::8.8.8.8]:443": true, "[64:ff9b::127.0.0.1]:443": false, "[64:ff9b::10.1.2.3]:443": true, "[64:ff9b::10.1.2.4]:443": false,
		"[64:ff9b:1::8.8.8.8]:443": true, "[64:ff9b:1::a00:1]:443": false,
		"[64:ff9b:1:808:8:800::]:443": true, "[64:ff9b:1:a00:0:100::]:443": false,
		"[2002:808:808::1]:443": true, "[2002:a00:1::1]:443": false,
		"[2001:0:808:808::f7f7:f7f7]:443": true, "[2001:0:808:808::80ff:fffe]:443": false, "[2001:0:a00:1::f7f7:f7f7]:443": false,
	} {
		if err := guard.Check(netip.MustParseAddrPort(address)); (err == nil) != allowed {
			t.Errorf("%s: got %v, want allowed %v", address, err, allowed)
		}
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"127.0.0.0/8:*", "127.0.0.0/8:1024-65535", "10.0.0.5:8080", "[fd00::/8]:443", "[::1]:*", "0.0.0.0/0:80", "[::/0]:80-81",
	} {
		target, err := webhook.ParseTarget(good)
		if err != nil || target.String() != good {
			t.Errorf("%q: got %q, %v", good, target, err)
		}
	}
	for _, bad := range []string{
		"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:9-8", "127.0.0.1:-", "127.0.0.1:1-", "127.0.0.1:+1",
		"127.0.0.1:01", "localhost:80", "example.com:443", "127.0.0.1/8:80", "127.0.0.0/33:80", "::1:80", "[127.0.0.1]:80",
		"[::ffff:127.0.0.1]:80", "[fe80::1%eth0]:80", "0x7f.1:80", "127.1:80", "*:80", " 127.0.0.1:80",
	} {
		if target, err := webhook.ParseTarget(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, target)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, seed := range []string{"127.0.0.0/8:*", "[fd00::/8]:1-2", "::1:80", "[::ffff:1.2.3.4/96]:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := webhook.ParseTarget(text)
		if err != nil {
			return
		}
		again, err := webhook.ParseTarget(target.String())
		if err != nil || again != target {
			t.Errorf("%q is %v, which reads as %v, %v", text, target, again, err)
		}
	})
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}
