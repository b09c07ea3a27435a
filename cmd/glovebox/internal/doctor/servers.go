package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/producer"
)

const serverTimeout = 10 * time.Second

// redisFloors are, for each line of releases, the first without CVE-2025-49844, which
// lets who may run Lua, as the queue must, run anything.
var redisFloors = map[string]string{"7.2": "7.2.11", "7.4": "7.4.6", "8.0": "8.0.4", "8.2": "8.2.2"}

// RedisIsSafe reports whether a version of Redis has the fixes.
func RedisIsSafe(version string) bool {
	for line, floor := range redisFloors {
		if strings.HasPrefix(version, line+".") {
			return !Older(version, floor)
		}
	}
	return !Older(version, "8.2.2") // before 7.2 there is no line with a fix
}

var redisVersion = regexp.MustCompile(`v=([0-9.]+)`)

func (r *report) redis(ctx context.Context) {
	if r.Redis.URL == "" && r.WorkerHost {
		r.warning("redis", "GLOVEBOX_REDIS_URL is not set, so neither Redis nor S3 was looked at",
			"(set -a; . /etc/glovebox/worker.env; glovebox doctor)")
		return
	}
	if r.Redis.URL == "" {
		out, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
		if err != nil {
			r.problem("redis", err.Error(), r.setup())
			return
		}
		version := "of unknown version"
		if m := redisVersion.FindSubmatch(out); m != nil {
			version = string(m[1])
		}
		r.redisVersion(version, "for dev, which sets policy and AOF itself")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	options, err := redis.ParseURL(r.Redis.URL)
	if err != nil {
		r.problem("redis", "GLOVEBOX_REDIS_URL is not redis://user:password@host:port/db", "")
		return
	}
	client := redis.NewClient(options)
	defer client.Close()
	info, err := client.Info(ctx, "server", "persistence", "memory").Result()
	if err != nil {
		r.problem("redis", fmt.Sprintf("%s: %v", options.Addr, err), "start it, or correct GLOVEBOX_REDIS_URL")
		return
	}
	field := func(name string) string {
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(line, name+":"); ok {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	r.redisVersion(field("redis_version"), "at "+options.Addr)
	if policy := field("maxmemory_policy"); policy == "noeviction" {
		r.ok("redis policy", policy)
	} else {
		r.problem("redis policy", fmt.Sprintf("%q: accepted jobs may be dropped", policy), "redis-cli CONFIG SET maxmemory-policy noeviction, and in redis.conf")
	}
	if field("aof_enabled") == "1" {
		r.ok("redis AOF", "on")
	} else {
		r.problem("redis AOF", "off: a restart loses accepted jobs", "redis-cli CONFIG SET appendonly yes, and in redis.conf")
	}
	r.redisSync(ctx, client, options.Username)
	for _, w := range r.Warnings {
		r.warning("settings", w, "")
	}
	if options.Username == "" || options.Username == string(redisacl.Admin) {
		r.warning("redis user", "the user \"default\" may do everything, so whoever takes a worker over can, too", "glovebox redis-acl --help")
	}
}

// redisSync looks how soon what Redis has written is safe.
func (r *report) redisSync(ctx context.Context, client *redis.Client, user string) {
	said, err := client.ConfigGet(ctx, "appendfsync").Result()
	switch sync := said["appendfsync"]; {
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
	r.warning("redis", version+" "+where+": without the fix for CVE-2025-49844", "7.2.11, 7.4.6, 8.0.4, 8.2.2 or later, or the distribution's patched build")
}

func (r *report) s3(ctx context.Context) {
	if r.S3.Bucket == "" {
		return // versitygw is among the tools
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	store, err := artifacts.Open(ctx, r.S3)
	if err != nil {
		r.problem("s3", err.Error(), "correct the GLOVEBOX_S3_… variables")
		return
	}
	defer store.Close()
	err = store.Check(ctx)
	switch {
	case errors.Is(err, artifacts.ErrNotTried):
		r.warning("s3", err.Error(), "start an api, which refuses a public bucket")
	case errors.Is(err, artifacts.ErrPublic):
		r.problem("s3", err.Error(), "block public access to the bucket")
	case err != nil:
		r.problem("s3", err.Error(), "create the bucket, or correct the GLOVEBOX_S3_… variables")
	default:
		r.ok("s3", "bucket "+r.S3.Bucket+" is reachable, and not public")
	}
	if versioned, err := store.Versioned(ctx); err == nil && versioned {
		r.warning("s3 versions", "bucket "+r.S3.Bucket+" keeps old versions: the api deletes each version of what is purged or expires, if its key may (s3:ListBucketVersions, s3:DeleteObjectVersion)",
			"a bucket without versions")
	}
}

func (r *report) api(ctx context.Context) {
	if r.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	client, err := producer.New(r.URL, r.Token)
	if err != nil {
		r.warning("api", err.Error(), "")
		return
	}
	defer client.Close()
	list, err := client.Runtimes(ctx)
	switch {
	case err != nil:
		r.warning("api", err.Error(), "glovebox dev, or correct GLOVEBOX_URL and GLOVEBOX_TOKEN")
	case len(list) == 0:
		r.warning("api", r.URL+" answers, but no worker has published a runtime", "start a worker")
	default:
		names := make([]string, len(list))
		for i, l := range list {
			names[i] = l.Name
		}
		r.ok("api", r.URL+" offers "+strings.Join(slices.Compact(names), ", "))
		r.offered(list)
		r.attestation(ctx, client)
	}
}

// attestation looks whether the workers that have been there sign results.
func (r *report) attestation(ctx context.Context, client *producer.Client) {
	keys, err := client.Keys(ctx)
	switch {
	case err != nil:
		r.warning("attestation", err.Error(), "")
	case len(keys) == 0:
		r.warning("attestation", "no worker signs results, so that nobody can verify them later", "GLOVEBOX_SIGNING_KEY=$(openssl rand -base64 32) for workers")
	default:
		r.ok("attestation", fmt.Sprintf("results are signed; keys listed: %d", len(keys)))
	}
}
