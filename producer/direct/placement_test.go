package direct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestPlacement: a tenant gets its own pool's workers and those that are nobody's, and no other's pool, whatever it names.
func TestPlacement(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	for _, k := range []fleet.Slots{
		{Labels: job.Labels{"zone": "a"}},
		{Labels: job.Labels{"zone": "b", "gpu": "yes"}},
		{Labels: job.Labels{"pool": "exams", "zone": "c"}, Only: []string{"pool"}},
		{Labels: job.Labels{"pool": "free", "zone": "d"}, Only: []string{"pool"}},
	} {
		if err := w.Worker.Fleet.PublishLabels(t.Context(), k.Labels, k.Only); err != nil {
			t.Fatal(err)
		}
	}
	clients := map[string]*direct.Client{"": w.Client}
	for name, terms := range map[string]job.Terms{"school": {Placement: job.Labels{"pool": "exams"}}, "other": {}, "early": {Placement: job.Labels{"pool": "tomorrow"}}} {
		if _, err := w.Client.CreateTenant(t.Context(), name, terms); err != nil {
			t.Fatal(err)
		}
		c, err := direct.New(direct.Config{Tenant: name}, w.Records, w.Objects)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[name] = c
	}
	for name, c := range map[string]struct {
		tenant, asked string
		want, refusal string // one of them
	}{
		"nothing":                             {"", "", "", ""},
		"what a worker has":                   {"", "zone=a", "zone=a", ""},
		"all that a worker has":               {"", "zone=b,gpu=yes", "gpu=yes,zone=b", ""},
		"a pool that is nobody's":             {"", "pool=free", "pool=free", ""},
		"what two workers have":               {"", "zone=a,gpu=yes", "", "no worker has had"},
		"what none has":                       {"", "zone=z", "", "no worker has had"},
		"a worker of a pool, without the key": {"", "zone=d", "", "no worker has had"},
		"another's pool":                      {"", "pool=exams", "", "keeps for other tenants"},
		"another's pool, with more":           {"other", "pool=exams,zone=c", "", "keeps for other tenants"},
		"another's pool, by its zone":         {"other", "zone=c", "", "no worker has had"},
		"its own pool":                        {"school", "", "pool=exams", ""},
		"its own pool, named":                 {"school", "pool=exams", "pool=exams", ""},
		"its own pool, and more":              {"school", "zone=c", "pool=exams,zone=c", ""},
		"out of its pool":                     {"school", "pool=free", "", "is not what the operator has tied"},
		"its own pool elsewhere":              {"school", "zone=a", "", "no worker has had"},
		"a pool that is still to come":        {"early", "", "pool=tomorrow", ""},
		"one that is to come, named":          {"early", "pool=tomorrow", "pool=tomorrow", ""},
		"more of a pool that is to come":      {"early", "zone=a", "", "no worker has had"},
	} {
		asked, err := job.ParseLabels(c.asked, job.MaxPlacement)
		if err != nil {
			t.Fatal(err)
		}
		client := clients[c.tenant]
		j, err := client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Placement: asked})
		var invalid job.Invalid
		switch {
		case c.refusal == "" && (err != nil || j.Placement.String() != c.want):
			t.Errorf("%s: got %q, %v, want %q", name, j.Placement, err, c.want)
		case c.refusal != "" && (!errors.As(err, &invalid) || !strings.Contains(invalid[0].Message, c.refusal)):
			t.Errorf("%s: got %+v, %v, want %q", name, j, err, c.refusal)
		case c.refusal != "" && c.tenant != "school" && strings.Contains(err.Error()+invalid[0].Allowed, "exams") && !strings.Contains(c.asked, "exams"):
			t.Errorf("%s: the refusal tells of another's pool: %v", name, err)
		}
	}
	for _, bad := range []job.Labels{{"A": "x"}, {"a": ""}, {"a": "x y"}, {"a": "1", "b": "1", "c": "1", "d": "1", "e": "1", "f": "1", "g": "1", "h": "1", "i": "1"}} {
		var invalid job.Invalid
		if _, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Placement: bad}); !errors.As(err, &invalid) || !strings.HasPrefix(invalid[0].Field, "placement") || invalid[0].Allowed == "" {
			t.Errorf("%v: got %v", bad, err)
		}
	}
}

// TestRegradeElsewhere: a submission is graded again where the tenant's jobs go by now, wherever it was graded.
func TestRegradeElsewhere(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	before, now := job.Labels{"pool": "old"}, job.Labels{"pool": "new"}
	tenant, err := w.Client.CreateTenant(ctx, "default", job.Terms{Placement: before})
	if err != nil {
		t.Fatal(err)
	}
	from, to := storeProblem(t, w, "1", nil), storeProblem(t, w, "2", nil)
	j, err := w.Client.Submit(ctx, job.Spec{Problem: from, Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	started, err := w.Worker.StartOn(ctx, j.ID, 1, record.Starter{ID: "worker-1", Labels: before})
	if err != nil {
		t.Fatal(err)
	}
	w.End(t, started, nil, nil)
	if _, err := w.Client.SetTerms(ctx, "default", tenant.Revision, job.Terms{Placement: now}); err != nil {
		t.Fatal(err)
	}
	answer, err := w.Client.Regrade(ctx, to, producer.RegradeRequest{From: from})
	if err != nil || answer.Batch.Jobs != 1 || answer.Batch.Rejected != 0 {
		t.Fatalf("got %+v, %v, want one job", answer, err)
	}
	if again, err := w.Client.Get(ctx, job.ItemID(answer.Batch.ID, 0)); err != nil || again.Placement.String() != now.String() {
		t.Errorf("got %q, %v, want %q", again.Placement, err, now)
	}
}
