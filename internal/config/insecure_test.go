package config

import (
	"strings"
	"testing"
)

func TestInsecure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env         File
		fault, warn string // what is said, "" for nothing
	}{
		{env: File{"GLOVEBOX_REDIS_URL": "redis://u:p@127.0.0.1:6379/0"}},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://u:p@[::1]:6379/0"}},
		{env: File{"GLOVEBOX_REDIS_URL": "unix://u:p@/run/redis.sock"}},
		{env: File{"GLOVEBOX_REDIS_URL": "rediss://u:p@redis.internal:6379/0"}},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://u:p@redis.internal:6379/0"}, warn: "without TLS"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://localhost:6379/0"}, warn: "every user of this machine"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://redis.internal:6379/0"}, fault: "GLOVEBOX_REDIS_URL has no password"},
		{env: File{"GLOVEBOX_REDIS_URL": "rediss://u@10.0.0.1:6379/0"}, fault: "GLOVEBOX_REDIS_URL has no password"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://redis.internal:6379/0", "GLOVEBOX_INSECURE": "redis"}, warn: "has no password"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis://redis.internal:6379/0", "GLOVEBOX_INSECURE": "s3"}, fault: "GLOVEBOX_INSECURE=redis"},
		{env: File{"GLOVEBOX_REDIS_URL": "rediss+sentinel://u:p@10.0.0.1,10.0.0.2/0?master=m&sentinel_username=glovebox&sentinel_password=p"}},
		{env: File{"GLOVEBOX_REDIS_URL": "rediss+sentinel://u:p@10.0.0.1,10.0.0.2/0?master=m&sentinel_password=p"}, warn: "no sentinel_username"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis+sentinel://u:p@127.0.0.1:1,127.0.0.1:2/0?master=m"}},
		{env: File{"GLOVEBOX_REDIS_URL": "redis+sentinel://u:p@127.0.0.1:1,10.0.0.2/0?master=m&sentinel_password=p"}, warn: "without TLS"},
		{env: File{"GLOVEBOX_REDIS_URL": "rediss+sentinel://u:p@10.0.0.1/0?master=m"}, warn: "no sentinel_password"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis+sentinel://10.0.0.1/0?master=m"}, fault: "GLOVEBOX_REDIS_URL has no password"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis+sentinel://u:p@10.0.0.1/0"}, fault: "GLOVEBOX_REDIS_URL has no master=NAME"},
		{env: File{"GLOVEBOX_REDIS_URL": "redis+cluster://u:p@10.0.0.1/0"}, fault: "GLOVEBOX_REDIS_URL leads to a Redis Cluster"},
		{env: File{"GLOVEBOX_REDIS_WAIT_REPLICAS": "6"}, fault: "GLOVEBOX_REDIS_WAIT_REPLICAS"},
		{env: File{"GLOVEBOX_S3_ENDPOINT": "https://s3.internal"}},
		{env: File{"GLOVEBOX_S3_ENDPOINT": "http://127.0.0.1:9000"}},
		{env: File{"GLOVEBOX_S3_ENDPOINT": "http://s3.internal"}, fault: "GLOVEBOX_S3_ENDPOINT is http"},
		{env: File{"GLOVEBOX_S3_ENDPOINT": "http://s3.internal", "GLOVEBOX_INSECURE": "url, s3"}, warn: "GLOVEBOX_S3_ENDPOINT"},
		{env: File{"GLOVEBOX_S3_PUBLIC_ENDPOINT": "http://files.example.com"}, fault: "GLOVEBOX_S3_PUBLIC_ENDPOINT is http"},
		{env: File{"GLOVEBOX_INSECURE": "all"}, fault: "GLOVEBOX_INSECURE has \"all\""},
	} {
		for who, read := range map[string]func(File) ([]string, error){
			"api":    func(f File) ([]string, error) { a, err := ReadAPI(with(apiEnv(), f).Get); return a.Warnings, err },
			"worker": func(f File) ([]string, error) { w, err := ReadWorker(with(workerEnv(), f).Get); return w.Warnings, err },
		} {
			warnings, err := read(c.env)
			if said := strings.Join(warnings, "\n"); (c.warn == "") != (said == "") || !strings.Contains(said, c.warn) {
				t.Errorf("%s, %v: warned %q, want %q", who, c.env, said, c.warn)
			}
			if (c.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s, %v: got %v, want %q", who, c.env, err, c.fault)
			}
		}
	}
	plain := File{"GLOVEBOX_PUBLIC_URL": "http://example.com"}
	if _, err := ReadAPI(with(apiEnv(), plain).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_PUBLIC_URL is http") {
		t.Errorf("a public URL without TLS: got %v", err)
	}
	plain["GLOVEBOX_INSECURE"] = "url"
	if a, err := ReadAPI(with(apiEnv(), plain).Get); err != nil || len(a.Warnings) != 1 {
		t.Errorf("and accepted: got %v, %v", a.Warnings, err)
	}
}
