package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/e2b"
)

// TestE2BBodyIsGivenBack: an execution that is watched holds nothing of the largest body that it came with, so that others' bodies
// have their turn; and what ends one is in the audit log as what it is.
func TestE2BBodyIsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) { c.Facades = []facade.Facade{e2b.New()} })
	w.Runtimes(t)
	var made struct{ SandboxID string }
	w.expecting(t, http.MethodPost, "/e2b/sandboxes", `{"templateID":"python"}`, http.StatusCreated, &made)
	ignored := strings.Repeat("x", int(job.DefaultMaximums.SourceKB<<11)+1<<20-8<<10)
	watching, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := w.try(watching, http.MethodPost, "/e2b/execute", strings.NewReader(`{"code":"1","ignored":"`+ignored+`"}`), "E2b-Sandbox-Id: "+made.SandboxID)
		left <- err
	}()
	executions := func() []job.Summary {
		page, err := w.Client.ListExecutions(t.Context(), made.SandboxID, producer.SessionListOptions{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return page.Jobs
	}
	gbtest.Eventually(t, "it is queued", func() bool { return len(executions()) == 1 })
	other, err := json.Marshal(job.Spec{Runtime: "python", Source: strings.Repeat("#", 100<<10)})
	if err != nil {
		t.Fatal(err)
	}
	w.expecting(t, http.MethodPost, "/v1/jobs", string(other), http.StatusAccepted, nil, as(otherToken))
	if status := executions()[0].Status; status != job.Queued {
		t.Errorf("meanwhile it is %s, want that it waits", status)
	}
	w.do(t, http.MethodPost, "/e2b/process.Process/SendSignal", strings.NewReader(`{"process":{"pid":1}}`), "E2b-Sandbox-Id: "+made.SandboxID, "Content-Type: application/json")
	w.do(t, http.MethodDelete, "/e2b/contexts/main", http.NoBody, "E2b-Sandbox-Id: "+made.SandboxID)
	gbtest.Eventually(t, "both are audited as what ends executions", func() bool {
		page, err := w.Client.Audit(t.Context(), producer.AuditOptions{Action: "job.cancel"})
		return err == nil && len(page.Entries) == 2
	})
	leave()
	<-left //nolint:errcheck // it has only to end
}
