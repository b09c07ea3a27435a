package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestIsolation: both sides have to be told of less than gVisor, and what does not go with it is refused.
func TestIsolation(t *testing.T) {
	t.Parallel()
	w, err := ReadWorker(workerEnv().Get)
	if err != nil || w.Isolation != job.GVisor {
		t.Errorf("by default: got %q, %v", w.Isolation, err)
	}
	if _, err := ReadWorker(with(shared(), File{"GLOVEBOX_AGENT": "/a"}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_PODMAN_SOCKET") {
		t.Errorf("without Podman, and nothing said: got %v", err)
	}
	bare := with(shared(), File{"GLOVEBOX_AGENT": "/a", "GLOVEBOX_ISOLATION": "process"})
	if w, err := ReadWorker(bare.Get); err != nil || w.Isolation != job.Process {
		t.Errorf("process: got %q, %v", w.Isolation, err)
	}
	for variable, value := range map[string]string{
		"GLOVEBOX_ISOLATION": "none", "GLOVEBOX_REQUIRE_CGROUPS": "true", "GLOVEBOX_IMAGES": "localhost/x@sha256:" + strings.Repeat("0", 64),
	} {
		if _, err := ReadWorker(with(bare, File{variable: value}).Get); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%s=%s: got %v", variable, value, err)
		}
	}
	for value, want := range map[string][]job.Isolation{"": nil, "gvisor": nil, "process": {job.Process}, "gvisor, process process": {job.Process}} {
		a, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_ISOLATION_ALLOWED": value}).Get)
		if err != nil || !slices.Equal(a.Isolations, want) {
			t.Errorf("%q: got %v, %v, want %v", value, a.Isolations, err, want)
		}
	}
	if _, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_ISOLATION_ALLOWED": "none"}).Get); err == nil {
		t.Error("none is allowed")
	}
}
