// Package redisconn is how Glovebox talks to Redis: one server or those that Sentinels watch, calls
// that end in time, writes that replicas have, many questions in one round trip, and values that
// can't be read. Start at [Open].
package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
	address, err := Parse(url)
	if err != nil {
		return nil, fmt.Errorf("the Redis URL %w: %w", err, await.ErrSettings)
	}
	rdb := address.Client()
	err = rdb.Ping(ctx).Err()
	if err == nil {
		err = refuseCluster(ctx, rdb)
	}
	if err != nil {
		rdb.Close()
		return nil, fmt.Errorf("reach Redis at %s: %w", address.Options.Addr, Refusal(err))
	}
	return rdb, nil
}

// errCluster says what to do instead. docs/adr/0063-cluster.md says what stands in the way.
var errCluster = errors.New("leads to a Redis Cluster: Redis Cluster is not supported, want one server, or Sentinels (redis+sentinel://…); " +
	"of a provider's, one with cluster mode disabled")

// refuseCluster fails where the server speaks the cluster protocol.
func refuseCluster(ctx context.Context, rdb *redis.Client) error {
	info, err := rdb.Info(ctx, "cluster").Result()
	if err != nil {
		return err
	}
	if strings.Contains(info, "cluster_enabled:1") {
		return fmt.Errorf("it %w: %w", errCluster, await.ErrSettings)
	}
	return nil
}

// Refusal adds await.ErrSettings to an answer of Redis that only other settings change: a user or
// password that it doesn't know, say.
func Refusal(err error) error {
	if redis.HasErrorPrefix(err, "SELECT is not allowed in cluster mode") { // the URL's database is another than 0
		return fmt.Errorf("it %w: %w", errCluster, await.ErrSettings)
	}
	for _, word := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "AUTH <password> called", "DB index is out of range", "invalid DB index"} {
		if redis.HasErrorPrefix(err, word) {
			return fmt.Errorf("%w: %w", await.ErrSettings, err)
		}
	}
	return err
}

// Away reports whether an answer says that the server can't serve at the moment: it still loads, is
// a replica or no longer the primary, or misses its replicas. Another, or the same one later, can.
func Away(err error) bool {
	for _, word := range []string{"LOADING ", "READONLY ", "NOREPLICAS ", "MASTERDOWN ", "UNBLOCKED "} {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return false
}
