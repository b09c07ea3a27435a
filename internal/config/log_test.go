package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestLoggerNamesTenants(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := Logger(&b, "json")
	id := job.NewID("acme")
	log.Info("one", "job_id", id, "epoch", 1)
	log.With("job_id", id, "epoch", 1).Info("two")
	log.With("worker", "w").Info("three", "job_id", "no job", "count", 3)
	log.Info("four", "job_id", 4)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{
		`"msg":"one","job_id":"` + id + `","epoch":1,"tenant":"acme"}`,
		`"msg":"two","job_id":"` + id + `","epoch":1,"tenant":"acme"}`,
		`"msg":"three","worker":"w","job_id":"no job","count":3}`,
		`"msg":"four","job_id":4}`,
	} {
		if len(lines) != 4 || !strings.HasSuffix(lines[i], want) {
			t.Errorf("got %q, want %q at the end", lines, want)
		}
	}
	b.Reset()
	Logger(&b, "text").Info("five", "job_id", id)
	if got := b.String(); !strings.HasSuffix(got, "msg=five job_id="+id+" tenant=acme\n") {
		t.Errorf("got %q", got)
	}
}
