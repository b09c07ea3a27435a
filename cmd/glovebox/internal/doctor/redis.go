package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/toolsdir"
)

// floors are, for each line of releases of a server, the first without holes that are known; and the first of the
// lines after them. Those of Redis end with CVE-2026-81934 (whoever reaches its TLS port), those of Valkey with
// CVE-2026-56684 and CVE-2026-63639 (who may use CLIENT KILL or RESTORE). They have the fixes of before: CVE-2026-23479
// (clients that wait), CVE-2026-25243 (RESTORE), and CVE-2025-49844, which lets who may run Lua, as the queue must, run
// anything. Redis 8.0 has no release with all of them.
type floors struct {
	lines map[string]string
	later string
}

var (
	redisFloors  = floors{map[string]string{"7.2": "7.2.16", "7.4": "7.4.11", "8.2": "8.2.9", "8.4": "8.4.6", "8.6": "8.6.6", "8.8": "8.8.2"}, "8.10.1"}
	valkeyFloors = floors{map[string]string{"7.2": "7.2.14", "8.0": "8.0.10", "8.1": "8.1.9", "9.0": "9.0.5"}, "9.1.1"}
)

func (f floors) safe(version string) bool {
	for line, floor := range f.lines {
		if strings.HasPrefix(version, line+".") {
			return !Older(version, floor)
		}
	}
	return !Older(version, f.later) // before 7.2 there is no line with a fix
}

// RedisIsSafe reports whether a version of Redis has the fixes.
func RedisIsSafe(version string) bool { return redisFloors.safe(version) }

// ValkeyIsSafe is RedisIsSafe of Valkey's own versions.
func ValkeyIsSafe(version string) bool { return valkeyFloors.safe(version) }

var redisVersion = regexp.MustCompile(`v=([0-9.]+)`)

