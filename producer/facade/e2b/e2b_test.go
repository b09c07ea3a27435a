package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	q, err := parseRequest([]byte(`{"s":"x","n":3,"f":1.5,"m":{"a":"b"},"bad":{"a":1},"l":["a"],"null":null,"t":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err  func() error
		want string
	}{
		"string":        {func() error { _, err := q.text("s"); return err }, ""},
		"no string":     {func() error { _, err := q.text("n"); return err }, "n is 3: want a string"},
		"null":          {func() error { _, err := q.text("null"); return err }, ""},
		"number":        {func() error { _, _, err := q.number("n"); return err }, ""},
		"no number":     {func() error { _, _, err := q.number("s"); return err }, `s is "x": want a whole number of 0 or more`},
		"a fraction":    {func() error { _, _, err := q.number("f"); return err }, "f is 1.5: want a whole number of 0 or more"},
		"strings":       {func() error { _, err := q.texts("m"); return err }, ""},
		"no strings":    {func() error { _, err := q.texts("bad"); return err }, "bad.a is 1: want a string"},
		"no object":     {func() error { _, err := q.texts("l"); return err }, `l is ["a"]: want an object of strings`},
		"list":          {func() error { _, err := q.list("l"); return err }, ""},
		"no list":       {func() error { _, err := q.list("m"); return err }, `m is {"a":"b"}: want an array of strings`},
		"no truth":      {func() error { _, err := q.truth("n"); return err }, "n is 3: want true or false"},
		"nothing there": {func() error { _, _, err := q.number("none"); return err }, ""},
	} {
		if err := tt.err(); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	for _, body := range []string{"[]", "null", "{", `{"a":1} x`, "\"s\""} {
		if _, err := parseRequest([]byte(body)); err == nil {
			t.Errorf("%s: it is taken", body)
		}
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{ // absolute, and the session's own name
		"a.txt":                  {"/home/user/a.txt", "a.txt"},
		"/home/user/d/a":         {"/home/user/d/a", "d/a"},
		"~/a":                    {"/home/user/a", "a"},
		"/work/a":                {"/work/a", "a"},
		"../../etc/passwd":       {"/etc/passwd", ""},
		"d/../../root/.ssh":      {"/home/root/.ssh", ""},
		"/home/user/../user/a":   {"/home/user/a", "a"},
		"/home/user":             {"/home/user", ""},
		"/home/username/a":       {"/home/username/a", ""},
		"/home/user/back\\slash": {"/home/user/back\\slash", ""},
		"/tmp/a":                 {"/tmp/a", ""},
	} {
		got, err := absolute(name)
		own, ok := ours(got)
		if !ok {
			own = ""
		}
		if err != nil || got != want[0] || own != want[1] {
			t.Errorf("%s: got %s, %q, %v, want %q", name, got, own, err, want)
		}
	}
	for _, name := range []string{"", "a\x00b"} {
		if _, err := absolute(name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestDedented(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"x = 1\nif x:\n    y":      "x = 1\nif x:\n    y",
		"\n    if x:\n        y\n": "\nif x:\n    y\n",
		"\tx\n\ty":                 "x\ny",
		"    x\ny":                 "x\ny",
		"  \n":                     "  \n",
		"":                         "",
	} {
		if got := dedented(code); got != want {
			t.Errorf("%q: got %q, want %q", code, got, want)
		}
	}
}

// TestDedentedMemory: code of many short lines takes its own size once more, and not a list of its lines.
func TestDedentedMemory(t *testing.T) {
	code := " x" + strings.Repeat("\n", 16<<20)
	if spent := gbtest.Allocated(func() { _ = dedented(code) }); spent > 24<<20 {
		t.Errorf("code of 16 MiB took %d MiB more", spent>>20)
	}
}

// TestCodeMemory: what becomes code in base64 takes a few times its size, whatever it holds, and nothing where it is longer than the
// session's code may be.
func TestCodeMemory(t *testing.T) {
	text := strings.Repeat("<", 4<<20-64)
	q, err := parseRequest([]byte(`{"process":{"cmd":"x","args":["` + text + `"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for sourceKB, most := range map[int64]uint64{16 << 10: 64 << 20, 4 << 10: 40 << 20} {
		x := job.Session{Runtime: "python", Limits: job.Limits{SourceKB: sourceKB}}
		refused := sourceKB < 16<<10
		spent := gbtest.Allocated(func() {
			if _, _, err := prepareProcess(x, q); (err != nil) != refused {
				t.Errorf("a program's arguments, source_kb %d: got %v", sourceKB, err)
			}
		})
		if spent > most {
			t.Errorf("a program's arguments of 4 MiB, source_kb %d, took %d MiB more", sourceKB, spent>>20)
		}
		spent = gbtest.Allocated(func() {
			env := map[string]string{"A": text}
			err := checkEnv(env, "python", sourceKB<<10)
			if (err != nil) != refused {
				t.Errorf("variables, source_kb %d: got %v", sourceKB, err)
			}
			if err == nil {
				envCode("python", env)
			}
		})
		if spent > most || refused && spent > 1<<20 {
			t.Errorf("variables of 4 MiB, source_kb %d, took %d MiB more", sourceKB, spent>>20)
		}
	}
	if err := checkEnv(map[string]string{"A": strings.Repeat("'", 300)}, "bash", 1<<10); err == nil {
		t.Error("quotes that bash has four bytes for each of are taken")
	}
}

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

// TestEntries: a body of many entries is refused before anything is made of them, wherever they are.
func TestEntries(t *testing.T) {
	t.Parallel()
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s, n), ",") }
	for body, want := range map[string]bool{
		`{"code":"` + many(`{[\",`, 5000) + `"}`:              true,
		`{"env_vars":{` + many(`"a":"",`, 4000) + `}}`:        true,
		`{` + many(`"a":1,`, 5000) + `}`:                      false,
		`{"env_vars":{` + many(`"a":"",`, 5000) + `}}`:        false,
		`{"process":{"args":[` + many(`"",`, 5000) + `]}}`:    false,
		`{"a":` + many("[", 5000) + many("]", 5000) + `}`:     false,
		`{"code":"\\","env_vars":[` + many(`1,`, 5000) + `]}`: false,
	} {
		if _, err := parseRequest([]byte(body)); (err == nil) != want {
			t.Errorf("%.30s: got %v", body, err)
		}
	}
}

// memory is an api's: what is taken is told.
type memory struct {
	facade.Host

	body  []byte
	taken int64
}

func (m *memory) Body(context.Context) ([]byte, func(), error) {
	m.taken += int64(len(m.body))
	return m.body, func() { m.taken -= int64(len(m.body)) }, nil
}

func (m *memory) Work(_ context.Context, n int64) (func(), error) {
	m.taken += n
	return func() { m.taken -= n }, nil
}

// TestUnzip: what is unzipped is taken as a body that came so, is bounded, and is given back.
func TestUnzip(t *testing.T) {
	t.Parallel()
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	call := func(text string) (int64, int64, error) {
		m := &memory{body: zip(text)}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Content-Encoding", "gzip")
		_, done, err := readHeld(t.Context(), r, &facade.Call{Host: m})
		taken := m.taken - int64(len(m.body))
		if err == nil {
			done()
		}
		return taken, m.taken, err
	}
	if taken, left, err := call(`{"code":"` + strings.Repeat("x", 8<<20-11) + `"}`); err != nil || taken != 32<<20 || left != 0 {
		t.Errorf("got %d taken, %d left, %v", taken, left, err)
	}
	var said statusError
	if _, left, err := call(`{"code":"` + strings.Repeat("x", 8<<20) + `"}`); !errors.As(err, &said) || said.status != http.StatusRequestEntityTooLarge || left != 0 {
		t.Errorf("one too large: got %v, %d left", err, left)
	}
	if _, left, err := call(`[]`); err == nil || left != 0 {
		t.Errorf("no object: got %v, %d left", err, left)
	}
	// A message that is compressed in a body that is not.
	message := zip(`{"path":"a"}`)
	m := &memory{body: append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message))), message...)}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	r.Header.Set("Content-Type", streamType)
	r.Header.Set("Connect-Content-Encoding", "gzip")
	q, done, err := readCall(t.Context(), r, &facade.Call{Host: m})
	if err != nil || !q.has("path") || m.taken <= int64(len(m.body)) {
		t.Fatalf("got %v, %v, %d taken", q, err, m.taken)
	}
	if done(); m.taken != 0 {
		t.Errorf("%d are left", m.taken)
	}
}

