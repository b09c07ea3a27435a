package e2b

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// TestOutput: what is told of a stream is the stream, however it comes, without the line that is Glovebox's own.
func TestOutput(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		stream string
		status job.Status
		want   string
	}{
		{"one\ntwo\n", job.Succeeded, "one\ntwo\n"},
		{"Execution timed out\n", job.TimedOut, ""},
		{"busy\nExecution timed out\n", job.TimedOut, "busy\n"},
		{"Execution timed out\nit says\n", job.Succeeded, "Execution timed out\nit says\n"},
		{"Execution timed out\n", job.Failed, "Execution timed out\n"},
	} {
		for range 20 {
			var o output
			var told []byte
			for at := 0; at < len(tt.stream); {
				n := 1 + random.IntN(len(tt.stream)-at)
				if tail := len(tt.stream) - len(facade.TimeUp); at < tail && at+n > tail && tt.status == job.TimedOut {
					n = tail - at // Glovebox writes its line at once
				} else if at >= tail && tt.status == job.TimedOut {
					n = len(tt.stream) - at
				}
				told = append(told, o.take(producer.Event{Data: []byte(tt.stream[at : at+n]), Offset: int64(at)})...)
				at += n
			}
			told = append(told, o.last(job.Result{Status: tt.status})...)
			if string(told) != tt.want || o.gap {
				t.Errorf("%q, %s: got %q, want %q", tt.stream, tt.status, told, tt.want)
			}
		}
	}
	var o output
	if told := o.take(producer.Event{Data: []byte("x"), Offset: 5}); told != nil || !o.gap {
		t.Errorf("after a gap: got %q", told)
	}
}

// TestRestOf: the line that is Glovebox's own is left out wherever it lies in what is told at once.
func TestRestOf(t *testing.T) {
	t.Parallel()
	for n := range len(facade.TimeUp) + 1 {
		printed := strings.Repeat("x", chunk-n)
		for status, want := range map[job.Status]string{job.TimedOut: printed, job.Failed: printed + facade.TimeUp} {
			r := job.Result{Status: status, Stderr: printed + facade.TimeUp}
			var o output
			var told []byte
			err := restOf(t.Context(), &facade.Call{}, r, producer.Stderr, &o, func(b []byte) error { told = append(told, b...); return nil })
			if told = append(told, o.last(r)...); err != nil || string(told) != want {
				t.Errorf("%d bytes of it in the first piece, %s: got %d bytes, %v, want %d", n, status, len(told), err, len(want))
			}
		}
	}
}

func TestResultOf(t *testing.T) {
	t.Parallel()
	read := func(name string) ([]byte, error) {
		content, ok := map[string][]byte{"a.png": {0x89, 'P'}, "long.html": []byte("<b>"), "a.json": []byte("{\n\"a\": 1}\n")}[name]
		if !ok {
			return nil, errNoRoom
		}
		return content, nil
	}
	text := func(s string) job.Rendering { return job.Rendering{Text: s} }
	file := func(s string) job.Rendering { return job.Rendering{Artifact: s} }
	for name, tt := range map[string]struct {
		shown job.Shown
		want  string
	}{
		"a value":  {job.Shown{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": text("42")}}, `{"is_main_result":true,"text":"42","type":"result"}`},
		"a string": {job.Shown{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": text(`'it\'s'`)}}, `{"is_main_result":true,"text":"it\\'s","type":"result"}`},
		"a figure": {job.Shown{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"image/png": file("a.png"), chartType: text(`{"type":"bar"}`)}}, `{"chart":{"type":"unknown","title":"","elements":[]},"is_main_result":false,"png":"iVA=","type":"result"}`},
		"a table":  {job.Shown{Kind: job.ShownValue, Data: map[string]job.Rendering{tableType: text(`{"a":[1]}`), "text/html": file("long.html")}}, `{"data":{"a":[1]},"html":"\u003cb\u003e","is_main_result":true,"type":"result"}`},
		"no JSON":  {job.Shown{Kind: job.ShownValue, Data: map[string]job.Rendering{"application/json": text(`{"a`)}}, `{"is_main_result":true,"json":"{\"a","type":"result"}`},
		"others":   {job.Shown{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"application/x-of-theirs": text("x")}}, `{"extra":{"application/x-of-theirs":"x"},"is_main_result":false,"type":"result"}`},
		"JSON":     {job.Shown{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"application/json": file("a.json"), "application/geo+json": file("a.json")}}, `{"extra":{"application/geo+json":{"a":1}},"is_main_result":false,"json":{"a":1},"type":"result"}`},
		"gone":     {job.Shown{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"image/png": file("gone.png")}}, `{"is_main_result":false,"type":"result"}`},
	} {
		line, err := resultOf(tt.shown, &room{mostShown, func(int64) error { return nil }}, read)
		var got bytes.Buffer
		err = errors.Join(err, line.write(&got))
		var g, w any
		if json.Unmarshal(got.Bytes(), &g) != nil || json.Unmarshal([]byte(tt.want), &w) != nil || err != nil || !cmp.Equal(g, w) {
			t.Errorf("%s: got %s, %v, want %s", name, got.String(), err, tt.want)
		}
	}
}

