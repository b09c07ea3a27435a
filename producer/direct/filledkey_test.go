package direct_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestFaultsOfWhatIsFilledIn: a wrong idempotency key is called as it was sent, beside the spec; what is wrong with the job is in the spec.
func TestFaultsOfWhatIsFilledIn(t *testing.T) {
	t.Parallel()
	w, ctx := producertest.New(t, ""), t.Context()
	w.Runtimes(t)
	spec := job.TemplateSpec{Spec: job.Spec{Runtime: "bash", Source: "true"}, Args: []job.Value{{From: "/params/arg"}}}
	schema := json.RawMessage(`{"type":"object","properties":{"arg":{"type":"string","default":"a"}}}`)
	if _, err := w.Client.SetTemplate(ctx, "echo", producer.TemplateRequest{Spec: spec, Params: schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client.SetSchedule(ctx, "echo", job.ScheduleSettings{Template: "echo", Cron: "0 0 1 1 *"}); err != nil {
		t.Fatal(err)
	}
	template := func(key, params string) error {
		_, err := w.Client.RunTemplate(ctx, "echo", producer.RunRequest{IdempotencyKey: key, Params: json.RawMessage(params)})
		return err
	}
	_, ofSchedule := w.Client.RunSchedule(ctx, "echo", "é")
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"schedule, key":     {ofSchedule, []string{"idempotency_key"}},
		"template, key":     {template("é", `{}`), []string{"idempotency_key"}},
		"template, job":     {template("k", `{"arg":"\u0000"}`), []string{"spec.args[0]"}},
		"template, both":    {template("é", `{"arg":"\u0000"}`), []string{"idempotency_key", "spec.args[0]"}},
		"template, neither": {template("k", `{"arg":"b"}`), nil},
	} {
		var invalid job.Invalid
		if tc.err != nil && !errors.As(tc.err, &invalid) {
			t.Errorf("%s: got %v", name, tc.err)
		}
		var got []string
		for _, f := range invalid {
			got = append(got, f.Field)
		}
		if slices.Sort(got); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got faults of %q, want %q", name, got, tc.want)
		}
	}
}
