package direct_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// A tenant whose terms say nothing has the operator's quotas, until somebody lifts them.
func TestNewTenantsHaveQuotas(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	quotas := job.Quotas{RequestsPerMinute: 600, JobsQueued: 1000, BytesStored: 1 << 30}
	client, err := direct.New(direct.Config{NewTenants: quotas}, w.Records, w.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	got, err := client.CreateTenant(t.Context(), "acme", job.Terms{Quotas: job.Quotas{JobsQueued: 5, RunningAtOnce: 2}})
	want := job.Quotas{RequestsPerMinute: 600, JobsQueued: 5, RunningAtOnce: 2, BytesStored: 1 << 30}
	if err != nil || got.Terms.Quotas != want {
		t.Errorf("created with %+v, %v, want %+v", got.Terms.Quotas, err, want)
	}
	want.BytesStored = 0
	if got, err = client.SetTerms(t.Context(), "acme", got.Revision, job.Terms{Quotas: want}); err != nil || got.Terms.Quotas != want {
		t.Errorf("changed to %+v, %v, want %+v", got.Terms.Quotas, err, want)
	}
}
