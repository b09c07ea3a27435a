package gbtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisacl"
)

// RedisCluster is three real redis-servers that are one Redis Cluster, each with a third of the slots and no
// replicas: what Glovebox refuses (docs/adr/0063-cluster.md).
type RedisCluster struct {
	Nodes []*RedisServer
}

// slots is how many a Cluster has.
const slots = 16384

// StartRedisCluster starts one, and returns once all nodes say that it is whole.
func StartRedisCluster(tb testing.TB) *RedisCluster {
	tb.Helper()
	c, password, buses := &RedisCluster{}, rand.Text(), []string{}
	for range 3 {
		_, bus, _ := net.SplitHostPort(Addr(tb)) // else its port and 10,000, which may be another test's
		c.Nodes = append(c.Nodes, redisServer(tb, aSeat(tb), password, "--cluster-enabled", "yes", "--cluster-port", bus))
		buses = append(buses, bus)
	}
	ctx := context.Background()
	for i, node := range c.Nodes {
		admin := node.admin()
		defer admin.Close()
		pipe := admin.Pipeline()
		pipe.Do(ctx, "cluster", "set-config-epoch", i+1)
		pipe.ClusterAddSlotsRange(ctx, i*slots/3, (i+1)*slots/3-1)
		host, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
		if i > 0 {
			pipe.Do(ctx, "cluster", "meet", host, port, buses[0])
		}
		if _, err := pipe.Exec(ctx); err != nil {
			tb.Fatal(err)
		}
	}
	Eventually(tb, "all nodes of the Cluster know each other, and serve all slots", func() bool {
		for _, node := range c.Nodes {
			if !node.whole(ctx) {
				return false
			}
		}
		return true
	})
	return c
}

func (r *RedisServer) whole(ctx context.Context) bool {
	admin := r.admin()
	defer admin.Close()
	said, err := admin.ClusterInfo(ctx).Result()
	return err == nil && strings.Contains(said, "cluster_state:ok") && strings.Contains(said, "cluster_known_nodes:3") && strings.Contains(said, fmt.Sprint("cluster_slots_ok:", slots))
}

// Client is one that knows all nodes, as the operator.
func (c *RedisCluster) Client(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	all := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{c.Nodes[0].Addr}, Username: string(redisacl.Admin), Password: c.Nodes[0].Password, DialTimeout: Patience, ReadTimeout: Patience,
	})
	tb.Cleanup(func() { all.Close() })
	return all
}

// Move begins to move the slot of a key from the node that has it to another, as resharding does. The slot's keys
// stay where they are. It returns the node that has them.
func (c *RedisCluster) Move(tb testing.TB, key string) (from *RedisServer) {
	tb.Helper()
	ctx := tb.Context()
	ids := make([]string, len(c.Nodes))
	owner, slot := -1, int64(0)
	for i, node := range c.Nodes {
		admin := node.admin()
		defer admin.Close()
		var err error
		if slot, err = admin.ClusterKeySlot(ctx, key).Result(); err != nil {
			tb.Fatal(err)
		}
		if ids[i], err = admin.ClusterMyID(ctx).Result(); err != nil {
			tb.Fatal(err)
		}
		if int(slot) >= i*slots/3 && int(slot) < (i+1)*slots/3 {
			owner = i
		}
	}
	to := (owner + 1) % len(c.Nodes)
	for _, step := range []struct {
		node int
		args []any
	}{
		{to, []any{"cluster", "setslot", slot, "importing", ids[owner]}},
		{owner, []any{"cluster", "setslot", slot, "migrating", ids[to]}},
	} {
		admin := c.Nodes[step.node].admin()
		defer admin.Close()
		if err := admin.Do(ctx, step.args...).Err(); err != nil {
			tb.Fatal(err)
		}
	}
	return c.Nodes[owner]
}
