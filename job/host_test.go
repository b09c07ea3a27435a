package job

import (
	"errors"
	"strings"
	"testing"
)

// TestHostOf: what DNS takes for one host is one.
func TestHostOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://hooks.example.com/x":             "hooks.example.com",
		"https://HOOKS.example.com:8443":          "hooks.example.com",
		"https://hooks.example.com.:443/":         "hooks.example.com",
		"https://[2001:DB8:0::1]:8443/":           "2001:db8::1",
		"https://[::ffff:192.0.2.1]/":             "192.0.2.1",
		"https://hooks.example.com@evil.example/": "evil.example",
		"https://": "",
		"://":      "",
	} {
		if got := HostOf(url); got != want {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
}

// TestURLIsASCII: a host in letters that net/http maps to others is refused, as rules would take it for another.
func TestURLIsASCII(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://\uff45vil.example/", "https://%EF%BD%85vil.example/", "https://evil\u3002example/", "https://b\u00fccher.example/"} {
		var invalid Invalid
		if err := (BatchOptions{Callback: &Callback{URL: url}}).Check(); !errors.As(err, &invalid) || invalid[0].Field != "callback.url" || !strings.Contains(invalid[0].Message, "not ASCII") {
			t.Errorf("%q: got %v, want it refused", url, err)
		}
	}
	if err := (BatchOptions{Callback: &Callback{URL: "https://xn--bcher-kva.example/\u00fc"}}).Check(); err != nil {
		t.Error(err)
	}
	if err := (Terms{CallbackHosts: []string{"b\u00fccher.example"}}).Check(); err == nil {
		t.Error("terms: want a host refused that no callback can have")
	}
}
