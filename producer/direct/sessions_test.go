package direct_test

import (
	"errors"
	"testing"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestSessionKeyOutlivesRules: whoever asks again under a key gets the session of before, also where a rule denies it by now.
func TestSessionKeyOutlivesRules(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	settings := job.SessionSettings{Runtime: "python3", IdempotencyKey: "one"}
	x, err := w.Client.StartSession(ctx, settings)
	if err != nil {
		t.Fatal(err)
	}
	none, err := policy.Parse("policy", []job.Rule{{Name: "none", When: "runtime == 'python'", Then: job.RuleDeny, Message: "not here"}})
	if err != nil {
		t.Fatal(err)
	}
	denied := w.Client.WithPolicy(none)
	if again, err := denied.StartSession(ctx, settings); err != nil || again.ID != x.ID {
		t.Errorf("what is denied by now: got %s, %v, want %s", again.ID, err, x.ID)
	}
	other := settings
	other.TTLSeconds = 60
	if _, err := denied.StartSession(ctx, other); !errors.Is(err, job.ErrConflict) {
		t.Errorf("something else under the key: got %v, want ErrConflict", err)
	}
	settings.IdempotencyKey = "another"
	if _, err := denied.StartSession(ctx, settings); job.CodeOf(err) != job.CodeDenied {
		t.Errorf("another key: got %v, want denied", err)
	}
}

// TestRulesSeePlacementOfExecutions: what is executed in a session runs where that is, and rules about it see so.
func TestRulesSeePlacementOfExecutions(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	labels := job.Labels{"zone": "a"}
	if err := w.Worker.Fleet.PublishLabels(ctx, labels, nil); err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse("policy", []job.Rule{{Name: "none", When: "kind == 'execution' && 'zone' in placement && placement.zone == 'a'", Then: job.RuleDeny, Message: "not there"}})
	if err != nil {
		t.Fatal(err)
	}
	ruled := w.Client.WithPolicy(rules)
	for want, placement := range map[string]job.Labels{job.CodeDenied: labels, "": nil} {
		x, err := ruled.StartSession(ctx, job.SessionSettings{Runtime: "python", Placement: placement})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ruled.ExecuteInSession(ctx, x.ID, job.SessionExecution{Code: "1"}); job.CodeOf(err) != want {
			t.Errorf("in a session with the placement %q: got %v, want %q", placement, err, want)
		}
	}
}
