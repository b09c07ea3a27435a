package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/secrets"
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
	got, left, exception := readShown([]byte(text), map[string]bool{"chart-1.png": true}, 4, nil)
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
	got, left, _ = readShown([]byte(many.String()), nil, 0, nil)
	held := 0
	for _, r := range got {
		held += len(r.Data["text/plain"].Text)
	}
	if len(got) != job.MaxShown || left != 2 || held != job.InlineShownTotal {
		t.Errorf("got %d results with %d bytes, %d left out", len(got), held, left)
	}
}

// FuzzReadShown: whatever an interpreter says, its results keep to the bounds, and have nothing that is no artifact of theirs.
func FuzzReadShown(f *testing.F) {
	f.Add([]byte(`{"kind":"value","data":{"text/plain":"2","image/png":{"artifact":"a.png"}},"note":"n"}`+"\n"), 0)
	f.Add([]byte(`{"exception":{"name":"E","value":"v","traceback":"t"},"left_out":3}`+"\n"+`{"left_out":-1}`+"\n"), 1)
	f.Add([]byte(`{"kind":"value","data":{"image/png":{"artifact":"../b"},"":"x","a/b;c":"x"}}`+"\n"+`{"kind":"display","data":null}`+"\n{}\nx"), 2)
	kept := map[string]bool{"a.png": true}
	f.Fuzz(func(t *testing.T, text []byte, leftOut int) {
		leftOut = min(max(leftOut, 0), 1<<20)
		results, left, exception := readShown(text, kept, leftOut, nil)
		if len(results) > job.MaxShown || left < leftOut {
			t.Fatalf("%d results, %d left out", len(results), left)
		}
		total := 0
		for _, r := range results {
			if r.Kind != job.ShownValue && r.Kind != job.ShownDisplay || len(r.Data) > job.MaxMediaTypes || len(r.Note) > job.MaxShownNote {
				t.Fatalf("got %+v", r)
			}
			for name, d := range r.Data {
				if total += len(d.Text); !job.ValidMediaType(name) || len(d.Text) > job.InlineShown || d.Artifact != "" && !kept[d.Artifact] {
					t.Fatalf("got %q: %+v", name, d)
				}
			}
		}
		if total > job.InlineShownTotal {
			t.Fatalf("%d bytes in all", total)
		}
		if e := exception; e != nil && (len(e.Name) > job.MaxExceptionName || len(e.Value) > job.MaxExceptionValue || len(e.Traceback) > job.MaxTraceback) {
			t.Fatalf("got %+v", e)
		}
	})
}

// TestShownSecrets: what a session shows of its secrets is masked, as what it prints.
func TestShownSecrets(t *testing.T) {
	t.Parallel()
	text := `{"kind":"value","data":{"text/plain":"is s3cret\u002dvalue","text/html":"<b>s3cret-value</b>"},"note":"s3cret-value"}
{"exception":{"name":"s3cret-value","value":"a s3cret-value","traceback":"s3cret-value\n"}}
`
	got, left, exception := readShown([]byte(text), nil, 0, secrets.NewMask([][]byte{[]byte("s3cret-value")}))
	want := []job.Shown{{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "is ***"}, "text/html": {Text: "<b>***</b>"}}, Note: "***"}}
	if d := cmp.Diff(want, got); d != "" || left != 0 {
		t.Errorf("left out %d (-want +got):\n%s", left, d)
	}
	if d := cmp.Diff(&job.Exception{Name: "***", Value: "a ***", Traceback: "***\n"}, exception); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
