package gbtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisacl"
)

// RedisGroup is three real redis-servers, one of them the primary of the two others, and three real Sentinels.
type RedisGroup struct {
	Servers   []*RedisServer
	Sentinels []*Process

	addrs    []string // of the Sentinels
	clients  []*redis.SentinelClient
	password string
	asker    string // the password by which the Sentinels are asked
	config   RedisGroupConfig
	seats    int
}

// RedisGroupConfig is how a group is configured.
type RedisGroupConfig struct {
	// DownAfter is how long a primary says nothing before Sentinels call it down.
	DownAfter time.Duration
	// MaxLag, in seconds, makes a primary refuse writes that has heard of no replica for as long. 0: it takes them.
	MaxLag int
	// CA has all speak TLS alone, each at an IP address of its own, with a certificate for that address. nil: they speak without.
	CA *CA
	// ServerName and SentinelName are addresses for which the certificates are in the place of each one's own.
	ServerName, SentinelName string
}

// groupName is the name by which the Sentinels know the primary.
const groupName = "glovebox"

// StartRedisGroup starts one, and returns once the replicas follow and the Sentinels know each other.
func StartRedisGroup(tb testing.TB, c RedisGroupConfig) *RedisGroup {
	tb.Helper()
	g := &RedisGroup{password: rand.Text(), asker: rand.Text(), config: c}
	server := func(more ...string) *RedisServer {
		more = append(more, "--masteruser", string(redisacl.Admin), "--masterauth", g.password, "--repl-diskless-sync-delay", "0")
		if c.MaxLag > 0 {
			more = append(more, "--min-replicas-to-write", "1", "--min-replicas-max-lag", fmt.Sprint(c.MaxLag))
		}
		s := redisServer(tb, g.seat(tb, c.ServerName), g.password, more...)
		g.Servers = append(g.Servers, s)
		return s
	}
	host, port, _ := net.SplitHostPort(server().Addr)
	for range 2 {
		server("--replicaof", host+" "+port)
	}
	for range 3 {
		g.startSentinel(tb, host, port)
	}
	Eventually(tb, "the replicas follow, and the Sentinels know each other and them", func() bool { return g.whole(tb) })
	return g
}

// seat is the next one. Addresses are given in turn: 127.0.0.2, 127.0.0.3 and so on are this machine, too.
func (g *RedisGroup) seat(tb testing.TB, name string) seat {
	tb.Helper()
	if g.config.CA == nil {
		return aSeat(tb)
	}
	_, port, _ := net.SplitHostPort(Addr(tb)) // if it is free on 127.0.0.1, no other test has it elsewhere
	g.seats++
	ip := fmt.Sprintf("127.0.0.%d", g.seats+1)
	name = cmp.Or(name, ip)
	cert, key := g.config.CA.Certificate(name)
	return seat{
		addr: net.JoinHostPort(ip, port), tls: &tls.Config{RootCAs: g.config.CA.Pool, ServerName: name, MinVersion: tls.VersionTLS12},
		args: []string{
			"--port", "0", "--tls-port", port, "--bind", ip, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", g.config.CA.File,
			"--tls-auth-clients", "no", "--tls-replication", "yes", "--replica-announce-ip", ip,
		},
	}
}

func (g *RedisGroup) startSentinel(tb testing.TB, host, port string) {
	tb.Helper()
	at, dir := g.seat(tb, g.config.SentinelName), tb.TempDir()
	conf := filepath.Join(dir, "sentinel.conf") // Sentinels write into it
	own, _, _ := net.SplitHostPort(at.addr)
	lines := []string{
		"dir " + dir, "requirepass " + g.password, "sentinel sentinel-pass " + g.password, "sentinel announce-ip " + own,
		"user glovebox on >" + g.asker + " -@all +ping +sentinel|get-master-addr-by-name +sentinel|master +sentinel|ckquorum", // as docs/operations.md has it
		fmt.Sprintf("sentinel monitor %s %s %s 2", groupName, host, port),
		"sentinel auth-user " + groupName + " " + string(redisacl.Admin), "sentinel auth-pass " + groupName + " " + g.password,
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", groupName, g.config.DownAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", groupName, 4*g.config.DownAfter.Milliseconds()), "",
	}
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		tb.Fatal(err)
	}
	g.Sentinels = append(g.Sentinels, Start(tb, slices.Concat([]string{RedisProgram(), conf, "--sentinel"}, at.args), nil, func() bool {
		c, err := dial("tcp", at.addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}))
	client := redis.NewSentinelClient(&redis.Options{
		Addr: at.addr, Password: g.password, TLSConfig: at.tls, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second,
	})
	tb.Cleanup(func() { client.Close() })
	g.addrs, g.clients = append(g.addrs, at.addr), append(g.clients, client)
}

// whole reports whether every Sentinel knows all servers and Sentinels, and the replicas follow.
func (g *RedisGroup) whole(tb testing.TB) bool {
	tb.Helper()
	for i := range g.Sentinels {
		said, err := g.Sentinel(i).Master(context.Background(), groupName).Result()
		if err != nil || said["num-slaves"] != "2" || said["num-other-sentinels"] != "2" {
			return false
		}
	}
	primary := g.Primary(tb)
	return primary != nil && primary.Replicas() == 2
}

// Replicas is how many follow this server, and have all that it had.
func (r *RedisServer) Replicas() int {
	c := r.admin()
	defer c.Close()
	said, err := c.Info(context.Background(), "replication").Bytes()
	if err != nil {
		return 0
	}
	return bytes.Count(said, []byte("state=online"))
}

// Primary is the server that the Sentinels name, nil while they name none of the group.
func (g *RedisGroup) Primary(tb testing.TB) *RedisServer {
	tb.Helper()
	for i, sentinel := range g.Sentinels {
		if !sentinel.Alive() {
			continue
		}
		addr, err := g.Sentinel(i).GetMasterAddrByName(context.Background(), groupName).Result()
		if err != nil || len(addr) != 2 {
			continue
		}
		for _, s := range g.Servers {
			if s.Addr == net.JoinHostPort(addr[0], addr[1]) {
				return s
			}
		}
	}
	return nil
}

// Sentinel is a client of one of them.
func (g *RedisGroup) Sentinel(i int) *redis.SentinelClient { return g.clients[i] }

// URL is that of the Sentinels, for a user who may do with the keys of internal/redisacl what it likes.
func (g *RedisGroup) URL() string { return g.as(anyRole) }

// API is the URL for the api's user, Worker that for the workers', and Admin that for the operator.
func (g *RedisGroup) API() string    { return g.as(string(redisacl.API)) }
func (g *RedisGroup) Worker() string { return g.as(string(redisacl.Worker)) }
func (g *RedisGroup) Admin() string  { return g.as(string(redisacl.Admin)) }

func (g *RedisGroup) as(user string) string {
	scheme := "redis"
	if g.config.CA != nil {
		scheme = "rediss"
	}
	return fmt.Sprintf("%s+sentinel://%s:%s@%s/0?master=%s&sentinel_username=glovebox&sentinel_password=%s", scheme, user, g.password, strings.Join(g.addrs, ","), groupName, g.asker)
}
