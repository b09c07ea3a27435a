package redisconn_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, hosts, sentinels, user, err string }{
		{url: "redis://u:hush@127.0.0.1:6379/0", hosts: "127.0.0.1", user: "u"},
		{url: "rediss://u:hush@redis.internal/0?read_timeout=1m", hosts: "redis.internal", user: "u"},
		{url: "unix://u:hush@/run/redis.sock", user: "u"},
		{url: "redis+sentinel://u:hush@s1:26379,s2:26380,s3/2?master=glovebox", hosts: "s1 s2 s3", sentinels: "s1:26379, s2:26380, s3:26379", user: "u"},
		{url: "rediss+sentinel://u:hu%40sh@[2001:db8::1]:1,10.0.0.1?master=m&sentinel_username=v&sentinel_password=hush&pool_size=7", hosts: "2001:db8::1 10.0.0.1", sentinels: "[2001:db8::1]:1, 10.0.0.1:26379", user: "u"},
		{url: "redis+sentinel://s1?master=m", hosts: "s1", sentinels: "s1:26379"},
		{url: "redis+sentinel://u:hush@s1,s2/0", err: "has no master=NAME"},
		{url: "redis+sentinel://u:hush@s1,,s3/0?master=m", err: "address 2 of its Sentinels"},
		{url: "redis+sentinel://u:hush@s1:x,s3/0?master=m", err: "address 1 of its Sentinels"},
		{url: "redis+sentinel://u:hush@s1,s1:26379/0?master=m", err: "has a Sentinel twice: address 2"},
		{url: "redis+sentinel://u:hush@s1/0?master=m&sentinel_username=v", err: "without a sentinel_password"},
		{url: "redis+sentinel://u:hush@s1/zero?master=m", err: "want redis://"},
		{url: "redis+sentinel://u:hush@s1/0?master=m&colour=red", err: "want redis://"},
		{url: "unix+sentinel://u:hush@s1/0?master=m", err: "want redis://"},
		{url: "redis+cluster://u:hush@c1,c2/0", err: "a Redis Cluster: Redis Cluster is not supported"},
		{url: "http://u:hush@h", err: "want redis://"},
		{url: "hush", err: "want redis://"},
		{url: "", err: "want redis://"},
	} {
		a, err := redisconn.Parse(c.url)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: got %v, want %q and no password", c.url, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		sentinels := ""
		if a.Sentinels != nil {
			sentinels = a.Sentinels.String()
		}
		if got := strings.Join(a.Hosts, " "); got != c.hosts || sentinels != c.sentinels || a.Options.Username != c.user || a.Options.MaxRetries != -1 {
			t.Errorf("%s: got hosts %q, Sentinels %q, user %q", c.url, got, sentinels, a.Options.Username)
		}
		if strings.Contains(a.Options.Addr, "hush") {
			t.Errorf("%s: %q shows a password", c.url, a.Options.Addr)
		}
	}
	if a, err := redisconn.Parse("rediss+sentinel://s1,s2/?master=m"); err != nil || a.Options.TLSConfig == nil || a.Options.TLSConfig.ServerName != "" {
		t.Errorf("TLS to several machines: got %+v, %v", a.Options, err)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("redis+sentinel://u:hush@s1:26379,s2:26380,s3/2?master=glovebox")
	f.Add("redis+sentinel://u:hush@[::1]:1,@/?master=m")
	f.Add("rediss+sentinel://:hush/a,b@h?master=m#x")
	f.Add("redis+sentinel://u:hush,a:1/@h:2?master=m")
	f.Fuzz(func(t *testing.T, url string) {
		a, err := redisconn.Parse(url)
		switch {
		case err != nil && strings.Contains(err.Error(), "hush"):
			t.Errorf("the error shows a password: %v", err)
		case err == nil && a.Sentinels != nil && (len(a.Sentinels.Addrs) == 0 || len(a.Hosts) != len(a.Sentinels.Addrs) || a.Sentinels.Primary == ""):
			t.Errorf("got %+v", a.Sentinels)
		}
	})
}