func (r *report) redis(ctx context.Context) {
	if r.Redis.URL == "" && r.WorkerHost {
		r.warning("redis", "GLOVEBOX_REDIS_URL is not set, so neither Redis nor S3 was looked at",
			"(set -a; . /etc/glovebox/worker.env; glovebox doctor)")
		return
	}
	if r.Redis.URL == "" {
		r.redisOfDev(ctx)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	address, err := redisconn.Parse(r.Redis.URL)
	if err != nil {
		r.problem("redis", "GLOVEBOX_REDIS_URL "+err.Error(), "")
		return
	}
	if address.Sentinels != nil {
		r.sentinels(ctx, address.Sentinels)
	}
	client := address.Client()
	defer client.Close()
	text, err := client.Info(ctx, "server", "persistence", "memory", "replication", "cluster").Result()
	if err != nil {
		r.problem("redis", fmt.Sprintf("%s: %v", address.Options.Addr, redisconn.Refusal(err)), "start it, or correct GLOVEBOX_REDIS_URL")
		return
	}
	r.redisServer(ctx, client, address.Options, info(text))
	for _, w := range r.Warnings {
		r.warning("settings", w, "")
	}
	if user := address.Options.Username; user == "" || user == string(redisacl.Admin) {
		r.warning("redis user", "the user \"default\" may do everything, so whoever takes a worker over can, too", "glovebox redis-acl --help")
	}
}

// redisOfDev says which Redis, or Valkey, dev starts on this machine.
func (r *report) redisOfDev(ctx context.Context) {
	program, err := toolsdir.Redis()
	if err != nil {
		r.problem("redis", err.Error(), r.setup())
		return
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		r.problem("redis", fmt.Sprintf("%s: %v", program, err), r.setup())
		return
	}
	version := "of unknown version"
	if m := redisVersion.FindSubmatch(out); m != nil {
		version = string(m[1])
	}
	const where = "for dev, which sets policy and AOF itself"
	if strings.HasPrefix(string(out), "Valkey ") {
		r.valkeyVersion(version, where)
	} else {
		r.redisVersion(version, where)
	}
}

// info is what INFO answers.
type info string

func (i info) field(name string) string {
	for line := range strings.Lines(string(i)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (r *report) redisServer(ctx context.Context, client *redis.Client, o *redis.Options, said info) {
	if said.field("cluster_enabled") == "1" {
		r.problem("redis", o.Addr+" is of a Redis Cluster, which is not supported: api and worker refuse it", "one server, or Sentinels; at a provider: cluster mode disabled")
	}
	// Valkey calls itself Redis 7.2.4, too.
	if valkey := said.field("valkey_version"); valkey != "" {
		r.valkeyVersion(valkey, "at "+o.Addr)
	} else {
		r.redisVersion(said.field("redis_version"), "at "+o.Addr)
	}
	sync, err := client.ConfigGet(ctx, "appendfsync").Result()
	managed := redis.HasErrorPrefix(err, "unknown command")
	if policy := said.field("maxmemory_policy"); policy == "noeviction" {
		r.ok("redis policy", policy)
	} else {
		fix := "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf"
		if managed {
			fix = "a parameter group of your own with maxmemory-policy noeviction"
		}
		r.problem("redis policy", fmt.Sprintf("%q: accepted jobs may be dropped", policy), fix)
	}
	switch on := said.field("aof_enabled") == "1"; {
	case on:
		r.ok("redis AOF", "on")
		r.redisSync(sync["appendfsync"], err, o.Username)
	case managed:
		r.warning("redis AOF", "off, and CONFIG is not allowed, as at providers: what their servers keep is what replicas have",
			"replicas in other zones with automatic failover, the provider's snapshots, and GLOVEBOX_REDIS_WAIT_REPLICAS=1")
	default:
		r.problem("redis AOF", "off: a restart loses accepted jobs", "redis-cli CONFIG SET appendonly yes, and in redis.conf")
		r.redisSync(sync["appendfsync"], err, o.Username)
	}
	r.redisRoom(said)
	r.replicas(said)
}

// redisRoom says whether Redis takes what is written: one that is full, or can't write to its disk, answers reads alone.
func (r *report) redisRoom(said info) {
	used, _ := strconv.ParseInt(said.field("used_memory"), 10, 64)
	most, _ := strconv.ParseInt(said.field("maxmemory"), 10, 64) // 0: all that its machine has
	const more = "redis-cli CONFIG SET maxmemory, and in redis.conf; or fewer records: a smaller GLOVEBOX_RETENTION_SECONDS or GLOVEBOX_RECORDS_MB"
	switch text := fmt.Sprintf("%d of %d MiB (maxmemory)", used>>20, most>>20); {
	case most > 0 && used >= most:
		r.problem("redis memory", text+": it is full, and refuses whatever is written: no job is accepted, none ends", more)
	case most > 0 && used >= most/10*9:
		r.warning("redis memory", text+": once it is full no job is accepted, and none ends", more)
	case most > 0:
		r.ok("redis memory", text)
	}
	for _, file := range []struct{ status, what string }{{"aof_last_write_status", "its append-only file"}, {"rdb_last_bgsave_status", "its snapshot"}} {
		if said.field(file.status) == "err" {
			r.problem("redis disk", "Redis could not write "+file.what+" last: it may refuse whatever is written until it can", "its log says why, and df whether its disk is full")
		}
	}
}

// redisSync says how soon what Redis has written is safe.
func (r *report) redisSync(sync string, err error, user string) {
	switch {
	case err != nil || sync == "":
		r.ok("redis appendfsync", fmt.Sprintf("not looked at: the user %q may not ask; the operator's may", user))
	case sync == "always":
		r.ok("redis appendfsync", sync)
	default:
		lost := "up to 2 s of accepted jobs and results, if the machine fails, or Redis is killed while its disk is slow"
		if sync == "no" {
			lost = "what its machine has not written by itself, up to 30 s, if that fails"
		}
		r.warning("redis appendfsync", sync+": loses "+lost, "redis-cli CONFIG SET appendfsync always, and in redis.conf; or accept it")
	}
}

func (r *report) redisVersion(version, where string) {
	if RedisIsSafe(version) {
		r.ok("redis", version+" "+where)
		return
	}
	r.warning("redis", version+" "+where+": it lacks known fixes, the last of them for CVE-2026-81934", "7.2.16, 7.4.11, 8.2.9, 8.4.6, 8.6.6, 8.8.2, 8.10.1 or later, or the distribution's patched build")
}

func (r *report) valkeyVersion(version, where string) {
	if ValkeyIsSafe(version) {
		r.ok("redis", "Valkey "+version+" "+where)
		return
	}
	r.warning("redis", "Valkey "+version+" "+where+": it lacks known fixes, the last of them for CVE-2026-56684", "7.2.14, 8.0.10, 8.1.9, 9.0.5, 9.1.1 or later, or the distribution's patched build")
}
