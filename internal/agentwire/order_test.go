package agentwire

import (
	"encoding/json"
	"errors"
	"strings"
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

// inOrder has frames of those names, with commas between, accepted one after the other; one whose name begins with "!" has to be refused.
// Where says reports true, the name is no frame: it was told what the other side does in between.
func inOrder(t *testing.T, frames string, known map[string]Frame, accept func(Frame) error, says func(name string) bool) {
	t.Helper()
	for name := range strings.SplitSeq(frames, ",") {
		if says(name) {
			continue
		}
		name, refused := strings.CutPrefix(name, "!")
		f, ok := known[name]
		if !ok {
			t.Fatalf("no frame %q", name)
		}
		if err := accept(f); refused != (err != nil) || err != nil && !errors.Is(err, ErrProtocol) {
			t.Fatalf("%s: got %v, want refused %v", name, err, refused)
		}
	}
}

// nothing is for inOrder where all names are frames.
func nothing(string) bool { return false }