// TestChartOf: a chart comes in the form that E2B's clients read, of the types that they know.
func TestChartOf(t *testing.T) {
	t.Parallel()
	const axes = `"x":{"label":"size (m)","unit":"m","scale":"linear","ticks":[0,1],"tick_labels":["p","q"],"named":true},"y":{"label":"","scale":"log"},`
	const planar = `"x_label":"size (m)","x_unit":"m","x_scale":"linear","x_ticks":[0,1],"x_tick_labels":["p","q"],"y_label":"","y_unit":null,"y_scale":"log","y_ticks":[],"y_tick_labels":[],`
	for ours, want := range map[string]string{
		`{"type":"line","title":"T",` + axes + `"series":[{"type":"hline","label":"","y":[1]},{"type":"line","label":"a","x":[1,"c"],"y":[2,null]},{"type":"step","label":"","x":[1],"y":[2]}]}`: `{"type":"line","title":"T",` + planar + `"elements":[{"label":"a","points":[[1,2],["c",null]]},{"label":"Line 2","points":[[1,2]]}]}`,
		`{"type":"mixed","title":"",` + axes + `"series":[{"type":"line","label":"","x":[1],"y":[2]},{"type":"bar","label":"g","x":[-0.1,1.1],"y":[3,4]}]}`:                                      `{"type":"bar","title":"",` + planar + `"elements":[{"label":"p","group":"g","value":3},{"label":"q","group":"g","value":4}]}`,
		`{"type":"bar","title":"","series":[{"type":"bar","label":"","orientation":"horizontal","x":[3],"y":["c"]}]}`:                                                                            `{"type":"bar","title":"","elements":[{"label":"c","group":"","value":3}]}`,
		`{"type":"histogram","title":"","series":[{"type":"histogram","label":"","y":[3],"edges":[0,1]}]}`:                                                                                       `{"type":"bar","title":"","elements":[{"label":"0.5","group":"","value":3}]}`,
		`{"type":"pie","title":"","series":[{"type":"pie","label":"","labels":["p"],"values":[7],"angles":[360],"radius":1}]}`:                                                                   `{"type":"pie","title":"","elements":[{"label":"p","angle":360,"radius":1}]}`,
		`{"type":"box","title":"","series":[{"type":"box","label":"","boxes":[{"label":"1","position":1,"min":1,"first_quartile":2,"median":3,"third_quartile":4,"max":5}]}]}`:                   `{"type":"box_and_whisker","title":"","elements":[{"label":"1","min":1,"first_quartile":2,"median":3,"third_quartile":4,"max":5,"outliers":[]}]}`,
		`{"type":"multiple","title":"S","charts":[{"type":"scatter","title":"","series":[{"type":"scatter","label":"","x":[1],"y":[2]}]},{"type":"heatmap","title":"h"}]}`:                       `{"type":"superchart","title":"S","elements":[{"type":"scatter","title":"","elements":[{"label":"Dataset 1","points":[[1,2]]}]},{"type":"unknown","title":"h","elements":[]}]}`,
		`{"type":"line","series":7}`: `{"type":"unknown","title":"","elements":[]}`,
		`no JSON`:                    `{"type":"unknown","title":"","elements":[]}`,
	} {
		got, err := chartOf([]byte(ours), &room{mostShown, func(int64) error { return nil }})
		var g, w any
		if err = errors.Join(err, json.Unmarshal(got, &g), json.Unmarshal([]byte(want), &w)); err != nil || !cmp.Equal(g, w) {
			t.Errorf("%s: got %s, %v, want %s", ours, got, err, want)
		}
	}
	if got, err := chartOf(make([]byte, job.MaxChart+1), &room{mostShown, func(int64) error { return nil }}); !errors.Is(err, errNoRoom) {
		t.Errorf("of one that is too large got %s, %v", got, err)
	}
}

// TestResultMemory: what a result takes is taken before, whatever it holds, and what there is no room for is left out.
func TestResultMemory(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mediaType string
		content   []byte
		shown     bool
	}{
		"text that grows most": {"text/html", bytes.Repeat([]byte{1}, 2<<20), true},
		"no text":              {"text/html", bytes.Repeat([]byte("\xffa"), 3<<19), true},
		"wide characters":      {"text/plain", bytes.Repeat([]byte("\u65e5"), 2<<20), true},
		"an image":             {"image/png", make([]byte, 6<<20), true},
		"JSON":                 {"application/json", fmt.Appendf(nil, "[%s1]", bytes.Repeat([]byte("1,"), 3<<20)), true},
		"others":               {"text/x-of-theirs", bytes.Repeat([]byte{'x'}, 4<<20), true},
		"text too large":       {"text/html", bytes.Repeat([]byte{1}, 3<<20), false},
		"an image too large":   {"image/png", make([]byte, 7<<20), false},
	} {
		if testing.Short() && (name == "wide characters" || name == "others") {
			continue // those that grow most take the most, and are there
		}
		held := int64(0)
		m := &room{mostShown, func(n int64) error { held += n; return nil }}
		shown := job.Shown{Data: map[string]job.Rendering{tt.mediaType: {Artifact: "a"}, "text/latex": {Text: "x"}}}
		line, err := resultOf(shown, m, func(string) ([]byte, error) { return tt.content, m.hold(int64(len(tt.content))) })
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := line.write(&text); err != nil || !json.Valid(text.Bytes()) || bytes.ContainsRune(text.Bytes(), '\n') {
			t.Errorf("%s: it is no line of JSON, %v", name, err)
		}
		if whole := int64(text.Len()) >= int64(len(tt.content)); whole != tt.shown || string(line["latex"]) != `"x"` {
			t.Errorf("%s: got a line of %d bytes of %d", name, text.Len(), len(tt.content))
		}
		sent := int64(0)
		for _, value := range line {
			sent += int64(cap(value))
		}
		if sent -= int64(cap(line["type"]) + cap(line["is_main_result"])); tt.shown && held+64<<10 < sent+int64(len(tt.content)) || held > mostShown {
			t.Errorf("%s: it took %d, and is %d of %d", name, held, sent, len(tt.content))
		}
	}
}
