package main

import (
	"crypto/rand"
	"strings"
	"testing"
)

// TestDoctorWorkerFaults: what a worker would refuse of its file is a problem, each by itself; what its unit sets may be missing.
func TestDoctorWorkerFaults(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"GLOVEBOX_REDIS_URL": "redis://glovebox-worker:" + rand.Text() + "@127.0.0.1:6379/0", "GLOVEBOX_S3_ENDPOINT": "http://127.0.0.1:9000", "GLOVEBOX_S3_REGION": "us-east-1",
		"GLOVEBOX_S3_BUCKET": "b", "GLOVEBOX_S3_ACCESS_KEY": "a", "GLOVEBOX_S3_SECRET_KEY": "s", "GLOVEBOX_REQUIRE_CGROUPS": "true",
	}
	a := &app{getenv: func(name string) string { return env[name] }}
	if faults := a.workerFaults(); len(faults) > 0 {
		t.Errorf("got %q of a file that is right", faults)
	}
	env["GLOVEBOX_CONCURRENCY"], env["GLOVEBOX_LABELS_ONLY"] = "abc", "pool"
	if faults := a.workerFaults(); len(faults) != 2 || !strings.Contains(strings.Join(faults, " "), "GLOVEBOX_CONCURRENCY") || !strings.Contains(strings.Join(faults, " "), "GLOVEBOX_LABELS_ONLY") {
		t.Errorf("got %q", faults)
	}
	delete(env, "GLOVEBOX_REQUIRE_CGROUPS")
	if faults := a.workerFaults(); len(faults) > 0 {
		t.Errorf("got %q of what is no worker's file", faults)
	}
}