// deaf is a client that takes nothing.
type deaf struct{ http.ResponseWriter }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("it has left") }

// TestSendStream: a file that can't be sent whole ends the connection.
func TestSendStream(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is told by itself
			t.Errorf("got %v, want that the connection ends", got)
		}
	}()
	err := sendStream(t.Context(), deaf{httptest.NewRecorder()}, &facade.Call{}, job.Result{Stdout: "text", Results: []job.Shown{{Data: map[string]job.Rendering{printedType: {Text: "4"}}}}}, "a")
	t.Errorf("got %v where nothing of the file was sent", err)
}

// TestCheckPrinted: what an errand printed counts only if nothing else printed meanwhile.
func TestCheckPrinted(t *testing.T) {
	t.Parallel()
	says := func(size string) []job.Shown {
		return []job.Shown{{Data: map[string]job.Rendering{"text/plain": {Text: "4"}}}, {Data: map[string]job.Rendering{printedType: {Text: size}}}}
	}
	for name, results := range map[string][]job.Shown{"nothing": nil, "less": says("3"), "more": says("5"), "no number": says("4 "), "the same": says("4")} {
		if err := checkPrinted(job.Result{Results: results}, 4); (err == nil) != (name == "the same") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestForm: the files of a form are what they are, also where one has nothing, and one that ends too early is refused.
func TestForm(t *testing.T) {
	t.Parallel()
	part := func(name, content string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n"
	}
	sent, err := partsOf([]byte(part("a", "one")+part("b", "")+part("c", "three")+"--x--\r\n"), "x", "")
	if err != nil || len(sent) != 3 || string(sent[0].content) != "one" || len(sent[1].content) != 0 || string(sent[2].content) != "three" {
		t.Errorf("got %s, %v", sent, err)
	}
	if sent, err := partsOf([]byte(part("a", "one")+"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\nx"), "x", ""); err == nil {
		t.Errorf("without an end: got %s", sent)
	}
}

func TestErrorOf(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	kept, lost := &job.ExecutionState{State: job.StateKept}, &job.ExecutionState{State: job.StateLost}
	for name, tt := range map[string]struct {
		r        job.Result
		language string
		want     string
	}{
		"well":              {job.Result{Status: job.Succeeded, Session: kept}, "python", ""},
		"an exception":      {job.Result{Status: job.Failed, ExitCode: code(1), Session: kept, Exception: &job.Exception{Name: "ValueError", Value: "v"}}, "python", "ValueError: v"},
		"an exit code":      {job.Result{Status: job.Failed, ExitCode: code(3), Session: kept}, "python", "SystemExit: 3"},
		"bash's exit code":  {job.Result{Status: job.Failed, ExitCode: code(3), Session: kept}, "bash", ""},
		"time":              {job.Result{Status: job.TimedOut, Limit: "wall_ms", Session: kept}, "python", "TimeoutError: the execution took longer than wall_ms allows"},
		"output":            {job.Result{Status: job.OutputLimitExceeded, Limit: "output_kb", Session: kept, Exception: &job.Exception{Name: "KeyboardInterrupt"}}, "python", "OutputLimitExceeded: the execution printed more than output_kb allows"},
		"memory":            {job.Result{Status: job.OutOfMemory, Session: lost}, "python", "MemoryError: the sandbox used more memory than it has"},
		"interrupted":       {job.Result{Status: job.Canceled, Session: kept}, "python", "KeyboardInterrupt: "},
		"lost":              {job.Result{Status: job.Failed, ExitCode: code(137), Session: lost}, "bash", unexpected + ": "},
		"its worker lost":   {job.Result{Status: job.InternalError, Error: &job.Error{Message: "gone"}}, "python", unexpected + ": gone"},
		"its session ended": {job.Result{Status: job.Canceled, Error: &job.Error{Message: "ended"}}, "python", unexpected + ": ended"},
	} {
		got := ""
		if n, v, _, failed := errorOf(tt.r, tt.language); failed {
			got = n + ": " + v
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestCodeOfStatus: what is refused for a reason is no fault of ours, which SDKs would try again, and each code has a status.
func TestCodeOfStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{402: "resource_exhausted", 403: "permission_denied", 409: "already_exists", 413: "invalid_argument", 415: "invalid_argument", 429: "resource_exhausted", 418: "internal"} {
		if got := codeOfStatus(status); got != want || statusOfCode[got] == 0 {
			t.Errorf("%d: got %q, %d, want %q", status, got, statusOfCode[got], want)
		}
	}
}

// TestBashEnv: variables hold between the two, whatever their values are, and then are as they were.
func TestBashEnv(t *testing.T) {
	t.Parallel()
	set, reset := envCode("bash", map[string]string{"A": "it's $(id) `id` \"\n", "B": "new"})
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "B=old\nexport B\n"+set+`printf '[%s]' "$A" "$B"`+"\n"+reset+`printf '[%s]' "${A-unset}" "$B"; `+reset+`printf '[%s]' "$B"; compgen -v glovebox`)
	if out, err := cmd.Output(); string(out) != "[it's $(id) `id` \"\n][new][unset][old][old]" || err == nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestPythonEnv is the same for Python.
func TestPythonEnv(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	set, reset := envCode("python", map[string]string{"A": "$(id)", "B": "new"})
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "import os\nos.environ['B'] = 'old'\nassert ("+set+") is None\nprint([os.environ['A'], os.environ['B']])\nassert ("+reset+") is None\nprint(['A' in os.environ, os.environ['B']])\nassert ("+reset+") is None")
	out, err := cmd.CombinedOutput()
	if want := "['$(id)', 'new']\n[False, 'old']\n"; string(out) != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// FuzzRequest: whatever a body has, a field is what it is to be or is refused, and a path leads nowhere else.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"code":"x","env_vars":{"A":"b"},"context_id":null,"timeout":1e3}`))
	f.Add([]byte(`{"process":{"cmd":"x","args":["a",1]},"stdin":0}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseRequest(body)
		if err != nil {
			return
		}
		for name := range q {
			_, _ = q.text(name)
			if n, ok, err := q.number(name); err == nil && ok && n < 0 {
				t.Errorf("%s is %d", name, n)
			}
			if env, err := q.texts(name); err == nil && checkEnv(env, "python", 1<<20) == nil {
				if set, _ := envCode("python", env); strings.ContainsAny(set, "\n\x00") {
					t.Errorf("%q is more than a line", set)
				}
			}
			if list, err := q.list(name); err == nil && len(list) > len(body) {
				t.Error("it has grown")
			}
			if of, err := q.object(name); err == nil {
				_, _ = errandOf("Move", of)
			}
		}
		if name, err := absolute(string(body)); err == nil {
			if own, ok := ours(name); ok && (job.CheckName(own) != "" || bytes.HasPrefix([]byte(own), []byte("/"))) {
				t.Errorf("%q becomes %q", body, own)
			}
		}
	})
}
