package job

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseQuotas(t *testing.T) {
	t.Parallel()
	got, err := ParseQuotas("requests_per_minute=600, jobs_queued=1000,bytes_stored=0")
	if want := (Quotas{RequestsPerMinute: 600, JobsQueued: 1000}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got := (Quotas{JobsQueued: 5, RunningAtOnce: 1}).Or(got); got != (Quotas{RequestsPerMinute: 600, JobsQueued: 5, RunningAtOnce: 1}) {
		t.Errorf("own quotas first: got %+v", got)
	}
	for bad, want := range map[string]string{
		"jobs": `no quota "jobs"`, "jobs_queued=x": `jobs_queued is "x"`, "jobs_queued=-1": "want 0", "jobs_queued=": "want 0",
		"bytes_queued=9999999999999999999": "want 0",
	} {
		if got, err := ParseQuotas(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", bad, got, err, want)
		}
	}
	var q Quotas
	if n := len(q.fields()); n != reflect.TypeFor[Quotas]().NumField() {
		t.Errorf("%d quotas can be named, of %d", n, reflect.TypeFor[Quotas]().NumField())
	}
}
