package redisacl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisacl"
)

// client of a user of s.
func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// run sends a command of words; what stands in quotes is one word.
func run(t *testing.T, c *redis.Client, command string) error {
	t.Helper()
	var args []any
	for i, part := range strings.Split(command, `"`) {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		for _, word := range strings.Fields(part) {
			args = append(args, word)
		}
	}
	err := c.Do(t.Context(), args...).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

func refused(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "NOPERM ") || strings.HasPrefix(err.Error(), "ERR The user executing the script can't ") || // as Redis 7.0 says it
		strings.HasPrefix(err.Error(), "ERR ACL failure in script: No permissions to ")) // as Valkey 8.1 does
}

// What a worker that was taken over must not be able to do, by what it would do it for.
var forbidden = []struct{ why, commands string }{
	{"mint a token", `HSET gb:{acme}:tenant token:k7w3mq2a {}
		HSETNX gb:{acme}:tenant token:k7w3mq2a {}
		EVAL "return redis.call('HSET', 'gb:{acme}:tenant', 'token:k7w3mq2a', '{}')" 0
		EVAL "return redis.call('HSET', KEYS[1], 'token:k7w3mq2a', '{}')" 1 gb:{acme}:tenant
		EVAL "return redis.call('HSET', KEYS[1] .. 'tenant', 'token:k7w3mq2a', '{}')" 1 gb:{acme}:`},
	{"change terms", `HSET gb:{acme}:tenant terms {}
		HDEL gb:{acme}:tenant terms
		DEL gb:{acme}:tenant
		EXPIRE gb:{acme}:tenant 1
		SET gb:{acme}:tenant x
		RENAME gb:{acme}:job:x gb:{acme}:tenant
		COPY gb:{acme}:job:x gb:{acme}:tenant
		RESTORE gb:{acme}:tenant 0 x`},
	{"make or hide a tenant", `SADD gb:tenants evil
		SREM gb:tenants acme
		SMEMBERS gb:tenants`},
	{"get around a tenant's rate", `DEL gb:{acme}:rate
		SET gb:{acme}:rate 0`},
	{"read or change the audit log", `XADD gb:audit * event x
		XRANGE gb:audit - +
		XDEL gb:audit 1-1
		DEL gb:audit
		XADD gb:audit:jobs * event x
		XADD gb:audit:operator * event x`},
	{"choose webhook secrets", `HSET gb:{acme}:webhook generation 2
		HGETALL gb:{acme}:webhook`},
	{"store or delete a secret", `HSET gb:{acme}:secrets API_TOKEN {}
		HDEL gb:{acme}:secrets API_TOKEN`},
	{"read what clients call their jobs", `GET gb:{acme}:idem:x
		SET gb:{acme}:idem:x y
		GET gb:{acme}:batchidem:x
		ZRANGE gb:{acme}:jobs 0 -1
		ZREM gb:{acme}:jobs x
		ZRANGE gb:{acme}:batches 0 -1`},
	{"read deliveries, or what is to be deleted", `HGETALL gb:{acme}:delivery:msg_x
		ZRANGE gb:{acme}:outbox 0 -1
		EVAL "return redis.call('HGET', 'gb:{acme}:delivery:msg_x', 'url')" 0
		ZRANGE gb:{acme}:garbage 0 -1
		HGETALL gb:{acme}:kept`},
	{"take deliveries", `RPOPLPUSH asynq:{deliveries}:pending asynq:{deliveries}:active
		ZADD asynq:{deliveries}:lease 1 x
		ZADD asynq:{deliveries}:scheduled 1 x
		RPOPLPUSH asynq:{deliveries:backlog}:pending asynq:{deliveries:backlog}:active
		ZADD asynq:{deliveries:backlog}:lease 1 x
		BLPOP gb:bell:deliveries 0.01`},
	{"list keys", `KEYS *
		SCAN 0
		RANDOMKEY
		DBSIZE`},
	{"use other keys than Glovebox's", `SET other x
		GET other
		SET gb:other x
		SET gb:{acme}:other x
		SET gb:{acme}:tenantx x`},
	{"hear or say what is others'", `PUBLISH asynq:cancel x
		PUBLISH other x
		SUBSCRIBE gb:done
		SUBSCRIBE gb:events:x
		PSUBSCRIBE *`},
	{"look at or change the server", `CONFIG GET requirepass
		CONFIG SET dir /tmp
		ACL LIST
		ACL SETUSER evil on nopass ~* +@all
		ACL GETUSER glovebox-api
		CLIENT LIST
		CLIENT KILL ID 1
		MONITOR
		SLOWLOG GET
		SAVE
		BGREWRITEAOF
		SHUTDOWN NOSAVE
		REPLICAOF 127.0.0.1 1
		FLUSHALL
		FLUSHDB
		SWAPDB 0 1
		MOVE gb:{acme}:job:x 1
		SCRIPT FLUSH
		FUNCTION LIST
		MODULE LIST
		MIGRATE 127.0.0.1 1 gb:{acme}:job:x 0 10
		SORT gb:{acme}:open GET gb:{acme}:tenant`},
}

