package redisconn_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, url string) *redis.Client {
	t.Helper()
	c, err := redisconn.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestOpenSaysWhatOnlyASettingMends(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute})
	password := g.Servers[0].Password
	for url, want := range map[string]string{
		"redis+sentinel://s1": "want redis",
		strings.Replace(g.URL(), "master=glovebox", "master=other", 1):           `no Sentinel knows a primary "other"`,
		strings.Replace(g.URL(), "sentinel_password=", "sentinel_password=x", 1): "WRONGPASS",
		strings.Replace(g.URL(), ":"+password+"@", ":wrong@", 1):                 "WRONGPASS",
	} {
		_, err := redisconn.Open(t.Context(), url)
		if !errors.Is(err, await.ErrSettings) || !strings.Contains(err.Error(), want) && want != "want redis" || strings.Contains(err.Error(), password) {
			t.Errorf("got %v, want wrong settings, and %s", err, want)
		}
	}
}

// What is under way with the old primary goes on with the new one: calls, a subscription, a wait at a list.
// The old one says nothing, and one of the Sentinels neither, as if their machine were cut off.
func TestASwitchMovesEverything(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: 2 * time.Second})
	c := open(t, g.URL())
	old := g.Primary(t)
	itself := open(t, old.Admin())
	subscription := c.Subscribe(t.Context(), "gb:done")
	defer subscription.Close()
	heard := subscription.Channel(redis.WithChannelHealthCheckInterval(redisconn.HealthCheck))
	if _, err := c.Set(t.Context(), "gb:ping", "1", time.Minute).Result(); err != nil {
		t.Fatal(err)
	}
	old.Signal(syscall.SIGSTOP)
	g.Sentinels[0].Signal(syscall.SIGSTOP)
	woken := make(chan struct{})
	go func() { // until it is woken
		for t.Context().Err() == nil {
			if err := c.BLPop(t.Context(), time.Second, "gb:bell:jobs").Err(); err == nil {
				close(woken)
				return
			}
		}
	}()
	began := time.Now()
	gbtest.Eventually(t, "a write is taken again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.LPush(ctx, "gb:bell:jobs", "1").Err() == nil
	})
	t.Logf("writes were taken again after %s", time.Since(began).Round(100*time.Millisecond))
	gbtest.Eventually(t, "the wait at a list ends", func() bool {
		select {
		case <-woken:
			return true
		default:
			return false
		}
	})
	gbtest.Eventually(t, "the subscription hears of the new primary", func() bool {
		if err := c.Publish(t.Context(), "gb:done", "x").Err(); err != nil {
			t.Log(err)
		}
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
	t.Logf("and messages after %s", time.Since(began).Round(100*time.Millisecond))
	old.Signal(syscall.SIGCONT)
	g.Sentinels[0].Signal(syscall.SIGCONT)
	gbtest.Eventually(t, "the old primary is a replica", func() bool { return g.Primary(t) != old && role(t, itself) == "slave" })
	if err := c.Set(t.Context(), "gb:ping", "2", time.Minute).Err(); err != nil {
		t.Errorf("after the old primary is back: %v", err)
	}
}

// role is what a server says that it is.
func role(t *testing.T, c *redis.Client) string {
	t.Helper()
	said, err := c.Info(t.Context(), "replication").Result()
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(strings.NewReader(said)); lines.Scan(); {
		if is, ok := strings.CutPrefix(lines.Text(), "role:"); ok {
			return is
		}
	}
	return ""
}

// An answer is held back that replicas don't have, also the answer of a script that wrote nothing itself.
func TestReplicasConfirm(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute})
	c := open(t, g.URL())
	run := func(replicas int) error {
		script := redis.NewScript("if redis.call('setnx', 'gb:share', ARGV[1]) == 1 then return 'new' end return 'there'")
		return script.Run(t.Context(), redisconn.Replicated(c, replicas), nil, "x").Err()
	}
	gbtest.Eventually(t, "two replicas confirm", func() bool {
		err := run(2)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	for _, s := range g.Servers {
		if s != g.Primary(t) {
			s.Signal(syscall.SIGSTOP)
			defer s.Signal(syscall.SIGCONT)
		}
	}
	began := time.Now()
	for n := range 2 {
		if err := run(1); !errors.Is(err, redisconn.ErrUnconfirmed) {
			t.Errorf("try %d without a replica: got %v, want ErrUnconfirmed", n, err)
		}
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("two took %s", took)
	}
	if err := run(0); err != nil {
		t.Errorf("nobody is to confirm: %v", err)
	}
	if err := redisconn.Confirm(t.Context(), c, 1); !errors.Is(err, redisconn.ErrUnconfirmed) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("confirm: got %v", err)
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute, MaxLag: 2})
	primary := g.Primary(t)
	for _, s := range g.Servers {
		if s == primary {
			continue
		}
		replica := open(t, s.Admin())
		script := redis.NewScript("redis.call('get', 'gb:ping'); return redis.call('set', 'gb:ping', '1')")
		if err := script.Run(t.Context(), replica, nil).Err(); !redisconn.Away(err) {
			t.Errorf("a script at a replica: %v counts as an answer", err)
		}
		s.Kill()
	}
	c := open(t, g.URL())
	gbtest.Eventually(t, "a primary without replicas refuses", func() bool {
		err := c.Set(t.Context(), "gb:ping", "1", time.Minute).Err()
		return redisconn.Away(err)
	})
	if redisconn.Away(redis.Nil) || redisconn.Away(nil) || redisconn.Away(fmt.Errorf("x: %w", redis.Nil)) {
		t.Error("an answer counts as none")
	}
}

// TestAskersOnlyAsk: who has the URL of an api or a worker can't have the Sentinels name another server.
func TestAskersOnlyAsk(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute})
	address, err := redisconn.Parse(g.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := address.Sentinels.Clients()[0]
	defer c.Close()
	for name, forbidden := range map[string]func() error{
		"reset":     func() error { return c.Reset(t.Context(), "*").Err() },
		"failover":  func() error { return c.Failover(t.Context(), "glovebox").Err() },
		"flush":     func() error { return c.FlushConfig(t.Context()).Err() },
		"monitor":   func() error { return c.Monitor(t.Context(), "other", "127.0.0.1", "1", "1").Err() },
		"set":       func() error { return c.Set(t.Context(), "glovebox", "quorum", "3").Err() },
		"remove":    func() error { return c.Remove(t.Context(), "glovebox").Err() },
		"subscribe": func() error { _, err := c.Subscribe(t.Context(), "+switch-master").Receive(t.Context()); return err },
	} {
		if err := forbidden(); err == nil || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: got %v, want NOPERM", name, err)
		}
	}
	if named, err := c.GetMasterAddrByName(t.Context(), "glovebox").Result(); err != nil || len(named) != 2 {
		t.Errorf("got %v, %v, want the primary", named, err)
	}
}
