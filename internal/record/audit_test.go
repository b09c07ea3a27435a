package record_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// audited reads all entries, as they are by now, and each once: a group whose answer from Redis comes late is written again.
func audited(t *testing.T, s *record.Store, f record.AuditFilter, limit int) (list []job.AuditEntry) {
	t.Helper()
	seen := map[job.AuditEntry]bool{}
	for after := record.AuditSince(time.Time{}); ; {
		some, next, more, err := s.Audited(t.Context(), after, f, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) > limit {
			t.Errorf("got %d entries, want %d at most", len(some), limit)
		}
		again, ok := record.ParseAuditCursor(next.String())
		if after = again; !ok {
			t.Fatalf("got cursor %q", next)
		}
		for _, e := range some {
			if !seen[e] {
				list = append(list, e)
			}
			seen[e] = true
		}
		if !more {
			return list
		}
	}
}

func waitAudited(t *testing.T, s *record.Store, n int) []job.AuditEntry {
	t.Helper()
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		list := audited(t, s, record.AuditFilter{}, 1000)
		if len(list) >= n {
			return list
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d entries, want %d", len(list), n)
		}
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const n = 3000
	at := time.Now().UTC().Truncate(time.Millisecond)
	for i := range n {
		e := job.AuditEntry{At: at, Tenant: "acme", Action: "job.submit", Object: fmt.Sprint(i), Outcome: job.OutcomeOK, Status: 202}
		if i%100 == 0 {
			e.Tenant, e.Action = "other", "tenant.terms"
		}
		if i%200 == 0 {
			e.TokenID = record.OperatorToken
		}
		s.Audit(e)
	}
	waitAudited(t, s, n)
	// The operator's own are in another stream. Of two that were written in the same millisecond, either
	// may come first.
	var operators, others []string
	for _, e := range audited(t, s, record.AuditFilter{Tenant: "other", Action: "tenant"}, 7) {
		if !e.At.Equal(at) {
			t.Errorf("got %+v, want it at %s", e, at)
		}
		if e.TokenID == record.OperatorToken {
			operators = append(operators, e.Object)
		} else {
			others = append(others, e.Object)
		}
	}
	for i := range n / 200 {
		if len(operators) != n/200 || len(others) != n/200 || operators[i] != fmt.Sprint(200*i) || others[i] != fmt.Sprint(200*i+100) {
			t.Fatalf("got %q and %q, want those of the other tenant, in their order", operators, others)
		}
	}
	if list := audited(t, s, record.AuditFilter{Action: "job"}, 1000); len(list) != n-n/100 || list[0].Object != "1" || list[len(list)-1].Object != fmt.Sprint(n-1) {
		t.Errorf("got %d entries about jobs", len(list))
	}
	if list := audited(t, s, record.AuditFilter{Action: "jo"}, 1000); len(list) != 0 {
		t.Errorf("a part of a word: got %d entries", len(list))
	}
	if list, _, more, err := s.Audited(t.Context(), record.AuditSince(time.Now().Add(time.Hour)), record.AuditFilter{}, 10); len(list) != 0 || more || err != nil {
		t.Errorf("since a later time: got %d, %v, %v", len(list), more, err)
	}
	for _, bad := range []string{"", "1-1", "1-1_x", "a-1_1-1", "1-1_1-1", "1-1_1-1_1-1_1-1", "(1-1_2-2_3-3", "1-1_-_1-1", "1-1_18446744073709551615-18446744073709551615_1-1"} {
		if _, ok := record.ParseAuditCursor(bad); ok {
			t.Errorf("cursor %q: got no error", bad)
		}
	}
}

// While Redis is away nobody waits for the audit log, what waits is bounded, and it comes
// once Redis is back.
func TestAuditOverAnOutage(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	server.Signal(syscall.SIGSTOP)
	const n = 10_000
	began := time.Now()
	for i := range n {
		s.Audit(job.AuditEntry{Action: "job.submit", Object: fmt.Sprint(i)})
	}
	if took := time.Since(began); took > gbtest.AtOnce {
		t.Errorf("%d entries took %s while Redis was away", n, took)
	}
	server.Signal(syscall.SIGCONT)
	list := waitAudited(t, s, 1000)
	s.Audit(job.AuditEntry{Action: "tenant.stop", Object: "last"})
	// Of entries of one millisecond those about jobs come second.
	last := func(e job.AuditEntry) bool { return e.Object == "last" }
	for deadline := time.Now().Add(time.Minute); !slices.ContainsFunc(list, last); list = audited(t, s, record.AuditFilter{}, 1000) {
		if time.Now().After(deadline) {
			t.Fatal("what came after the outage is not there")
		}
	}
	if got := len(list); got > 4096+2*200+1 {
		t.Errorf("%d entries waited for Redis", got)
	}
}
