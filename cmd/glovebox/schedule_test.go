package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestScheduleSet: what flags give changes, and the rest stays.
func TestScheduleSet(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	r.Params = []byte(`{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}`)
	if _, err := w.Client.SetTemplate(t.Context(), "report", r); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, params string
		catchUp      int64
	}{
		{"--template report --cron 30,2,*,*,7 --param a=x --param b:=1 --missed once --catch-up 6h", `{"a":"x","b":1}`, 21600},
		{"--param b:=2", `{"a":"x","b":2}`, 21600},
		{"--overlap queue", `{"a":"x","b":2}`, 21600},
		{"--missed skip", `{"a":"x","b":2}`, 0},
		{"--params -", `{"b":3}`, 0},
	} {
		args := strings.Fields("schedule set nightly " + c.args)
		for i, arg := range args {
			args[i] = strings.Replace(arg, "30,2,*,*,7", "30 2 * * 7", 1)
		}
		cmd := w.run(t.Context(), `{"b": 3}`, args...)
		if code := <-cmd.code; code != exitOK {
			t.Fatalf("%s: exit code %d, %s", c.args, code, cmd.stderr.String())
		}
		s, err := w.Client.Schedule(t.Context(), "nightly")
		if err != nil {
			t.Fatal(err)
		}
		if string(s.Params) != c.params || s.CatchUpSeconds != c.catchUp {
			t.Errorf("%s: got %s, catch up %d; want %s, %d", c.args, s.Params, s.CatchUpSeconds, c.params, c.catchUp)
		}
	}
}

// TestScheduleRunKey: a run that is asked for twice under one key is one job, over HTTP, too.
func TestScheduleRunKey(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	if _, err := w.Client.SetTemplate(t.Context(), "report", r); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.SetSchedule(t.Context(), "nightly", job.ScheduleSettings{Template: "report", Cron: "@daily"}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, key := range []string{"a", "a", "b", "", ""} {
		cmd := w.run(t.Context(), "", "schedule", "run", "nightly", "--idempotency-key", key)
		if code := <-cmd.code; code != exitOK {
			t.Fatalf("exit code %d, %s", code, cmd.stderr.String())
		}
		ids = append(ids, cmd.stdout.String())
	}
	slices.Sort(ids)
	if got := len(slices.Compact(ids)); got != 4 {
		t.Errorf("got %d jobs, want 4: %q", got, ids)
	}
}
