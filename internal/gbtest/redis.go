package gbtest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisacl"
)

// RedisProgram is the redis-server that tests start: that of PATH, or the one at the path
// GLOVEBOX_TEST_REDIS_SERVER, which may be a valkey-server.
func RedisProgram() string { return cmp.Or(os.Getenv("GLOVEBOX_TEST_REDIS_SERVER"), "redis-server") }

// RedisServer is a real redis-server with AOF, noeviction and a user for each role.
type RedisServer struct {
	*Process
	Addr, Password string
	// Dir is where it keeps its append-only file.
	Dir string
	// MayRefuse keeps a test from failing for what Redis refused to a role.
	MayRefuse bool
	// Hangs leaves calls the time-outs that they have in production, for tests that let Redis hang. Else a
	// call may take a minute: no busy machine is to fail it.
	Hangs bool

	tls *tls.Config // nil: it speaks without
}

// seat is where a server listens: an address of this machine, and how it speaks there.
type seat struct {
	addr string
	args []string    // of redis-server
	tls  *tls.Config // nil: without
}

// aSeat is one on 127.0.0.1, without TLS.
func aSeat(tb testing.TB) seat {
	tb.Helper()
	addr := Addr(tb)
	_, port, _ := net.SplitHostPort(addr)
	return seat{addr: addr, args: []string{"--port", port, "--bind", "127.0.0.1"}}
}

// anyRole is the user of tests that play api and worker at once.
const anyRole = "tests"

// URL in the form that redis.ParseURL reads, of a user who may do with the keys of
// internal/redisacl what it likes, and has no others.
func (r *RedisServer) URL() string { return r.as(anyRole) }

// API is the URL of the api's user, Worker that of the workers', Metrics that of what
// counts, and Admin that of the operator.
func (r *RedisServer) API() string     { return r.as(string(redisacl.API)) }
func (r *RedisServer) Worker() string  { return r.as(string(redisacl.Worker)) }
func (r *RedisServer) Metrics() string { return r.as(string(redisacl.Metrics)) }
func (r *RedisServer) Admin() string   { return r.as(string(redisacl.Admin)) }

func (r *RedisServer) as(user string) string {
	scheme := "redis://"
	if r.tls != nil {
		scheme = "rediss://"
	}
	url := scheme + user + ":" + r.Password + "@" + r.Addr + "/0"
	if r.Hangs {
		return url
	}
	return url + "?dial_timeout=1m&read_timeout=1m&write_timeout=1m"
}

// Redis starts a redis-server, with more arguments, whose data survives Kill and Restart. The test fails if
// Redis refuses anything to a role.
func Redis(tb testing.TB, more ...string) *RedisServer {
	tb.Helper()
	WhenIdle(tb)
	return redisServer(tb, aSeat(tb), rand.Text(), more...)
}

// redisServer is Redis at a seat, with a password for all users, and more arguments.
func redisServer(tb testing.TB, at seat, password string, more ...string) *RedisServer {
	tb.Helper()
	Require(tb, "redis")
	r := &RedisServer{Addr: at.addr, Password: password, Dir: tb.TempDir(), tls: at.tls}
	users := filepath.Join(tb.TempDir(), "users.acl")
	list := "user " + anyRole + " " + redisacl.AnyRole(r.Password) + "\n"
	for _, role := range []redisacl.Role{redisacl.API, redisacl.Worker, redisacl.Metrics, redisacl.Admin} {
		u := redisacl.User{Role: role}
		list += "user " + u.Name() + " " + u.Rules(r.Password) + "\n"
	}
	if err := os.WriteFile(users, []byte(list), 0o600); err != nil {
		tb.Fatal(err)
	}
	// Redis writes its file before it answers, so what a test kills loses nothing: only a machine that fails does.
	// A disk that others keep busy would make each call slow. Benchmarks measure what production does.
	sync := "no"
	if _, ok := tb.(*testing.B); ok {
		sync = "always"
	}
	r.Process = Start(tb, slices.Concat([]string{RedisProgram()}, at.args, []string{
		"--dir", r.Dir, "--aclfile", users, "--appendonly", "yes", "--appendfsync", sync, "--save", "", "--maxmemory-policy", "noeviction",
	}, more), nil, r.ready)
	tb.Cleanup(func() { r.reportRefusals(tb) })
	return r
}

func (r *RedisServer) ready() bool {
	c, err := dial("tcp", r.Addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if r.tls != nil {
		c = tls.Client(c, r.tls)
	}
	if _, err := c.Write([]byte("AUTH " + r.Password + "\r\nPING\r\n")); err != nil {
		return false
	}
	answers := bufio.NewScanner(c)
	for answers.Scan() { // while it loads its AOF it says +OK to AUTH and -LOADING to PING
		if answers.Text() != "+OK" {
			return answers.Text() == "+PONG"
		}
	}
	return false
}

// Refusals lists what Redis refused to roles since it started, as far as it remembers.
func (r *RedisServer) Refusals() (list []string, err error) {
	admin := r.admin()
	defer admin.Close()
	refused, err := admin.ACLLog(context.Background(), 128).Result() // all that it keeps; clean-ups have no tb.Context
	for _, e := range refused {
		if e.Reason != "auth" { // a wrong password
			list = append(list, fmt.Sprintf("%s %q to user %s (%s)", e.Reason, e.Object, e.Username, e.Context))
		}
	}
	return list, err
}

func (r *RedisServer) reportRefusals(tb testing.TB) {
	tb.Helper()
	if r.MayRefuse {
		return
	}
	list, err := r.Refusals()
	if err != nil {
		return // the test killed it
	}
	for _, refused := range list {
		tb.Errorf("Redis refused %s: if the role needs it, add it to internal/redisacl/table.go", refused)
	}
}

// admin is a client that waits for nothing.
func (r *RedisServer) admin() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: r.Addr, Username: string(redisacl.Admin), Password: r.Password, TLSConfig: r.tls, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: time.Second,
	})
}
