package direct_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
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

// TestListsTakeMemory: what is read for lists and of sessions takes memory before it is, environments few at a time, and no more is held after that
// than what is sent takes.
func TestListsTakeMemory(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	env := map[string]string{}
	for i := range 24 {
		env[fmt.Sprint("V", i)] = strings.Repeat("v", 30<<10)
	}
	const sessions, size = 4, 24 * 30 << 10
	var x job.Session
	var err error
	for range sessions {
		if x, err = w.Client.StartSession(ctx, job.SessionSettings{Runtime: "python", Env: env, Metadata: map[string]string{"k": "v"}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Client.StartRun(ctx, job.PipelineRequest{Pipeline: job.Pipeline{Steps: map[string]job.Step{"fetch": source()}}}); err != nil {
		t.Fatal(err)
	}
	const small = 64 << 10 // more than what is sent takes of each
	for name, tc := range map[string]struct {
		read              func(c *direct.Client) (int, error)
		least, most, held int64
	}{
		"sessions": {func(c *direct.Client) (int, error) {
			page, err := c.ListSessions(ctx, producer.SessionListOptions{Limit: sessions})
			return len(page.Sessions), err
		}, size, 8 * size, sessions * small},
		"sessions by status": {func(c *direct.Client) (int, error) {
			page, err := c.ListSessions(ctx, producer.SessionListOptions{Limit: sessions, Status: []job.SessionStatus{job.SessionQueued}})
			return len(page.Sessions), err
		}, size, 8*size + 8<<20, sessions * small},
		"session": {func(c *direct.Client) (int, error) { _, err := c.Session(ctx, x.ID); return 1, err }, size, 8 * size, 0},
		"change": {func(c *direct.Client) (int, error) {
			idle := int64(60)
			_, err := c.ChangeSession(ctx, x.ID, job.SessionChange{IdleSeconds: &idle})
			return 1, err
		}, size, 8 * size, 0},
		"runs":      {func(c *direct.Client) (int, error) { page, err := c.ListRuns(ctx, ""); return len(page.Runs), err }, 1 << 20, 8 << 20, small},
		"approvals": {func(c *direct.Client) (int, error) { list, err := c.Approvals(ctx); return len(list), err }, 1 << 20, 8 << 20, 0},
	} {
		m := &counted{}
		n, err := tc.read(w.Client.ForAnswer("default", m))
		if held, most := m.now(); err != nil || most < tc.least || most > tc.most || held > tc.held || (n > 0 && tc.held > 0) != (held > 0) {
			t.Errorf("%s: got %d, %v; %d bytes held, and up to %d", name, n, err, held, most)
		}
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
