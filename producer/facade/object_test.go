package facade_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/producer/facade"
)

// TestObject: what is written piece by piece reads as what is written at once.
func TestObject(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<é\"\x00🚀\u2028", 10_000)
	w := httptest.NewRecorder()
	facade.WriteObject(w, http.StatusCreated, func(o *facade.Object) {
		o.Field("n", 1)
		o.Object("run", func(o *facade.Object) {
			o.Text("both", facade.Valid, []byte(long), []byte("end"))
			o.Text("none", facade.Valid)
			o.Field("null", nil)
		})
		o.Object("empty", func(*facade.Object) {})
	})
	var got struct {
		N   int
		Run struct {
			Both, None string
			Null       *int
		}
		Empty map[string]any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("got %d, %v: %.100s", w.Code, err, w.Body)
	}
	if got.N != 1 || got.Run.Both != long+"end" || got.Run.None != "" || got.Empty == nil || !strings.Contains(w.Body.String(), `"<é`) {
		t.Errorf("got %.200s", w.Body)
	}
}

// FuzzObjectText: whatever a program printed, it is one JSON string, and text is as it was.
func FuzzObjectText(f *testing.F) {
	f.Add([]byte("h\xe9llo\x00\n"), uint16(1))
	f.Add([]byte("🚀"), uint16(9000))
	f.Fuzz(func(t *testing.T, b []byte, times uint16) {
		b = bytes.Repeat(b, min(int(times), 1<<17/(len(b)+1)))
		w := httptest.NewRecorder()
		facade.WriteObject(w, http.StatusOK, func(o *facade.Object) { o.Text("x", facade.Valid, b) })
		var got map[string]string
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		if strings.ReplaceAll(got["x"], "\uFFFD", "") != strings.ReplaceAll(facade.Valid(b), "\uFFFD", "") {
			t.Fatalf("%q: got %q", b, got["x"])
		}
	})
}