func TestForbiddenToWorkers(t *testing.T) { //nolint:tparallel // what was written is looked at after its parts
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true
	admin := client(t, server.Admin())
	for _, f := range forbidden {
		t.Run(f.why, func(t *testing.T) { //nolint:paralleltest // what was written is looked at after them all
			for command := range strings.Lines(f.commands) {
				command = strings.TrimSpace(command)
				// One of its own, as some commands change the connection.
				if err := run(t, client(t, server.Worker()), command); !refused(err) {
					t.Errorf("%s: got %v, want it refused", command, err)
				}
			}
		})
	}
	if n := admin.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
}

// A worker with a user of its own can't say that another one lives, or is gone.
func TestBeatsOfOthers(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true
	admin := client(t, server.Admin())
	me := redisacl.User{Role: redisacl.Worker, Worker: "host-1"}
	args := []any{"ACL", "SETUSER", me.Name()}
	for word := range strings.FieldsSeq(me.Rules(server.Password)) {
		args = append(args, word)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(server.Worker(), string(redisacl.Worker), me.Name(), 1)
	if got := redisacl.WorkerName(me.Name()); got != "host-1" {
		t.Errorf("the worker's name: got %q", got)
	}
	worker := client(t, url)
	for command, want := range map[string]bool{
		"SET gb:worker:host-1-abcdefghij x EX 15":   false,
		"DEL gb:worker:host-1-abcdefghij":           false,
		"GET gb:worker:host-2-abcdefghij":           false,
		"EXISTS gb:worker:host-2-abcdefghij":        false,
		"SET gb:worker:host-2-abcdefghij x EX 15":   true,
		"DEL gb:worker:host-2-abcdefghij":           true,
		"EXPIRE gb:worker:host-2-abcdefghij 1":      true,
		"SET gb:worker:host-1-b-abcdefghij x EX 15": true,
		"HSET gb:{acme}:tenant terms {}":            true,
	} {
		if err := run(t, worker, command); refused(err) != want || !want && err != nil {
			t.Errorf("%s: got %v, want refused: %v", command, err, want)
		}
	}
}

// What the operator's tools may do, and may not.
func TestMetricsCounts(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true
	reader := client(t, server.Metrics())
	for command, want := range map[string]bool{
		"PING": false, "INFO": false, "ZCARD gb:{acme}:open": false, "HLEN gb:{acme}:running": false, "LLEN asynq:{high}:pending": false,
		"EXISTS gb:{acme}:job:x": false, "MEMORY USAGE gb:{acme}:jobs": false, "GET gb:worker:x": false, "HGETALL gb:slots": false,
		"SMEMBERS gb:tenants": false,
		"GET gb:{acme}:job:x": true, "HGETALL gb:{acme}:job:x": true, "HGETALL gb:{acme}:tenant": true, "GET gb:{acme}:result:x": true,
		"SET gb:worker:x y": true, "DEL gb:{acme}:open": true, "SADD gb:tenants x": true, "KEYS *": true, "CONFIG GET *": true,
		`EVAL "return 1" 0`: true, "PUBLISH gb:done x": true, "SUBSCRIBE gb:done": true,
	} {
		if err := run(t, reader, command); refused(err) != want || !want && err != nil {
			t.Errorf("%s: got %v, want refused: %v", command, err, want)
		}
	}
}

// What workers publish of themselves is theirs.
func TestForbiddenToAPI(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true
	for _, command := range []string{
		"SET gb:worker:x y", "HSET gb:keys x y", "HSET gb:secretkeys x y", "HSET gb:runtimes x y", "HSET gb:images x y",
		"KEYS *", "CONFIG GET *", "FLUSHALL", "SET other x", "ACL WHOAMI",
	} {
		if err := run(t, client(t, server.API()), command); !refused(err) {
			t.Errorf("%s: got %v, want it refused", command, err)
		}
	}
}
