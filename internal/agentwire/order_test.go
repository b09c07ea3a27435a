package agentwire

import (
	"encoding/json"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func frame(t *testing.T, typ Type, v any) Frame {
	t.Helper()
	switch v := v.(type) {
	case nil:
		return Frame{Type: typ}
	case string:
		return Frame{Type: typ, Payload: []byte(v)}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return Frame{Type: typ, Payload: b}
}

var filled = job.Limits{Artifacts: 2, ArtifactMB: 1, OutputKB: 1}.Filled(job.Limits{})
