package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestE2BDebugSession: a token that may only read starts none; one that has ended is followed by another; each start is in the audit log.
func TestE2BDebugSession(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	reader, _ := w.limited(t, "acme", job.ScopeRead)
	debug := func(method, path string, headers ...string) answer {
		return w.do(t, method, path, nil, append(headers, "E2b-Sandbox-Id: debug_sandbox_id")...)
	}
	for _, path := range []string{"/e2b/health", "/e2b/contexts"} {
		if a := debug("GET", path, "Authorization: Bearer "+reader); a.status != http.StatusForbidden {
			t.Errorf("%s of a reader: got %d %s, want 403", path, a.status, a.body)
		}
	}
	if page, err := w.Client.For("acme").ListSessions(t.Context(), producer.SessionListOptions{}); err != nil || len(page.Sessions) != 0 {
		t.Errorf("got %+v, %v, want none", page, err)
	}
	seen := map[string]bool{}
	for _, tt := range []struct{ method, path string }{{"GET", "/e2b/health"}, {"GET", "/e2b/contexts"}, {"POST", "/e2b/contexts/main/restart"}} {
		for range 2 {
			debug(tt.method, tt.path)
		}
		page, err := w.Client.ListSessions(t.Context(), producer.SessionListOptions{})
		if err != nil || len(page.Sessions) != len(seen)+1 {
			t.Fatalf("%s: got %d sessions, %v, want one more than %d", tt.path, len(page.Sessions), err, len(seen))
		}
		for _, x := range page.Sessions {
			seen[x.ID] = true
		}
		if _, err := w.Client.EndSession(t.Context(), page.Sessions[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	gbtest.Eventually(t, "each start is in the audit log", func() bool {
		page, err := w.Client.Audit(t.Context(), producer.AuditOptions{Tenant: "default", Action: "session.start"})
		started := map[string]bool{}
		for _, e := range page.Entries {
			started[e.Object] = e.Outcome == job.OutcomeOK
		}
		return err == nil && len(page.Entries) == len(seen) && fmt.Sprint(started) == fmt.Sprint(seen)
	})
}

// TestE2BDebugSessionIsFound: however many sessions the tenant has, and had of this kind, the one is found without looking at the others.
func TestE2BDebugSessionIsFound(t *testing.T) {
	t.Parallel()
	w := newE2B(t)
	health := func() {
		t.Helper()
		if a := w.do(t, "GET", "/e2b/health", nil, guest, "E2b-Sandbox-Id: debug_sandbox_id"); a.status != http.StatusOK {
			t.Fatalf("got %d %s, want 200", a.status, a.body)
		}
	}
	newest := func() (x job.Session, all int) {
		t.Helper()
		page, err := w.Client.ListSessions(t.Context(), producer.SessionListOptions{Limit: producer.MaxPage})
		if err != nil || len(page.Sessions) == 0 {
			t.Fatalf("got %+v, %v", page, err)
		}
		return page.Sessions[0], len(page.Sessions)
	}
	end := func(id string) {
		t.Helper()
		if _, err := w.Client.EndSession(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	// One that began in the span of time before this is the one as well.
	before := time.Now().Unix()/job.MaxTTLSeconds - 1
	if _, err := w.Client.StartSession(t.Context(), job.SessionSettings{
		Runtime: "python", TTLSeconds: job.MaxTTLSeconds, IdempotencyKey: fmt.Sprintf("e2b-debug GLOVEBOX_FACADE_TENANT %d 0", before),
		Metadata: map[string]string{"e2b.debug": "GLOVEBOX_FACADE_TENANT", "e2b.guest": "true"},
	}); err != nil {
		t.Fatal(err)
	}
	for n := range 40 {
		health()
		x, all := newest()
		if all != n+1 || x.Status == job.SessionEnded {
			t.Fatalf("got %d sessions, the newest %s, want one more after each that has ended", all, x.Status)
		}
		end(x.ID)
	}
	health()
	for range 60 {
		x, err := w.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
		if err != nil {
			t.Fatal(err)
		}
		end(x.ID)
	}
	gets, hashes := w.calls(t, "get"), w.calls(t, "hgetall")
	health()
	if gets, hashes := w.calls(t, "get")-gets, w.calls(t, "hgetall")-hashes; gets > 20 || hashes > 5 {
		t.Errorf("it took %d GET and %d HGETALL, want a few", gets, hashes)
	}
	if _, all := newest(); all != 101 {
		t.Errorf("there are %d sessions, want no other", all)
	}
}
