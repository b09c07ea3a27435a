package e2b

import (
	"errors"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestLivesFor: a sandbox that lives longer is not ended for what it has been idle.
func TestLivesFor(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]int64{0: 300, 3400 * time.Second: 3700, 2 * time.Hour: job.MaxTTLSeconds} {
		change := livesFor(job.Session{CreatedAt: time.Now().Add(-age)}, 300)
		if *change.TTLSeconds != 300 || *change.IdleSeconds < want || *change.IdleSeconds > want+60 {
			t.Errorf("one that is %s old: got %d s, idle for %d", age, *change.TTLSeconds, *change.IdleSeconds)
		}
	}
}

// TestRefusedFiles: a client is told why a file could not be written.
func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	one := 1
	for stderr, want := range map[string]string{
		"glovebox: the input files do not fit into the job's directory (limits.disk_mb)\n": "resource_exhausted",
		"glovebox: an input file can't be made: open /work/data: is a directory\n":         "invalid_argument",
		"glovebox: code of the session ran between two executions\n":                       "internal",
	} {
		var fault callError
		if err := faultOf(t.Context(), nil, job.Result{Status: job.Failed, ExitCode: &one, Stderr: stderr}); !errors.As(err, &fault) || fault.Code != want {
			t.Errorf("%s: got %v, want %s", stderr, err, want)
		}
	}
}
