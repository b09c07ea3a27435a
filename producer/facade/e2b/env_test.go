package e2b

import (
	"context"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// auditLog is what the api is told of jobs.
type auditLog struct {
	facade.Host

	jobs []string
}

func (l *auditLog) Did(_, object string) { l.jobs = append(l.jobs, object) }

// TestUnset: what sets variables is taken back where the execution itself is refused: canceled if no worker had it yet, else what was
// there is put back, also for a client that has left.
func TestUnset(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	x, err := w.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
	if err != nil {
		t.Fatal(err)
	}
	log := &auditLog{}
	call := &facade.Call{Client: w.Client, Host: log}
	executions := func() (queued []string) {
		page, err := w.Client.ListExecutions(t.Context(), x.ID, producer.SessionListOptions{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Jobs {
			if e.Status == job.Queued {
				queued = append(queued, e.ID)
			}
		}
		return queued
	}
	if _, err := executeWith(t.Context(), call, x.ID, job.SessionExecution{Code: "\x00"}, "python", map[string]string{"A": "b"}); err == nil {
		t.Fatal("a NUL is executed")
	}
	if queued := executions(); len(queued) != 0 {
		t.Errorf("%s are left that no worker had", queued)
	}
	if len(log.jobs) != 1 {
		t.Errorf("the audit log has %v, want what set the variables", log.jobs)
	}
	set, err := call.Execute(t.Context(), x.ID, job.SessionExecution{Code: "set"})
	if err != nil {
		t.Fatal(err)
	}
	w.Start(t, set)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := unset(gone, call, x.ID, set, job.SessionExecution{Code: "reset"}); err != nil {
		t.Fatal(err)
	}
	if queued := executions(); len(queued) != 1 || queued[0] == set {
		t.Errorf("got %s, want what puts back what was there", queued)
	}
}
