package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestKilledAtFire: two api processes share a Redis, and each is killed as it has decided a fire whose job it has
// not created. Each fire starts one job, and none is lost.
func TestKilledAtFire(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: what a dead process claimed has to come due again")
	}
	t.Parallel()
	bin, dir := build(t, "failpoint", "glovebox")+"/glovebox", t.TempDir()
	fail := func(name string) string {
		return "GLOVEBOX_FAILPOINT=kill:" + failpoint.FireClaimed + ":" + filepath.Join(dir, name)
	}
	first := startAPIBinary(t, bin, fail("first"))
	apis := []*apiProcess{first, first.another(t, fail("second"))}
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	if _, err := first.client.SetTemplate(t.Context(), "work", r); err != nil {
		t.Fatal(err)
	}
	const n = 20
	due := time.Now().UTC().Truncate(time.Second)
	var names []string
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		if _, err := first.client.SetSchedule(t.Context(), name, job.ScheduleSettings{Template: "work", Cron: "@yearly"}); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	for _, name := range names { // both are due now, and not again in this test
		sc, err := first.Records.Schedule(t.Context(), "default", name)
		if err != nil {
			t.Fatal(err)
		}
		sc.Next = due
		if err := first.Records.SetSchedule(t.Context(), "default", sc, due); err != nil {
			t.Fatal(err)
		}
	}
	for _, api := range apis {
		select {
		case <-api.Done():
		case <-time.After(gbtest.Patience):
			t.Fatal("a process is not killed: no fire came to it")
		}
	}
	claimed := 0
	for _, name := range names {
		if sc, err := first.Records.Schedule(t.Context(), "default", name); err != nil || sc.Firing != nil {
			claimed++
		}
	}
	if claimed == 0 {
		t.Error("no fire was left between its steps: nothing is shown")
	}
	for _, api := range apis {
		api.Restart()
	}
	var ids []string
	for _, name := range names {
		var fires []job.Fire
		gbtest.Eventually(t, "schedule "+name+" fires", func() bool {
			var err error
			fires, err = apis[1].client.ScheduleFires(t.Context(), name)
			return err == nil && len(fires) > 0
		})
		if f := fires[0]; len(fires) != 1 || f.Outcome != job.FireStarted || !f.Time.Equal(due) {
			t.Errorf("%s: got %+v, want one fire that started a job", name, fires)
		}
		ids = append(ids, fires[0].Job)
	}
	jobs, next := map[string]int{}, ""
	for {
		page, err := first.client.List(t.Context(), producer.ListOptions{Limit: 100, Cursor: next})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			jobs[j.ID]++
		}
		if next = page.Next; next == "" {
			break
		}
	}
	for _, id := range ids {
		if jobs[id] != 1 {
			t.Errorf("job %s of a fire: there are %d", id, jobs[id])
		}
	}
	if len(jobs) != n {
		t.Errorf("got %d jobs for %d fires", len(jobs), n)
	}
	t.Logf("%d fires were between their steps when both processes were dead", claimed)
}
