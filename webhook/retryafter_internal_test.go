package webhook

import (
	"testing"
	"time"
)

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 20 Nov 2026 12:00:00 GMT")
	f.Add("-1")
	now := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		if d := retryAfter(value, now); d < 0 || d > 24*time.Hour {
			t.Errorf("%q: got %s, want 0 to a day", value, d)
		}
	})
}

func FuzzCheckURL(f *testing.F) {
	for _, seed := range []string{"https://example.com", "http://[::1]:80", "http://0x7f.1", "http://a:b@c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err == nil && (u.Hostname() == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https") {
			t.Errorf("%q passed as %v", raw, u)
		}
	})
}
