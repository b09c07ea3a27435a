package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestReadShown: of what an interpreter says only what keeps to the bounds is a result, and the rest is counted or noted.
func TestReadShown(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", job.InlineShown)
	text := strings.Join([]string{
		`{"kind":"value","data":{"text/plain":"2"}}`,
		`{"kind":"display","data":{"image/png":{"artifact":"chart-1.png"},"image/jpeg":{"artifact":"../gone"},"a b/c":"x","text/html":"` + long + `x"},"note":"n"}`,
		`{"kind":"other","data":{}}`, `not JSON`, `{"kind":"value","data":{"text/plain":1}}`,
		`{"exception":{"name":"E","value":"v","traceback":"t"},"left_out":3}`, `{"kind":"value","data`,
	}, "\n")
	got, left, exception := readShown([]byte(text), map[string]bool{"chart-1.png": true}, 4)
	if len(got) != 2 || left != 4+3+1+3 || exception == nil || *exception != (job.Exception{Name: "E", Value: "v", Traceback: "t"}) {
		t.Fatalf("got %+v, %d left out, %+v", got, left, exception)
	}
	if got[0].Data["text/plain"].Text != "2" || got[0].Note != "" {
		t.Errorf("got %+v", got[0])
	}
	if d := got[1]; len(d.Data) != 1 || d.Data["image/png"].Artifact != "chart-1.png" || d.Note != "n; what has no media type is left out; image/jpeg: its file is not kept; text/html: too long" {
		t.Errorf("got %+v", d)
	}
	var many strings.Builder
	for range job.MaxShown + 2 {
		fmt.Fprintf(&many, `{"kind":"display","data":{"text/plain":"%s"}}`+"\n", long)
	}
	got, left, _ = readShown([]byte(many.String()), nil, 0)
	held := 0
	for _, r := range got {
		held += len(r.Data["text/plain"].Text)
	}
	if len(got) != job.MaxShown || left != 2 || held != job.InlineShownTotal {
		t.Errorf("got %d results with %d bytes, %d left out", len(got), held, left)
	}
}
