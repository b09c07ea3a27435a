package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestLargestRun: a run whose record is as large as it may become is read, drawn and canceled.
func TestLargestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	list := make([]string, 16)
	for i := range list {
		list[i] = strings.Repeat("x", 3990)
	}
	params, err := json.Marshal(map[string]any{"list": list})
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]job.Step{}
	for i := range 60 {
		var s job.Step
		s.Runtime, s.Source, s.Each = "python", "print(1)", &job.Each{From: "/params/list"}
		steps[fmt.Sprintf("s%d", i)] = s
	}
	run, err := w.Client.StartRun(t.Context(), job.PipelineRequest{Params: params, Pipeline: job.Pipeline{
		Params: []byte(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}}}}`), Steps: steps,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Advance(t.Context(), run.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	full := 0
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	for _, s := range run.Steps {
		if strings.Contains(s.Why, "too large") {
			full++
		}
	}
	if full == 0 {
		t.Fatal("the record has room for all steps")
	}
	// Items of up to 11 tries of 1000 jobs, and why some were refused, come beyond what bounds verdicts; what an earlier version has noted may be more.
	if err := w.Raw.HSet(t.Context(), "gb:{default}:run:"+run.ID, "charge", 12<<20).Err(); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{{"GET", ""}, {"GET", "/graph"}, {"DELETE", ""}} {
		if a := w.do(t, r[0], "/v1/runs/"+run.ID+r[1], http.NoBody); a.status >= http.StatusMultipleChoices {
			t.Errorf("%s %s: got %d, %.300s", r[0], r[1], a.status, a.body)
		}
	}
	advancer := w.Client.Advancer()
	for range 2 { // its jobs are stopped, then it ends
		if err := advancer.Advance(t.Context(), run.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if run, err = w.Client.GetRun(t.Context(), run.ID); err != nil || run.Status != job.Canceled {
		t.Errorf("got %s, %v, want it ended", run.Status, err)
	}
}
