package record

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

var pythonSession = job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 1000}}

// openSession opens a session of the tenant.
func (s *Store) openSession(t *testing.T, tenant string) Session {
	t.Helper()
	x, err := s.OpenSession(t.Context(), tenant, pythonSession, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (s *Store) mustSession(t *testing.T, id string) Session {
	t.Helper()
	x, err := s.GetSession(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (s *Store) mustClaim(t *testing.T, id string) {
	t.Helper()
	if _, err := s.ClaimSession(t.Context(), id, "w1"); err != nil {
		t.Fatal(err)
	}
}

// execute adds an execution to the session.
func (s *Store) execute(t *testing.T, session, code string) (id string) {
	t.Helper()
	tenant, _ := job.TenantOfSession(session)
	id = job.NewID(tenant)
	if err := s.AddTurn(t.Context(), session, id, pythonSession.Spec(job.SessionExecution{Code: code}), NewTurn{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// take is TakeTurn, which is to give this execution.
func (s *Store) take(t *testing.T, session, done, want string) Record {
	t.Helper()
	j, err := s.TakeTurn(t.Context(), session, "w1", done, nil, Rest{Slot: true})
	if err != nil || j.ID != want {
		t.Fatalf("got execution %q, %v, want %s", j.ID, err, want)
	}
	return j
}

// outcome is how an execution ended: its status, and the code of its error.
func (s *Store) outcome(t *testing.T, id string) string {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range []string{job.CodeSessionLost, job.CodeSessionEnded} {
		if strings.Contains(string(j.Result), code) {
			return string(j.State) + " " + code
		}
	}
	return string(j.State)
}

// endTurn1 ends an execution as its worker does.
func (s *Store) endTurn1(t *testing.T, id string) {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err == nil {
		err = s.End(t.Context(), j, Ending{Status: job.Succeeded, Result: []byte(`{}`)})
	}
	if err != nil {
		t.Fatal(err)
	}
}
