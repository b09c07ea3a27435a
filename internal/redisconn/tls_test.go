package redisconn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// trusting is a client of the URL's that trusts the authority, as one does whose SSL_CERT_FILE names it.
func trusting(t *testing.T, ca *gbtest.CA, url string) *redis.Client {
	t.Helper()
	a, err := redisconn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	a.Options.MaxRetries = -1
	if a.Options.TLSConfig != nil {
		a.Options.TLSConfig.RootCAs = ca.Pool
	}
	c := a.Client()
	t.Cleanup(func() { c.Close() })
	return c
}

// Each server and each Sentinel has an address and a certificate of its own. The client follows to another server, whose name
// it checks, too.
func TestTLSByHost(t *testing.T) {
	t.Parallel()
	ca := gbtest.NewCA(t)
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: 2 * time.Second, CA: ca})
	c := trusting(t, ca, g.URL())
	if err := c.Set(t.Context(), "gb:ping", "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	old := g.Primary(t)
	gbtest.Eventually(t, "a replica has it", func() bool {
		n, err := c.Wait(t.Context(), 1, time.Second).Result()
		return err == nil && n > 0
	})
	old.Kill()
	gbtest.Eventually(t, "another server takes writes", func() bool { return c.Set(t.Context(), "gb:ping", "2", time.Minute).Err() == nil })
	if now := g.Primary(t); now == nil || now.Addr == old.Addr {
		t.Errorf("the primary is %+v, want another than the one that was killed", now)
	}

	for name, refused := range map[string]struct{ url, want string }{
		"an authority that nobody trusts": {g.URL(), "certificate signed by unknown authority"},
		"without TLS":                     {strings.Replace(g.URL(), "rediss+", "redis+", 1), ""},
	} {
		_, err := redisconn.Open(t.Context(), refused.url)
		if err == nil || !strings.Contains(err.Error(), refused.want) || strings.Contains(err.Error(), old.Password) {
			t.Errorf("%s: got %v, want it to say %q", name, err, refused.want)
		}
	}
}

func TestTLSWithAWrongName(t *testing.T) {
	t.Parallel()
	const other = "127.0.1.1"
	for of, c := range map[string]gbtest.RedisGroupConfig{"reach the primary": {ServerName: other}, "the Sentinel": {SentinelName: other}} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			ca := gbtest.NewCA(t)
			c.CA, c.DownAfter = ca, time.Minute
			g := gbtest.StartRedisGroup(t, c)
			err := trusting(t, ca, g.URL()).Ping(t.Context()).Err()
			if err == nil || !strings.Contains(err.Error(), "certificate is valid for "+other+", not 127.0.0.") || !strings.Contains(err.Error(), of) {
				t.Errorf("got %v, want it to say of whom the certificate is for another", err)
			}
		})
	}
}

// Whoever asks for TLS is given nothing else, and tells a server that speaks without no password.
func TestTLSAtAPlainPort(t *testing.T) {
	t.Parallel()
	ca := gbtest.NewCA(t)
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute})
	for of, url := range map[string]string{
		"Sentinels": strings.Replace(g.URL(), "redis+", "rediss+", 1),
		"a server":  strings.Replace(strings.Replace(g.Servers[0].URL(), "redis:", "rediss:", 1), "dial_timeout=1m", "dial_timeout=2s", 1),
	} {
		c := trusting(t, ca, url)
		if err := c.Ping(t.Context()).Err(); err == nil {
			t.Errorf("TLS to %s that speak without: it answered", of)
		}
	}
}
