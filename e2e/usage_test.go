package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestUsage: results of real sandboxes have a cost, and the usage is their sum.
func TestUsage(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_PRICES=run=200,cpu_second=14000,gib_second=4500"}})
	prices := job.Prices{Run: 200, CPUSecond: 14_000, GiBSecond: 4_500}
	var want job.UsageCounts
	nano := int64(0)
	add := func(r job.Result, memoryMB int64) {
		t.Helper()
		if r.Cost == nil || r.Cost.Nano != prices.Cost(r.Usage, memoryMB) {
			t.Fatalf("got %+v of %+v", r.Cost, r.Usage)
		}
		want.Jobs++
		want.CPUMS += r.Usage.CPUMS
		want.MemoryMiBMS += memoryMB * r.Usage.WallMS
		nano += r.Cost.Nano
	}
	limits := job.Limits{MemoryMB: 192, WallMS: 60_000}
	for _, source := range []string{"echo hello", "exit 3"} {
		add(g.wait(g.submit(job.Spec{Runtime: "bash", Source: source, Limits: limits})), 192)
	}
	x, err := g.client.StartSession(t.Context(), job.SessionSettings{Runtime: "python", Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	add(g.executedIn(x.ID, "sum(range(10**6))"), 192)
	want.Cost = job.NewCost(nano)
	var got job.UsageReport
	gbtest.Eventually(t, "the usage is read", func() bool {
		got, err = g.client.Usage(t.Context(), time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), "")
		return err == nil
	})
	if got.Total != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if csv := g.command("usage", "--csv"); !strings.Contains(csv, want.Cost.Amount) && len(got.Days) == 1 {
		t.Errorf("got %s, want %s", csv, want.Cost.Amount)
	}
	if said := g.command("usage"); !strings.Contains(said, "total") {
		t.Errorf("got %s", said)
	}
}
