package api_test

import (
	"net/http"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestUsageRoutes: a tenant and the operator ask for usage, of days and tenants that exist.
func TestUsageRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	token, _ := w.tenant(t, "acme", job.Terms{})
	var u job.UsageReport
	w.expecting(t, "GET", "/v1/usage?from=2026-11-01&to=2026-11-30", "", http.StatusOK, &u, "Authorization: Bearer "+token)
	if u.From != "2026-11-01" || u.To != "2026-11-30" || u.Days == nil || len(u.Days) != 0 || u.Total.Cost.Amount != "0.000000000" {
		t.Errorf("got %+v", u)
	}
	var events []job.UsageEvent
	w.expecting(t, "GET", "/v1/usage/events?from=2026-11-01&to=2026-11-30", "", http.StatusOK, &events, "Authorization: Bearer "+token)
	if events == nil || len(events) != 0 {
		t.Errorf("got %+v", events)
	}
	w.expecting(t, "GET", "/v1/usage?from=november", "", http.StatusUnprocessableEntity, nil, "Authorization: Bearer "+token)
	for path, status := range map[string]int{"/v1/admin/tenants/acme/usage": http.StatusOK, "/v1/admin/tenants/nobody/usage": http.StatusNotFound, "/v1/admin/tenants/acme/usage/events": http.StatusOK, "/v1/admin/tenants/nobody/usage/events": http.StatusNotFound} {
		w.expecting(t, "GET", path, "", status, nil, "Authorization: Bearer "+adminToken)
		if status == http.StatusOK {
			w.expecting(t, "GET", path+"?from=november", "", http.StatusUnprocessableEntity, nil, "Authorization: Bearer "+adminToken)
		}
	}
	w.expecting(t, "GET", "/v1/admin/tenants/acme/usage?from=2026-10-01&to=2026-10-31", "", http.StatusOK, &u, "Authorization: Bearer "+adminToken)
	if u.From != "2026-10-01" || u.To != "2026-10-31" {
		t.Errorf("got %+v, want the days that were asked for", u)
	}
}
