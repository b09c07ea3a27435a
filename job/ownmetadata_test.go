package job

import (
	"errors"
	"slices"
	"testing"
)

// TestOwnMetadata: nobody says in Glovebox's words where what is asked for comes from.
func TestOwnMetadata(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"glovebox.template", "glovebox.hook", "glovebox.delivery", "glovebox.schedule", "glovebox.fire", "glovebox.run", "glovebox.step", "glovebox.regrade_of",
	} {
		forged := map[string]string{"mine": "1", key: "x"}
		for what, err := range map[string]error{
			"a run":                 PipelineRequest{Template: "t", Metadata: forged}.Check(),
			"a batch":               BatchOptions{Metadata: forged}.Check(),
			"a schedule":            ScheduleSettings{Template: "t", Metadata: forged}.Check(),
			"a session":             SessionSettings{Metadata: forged}.Check(),
			"a change of a session": SessionChange{Metadata: &forged}.Check(),
			"an execution":          SessionExecution{Code: "1", Metadata: forged}.Check(0),
		} {
			var invalid Invalid
			if !errors.As(err, &invalid) || !slices.ContainsFunc(invalid, func(f FieldError) bool { return f.Field == "metadata."+key && f.Message == "is Glovebox's" }) {
				t.Errorf("%s with %s: got %v", what, key, err)
			}
		}
	}
	if faults := OwnMetadata(map[string]string{"glovebox": "", "glovebox.mine": "", "template": ""}); faults != nil {
		t.Errorf("got %v of others", faults)
	}
}
