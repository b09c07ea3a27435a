// Package redisconn is how Glovebox talks to Redis: calls that end in time, many questions in
// one round trip, and values that can't be read. Start at [Open].
package redisconn

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/glovebox-run/glovebox/internal/await"
)

const (
	// CallTimeout bounds a call. It is shorter than the time between two beats.
	CallTimeout = 3 * time.Second
	// HealthCheck is how long a subscription may be silent before it is pinged.
	HealthCheck = 3 * time.Second
)

// Open connects to Redis and checks that it answers. It fails with await.ErrSettings where
// no waiting helps.
func Open(ctx context.Context, url string) (*redis.Client, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("parse the Redis URL: %w: want redis://user:password@host:port/db", await.ErrSettings) // the URL holds a password
	}
	// A script that was sent twice because an answer got lost answers "stale" or
	// "ended" to its own caller, so what is retried is decided by callers.
	opts.MaxRetries = -1
	bound(opts)
	rdb := redis.NewClient(opts)
	if err := rdb.Ping(ctx).Err(); err != nil {
		rdb.Close()
		return nil, fmt.Errorf("reach Redis at %s: %w", opts.Addr, Refusal(err))
	}
	return rdb, nil
}

// Refusal adds await.ErrSettings to an answer of Redis that only other settings change: a user or
// password that it doesn't know, say.
func Refusal(err error) error {
	for _, word := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "AUTH <password> called", "DB index is out of range", "invalid DB index"} {
		if redis.HasErrorPrefix(err, word) {
			return fmt.Errorf("%w: %w", await.ErrSettings, err)
		}
	}
	return err
}

// bound makes each call end in time when Redis hangs rather than refuses: by its
// context's deadline, and by time-outs of its own. And a new connection asks for nothing
// that our users in Redis may not do.
func bound(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, timeout := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout} {
		if *timeout == 0 {
			*timeout = CallTimeout
		}
	}
	if o.DialerRetries == 0 {
		o.DialerRetries = 1
	}
}
