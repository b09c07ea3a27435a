package podman_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// said is a line of what an interpreter shows.
type said struct {
	job.Shown

	Exception *job.Exception `json:"exception"`
	LeftOut   int            `json:"left_out"`
}

func (k *turnSink) Shown(p []byte) error { k.shown.Write(p); return nil }

// said returns what the turn showed: its results and its exception.
func (k *turnSink) said(tb testing.TB) (results []job.Shown, exception *job.Exception) {
	tb.Helper()
	for line := range bytes.Lines(k.shown.Bytes()) {
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			tb.Fatalf("got %.200q: %v", line, err)
		}
		if s.Kind != "" {
			results = append(results, s.Shown)
		}
		if s.Exception != nil {
			exception = s.Exception
		}
	}
	return results, exception
}

// read counts the turn's results. What isn't as it has to be counts as nothing.
func (k *turnSink) read() (results int, exception string, leftOut int) {
	for line := range bytes.Lines(k.shown.Bytes()) {
		var s said
		if json.Unmarshal(line, &s) != nil {
			continue
		}
		if s.Kind != "" {
			results++
		}
		if s.Exception != nil {
			exception = s.Exception.Name
		}
		leftOut += max(s.LeftOut, 0)
	}
	return results, exception, leftOut
}

func text(s string) job.Rendering { return job.Rendering{Text: s} }

func file(name string) job.Rendering { return job.Rendering{Artifact: name} }

// shows is a piece of code and what it comes to.
type shows struct {
	code      string
	stdout    string
	results   []job.Shown
	exception *job.Exception
	names     string // of its artifacts
}

func checkShown(t *testing.T, p sandbox.Program, pieces []shows) {
	t.Helper()
	todo := make([]step, len(pieces))
	for i, piece := range pieces {
		todo[i].code = piece.code
	}
	for i, got := range turns(t, p, todo...) {
		want := pieces[i]
		results, exception := got.said(t)
		if diff := cmp.Diff(want.results, results); diff != "" {
			t.Errorf("%s\nshows (-want +got):\n%s", want.code, diff)
		}
		if diff := cmp.Diff(want.exception, exception); diff != "" {
			t.Errorf("%s\nends with (-want +got):\n%s", want.code, diff)
		}
		if got.stdout.String() != want.stdout || got.names() != want.names || (want.exception == nil) != (got.stderr.String() == "") {
			t.Errorf("%s\nprints %q and %q, leaves %q", want.code, got.stdout.String(), got.stderr.String(), got.names())
		}
	}
}

// TestShownPython: what a piece of Python shows is told by media type: values, what is displayed, figures with their data, and how it failed. What is
// printed is as it would be without.
func TestShownPython(t *testing.T) {
	t.Parallel()
	value := func(data map[string]job.Rendering) []job.Shown {
		return []job.Shown{{Kind: job.ShownValue, Data: data}}
	}
	checkShown(t, sessionOf(t, "python"), []shows{
		{code: "1 + 1", stdout: "2\n", results: value(map[string]job.Rendering{"text/plain": text("2")})},
		{code: "None"},
		{code: "_ + 1", stdout: "3\n", results: value(map[string]job.Rendering{"text/plain": text("3")})},
		{
			code:   "class Rich:\n    def __repr__(self): return 'rich'\n    def _repr_html_(self): return '<b>rich</b>'\n    def _repr_png_(self): return b'\\x89PNG'\n    def _repr_jpeg_(self): return b'x'\n    def _repr_json_(self): return {'a': [1, float('nan')]}\nRich()",
			stdout: "rich\n", names: "result-1.png",
			results: value(map[string]job.Rendering{
				"text/plain": text("rich"), "text/html": text("<b>rich</b>"), "image/png": file("result-1.png"), "application/json": text(`{"a":[1,null]}`),
			}),
		},
		{
			code:   "class Half:\n    def __repr__(self): return 'half'\n    def _repr_html_(self): raise ValueError('no')\n    def _repr_svg_(self): return '<svg/>'\n    def __getattr__(self, name): return lambda: 'anything'\ndisplay(Half(), 'x')",
			stdout: "half\n'x'\n", results: []job.Shown{
				{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"text/plain": text("half"), "image/svg+xml": text("<svg/>")}, Note: "text/html: ValueError"},
				{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"text/plain": text("'x'")}},
			},
		},
		{
			code: "display({'text/html': '<i>', 'image/gif': b'GIF'}, raw=True)", names: "result-2.gif",
			results: []job.Shown{{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"text/html": text("<i>"), "image/gif": file("result-2.gif")}}},
		},
		{
			code: "def f(): raise KeyError('k')\nf()",
			exception: &job.Exception{
				Name: "KeyError", Value: "'k'",
				Traceback: "Traceback (most recent call last):\n  File \"<execution 7>\", line 2, in <module>\n    f()\n    ~^^\n  File \"<execution 7>\", line 1, in f\n    def f(): raise KeyError('k')\n             ^^^^^^^^^^^^^^^^^^^\nKeyError: 'k'\n",
			},
		},
		{
			code:  "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2], label='g')\nplt.title('T')\nplt.ylabel('size (m)');plt.show()",
			names: "chart-1.png", results: []job.Shown{{Kind: job.ShownDisplay, Data: map[string]job.Rendering{
				"text/plain": text("<Figure size 640x480 with 1 Axes>"), "image/png": file("chart-1.png"),
				"application/vnd.glovebox.chart+json": text(`{"type":"bar","title":"T","x":{"label":"","scale":"categorical","range":[-0.49,1.49],"ticks":["a","b"],"tick_labels":["a","b"]},"y":{"label":"size (m)","scale":"linear","range":[0,2.1],"unit":"m","ticks":[0,0.25,0.5,0.75,1,1.25,1.5,1.75,2,2.25],"tick_labels":["0.00","0.25","0.50","0.75","1.00","1.25","1.50","1.75","2.00","2.25"]},"series":[{"type":"bar","label":"g","x":["a","b"],"y":[1,2],"width":[0.8,0.8]}]}`),
			}}},
		},
		{ // it is open at the end, and saved by the program: so it is shown, and not saved once more
			code: "fig, ax = plt.subplots()\nw = ax.pie([1, 3], labels=['p', 'q'])\nfig.savefig('own.png')", names: "own.png",
			results: []job.Shown{{Kind: job.ShownDisplay, Data: map[string]job.Rendering{
				"text/plain": text("<Figure size 640x480 with 1 Axes>"), "image/png": file("own.png"),
				"application/vnd.glovebox.chart+json": text(`{"type":"pie","title":"","series":[{"type":"pie","label":"","labels":["p","q"],"values":[1,3],"angles":[90,270],"radius":1}]}`),
			}}},
		},
		{code: "plt.get_fignums()", stdout: "[]\n", results: value(map[string]job.Rendering{"text/plain": text("[]")})},
	})
}

// TestShownNode: as TestShownPython.
func TestShownNode(t *testing.T) {
	t.Parallel()
	plain := func(kind, s string) []job.Shown {
		return []job.Shown{{Kind: kind, Data: map[string]job.Rendering{"text/plain": text(s)}}}
	}
	checkShown(t, sessionOf(t, "node"), []shows{
		{code: "1 + 1", stdout: "2\n", results: plain(job.ShownValue, "2")},
		{code: "undefined"},
		{
			code: "({a: [1, 'x']})", stdout: "{ a: [ 1, 'x' ] }\n", results: []job.Shown{{Kind: job.ShownValue, Data: map[string]job.Rendering{
				"text/plain": text("{ a: [ 1, 'x' ] }"), "application/json": text(`{"a":[1,"x"]}`),
			}}},
		},
		{code: "new Map([[1, 2]])", stdout: "Map(1) { 1 => 2 }\n", results: plain(job.ShownValue, "Map(1) { 1 => 2 }")},
		{code: "display('x')", stdout: "'x'\n", results: plain(job.ShownDisplay, "'x'")},
		{
			code: "display({'text/html': '<b>', 'image/png': Buffer.from('png')}, {raw: true})", names: "result-1.png",
			results: []job.Shown{{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"text/html": text("<b>"), "image/png": file("result-1.png")}}},
		},
		{code: "const display = 7; display", stdout: "7\n", results: plain(job.ShownValue, "7")},
		{code: "throw 5", exception: &job.Exception{Name: "number", Value: "5", Traceback: "Uncaught 5\n"}},
	})
}

// TestShownOnly: with GLOVEBOX_RESULTS=only values and errors are told, and not printed. What the code prints itself is.
func TestShownOnly(t *testing.T) {
	t.Parallel()
	for name, todo := range map[string][]step{
		"python": {{code: "print('p'); display(3)\n4"}, {code: "raise ValueError('no')"}},
		"node":   {{code: "console.log('p'); display(3); 4"}, {code: "throw new RangeError('no')"}},
	} {
		p := sessionOf(t, name)
		p.Env = map[string]string{"GLOVEBOX_RESULTS": "only"}
		got := turns(t, p, todo...)
		check(t, got, want{stdout: "p\n"}, want{status: job.Failed, code: 1})
		results, _ := got[0].said(t)
		_, exception := got[1].said(t)
		if len(results) != 2 || results[0].Data["text/plain"].Text != "3" || results[1].Kind != job.ShownValue || exception == nil || exception.Value != "no" {
			t.Errorf("%s: got %+v and %+v", name, results, exception)
		}
		if got[1].stderr.Len() > 0 {
			t.Errorf("%s: got %q", name, got[1].stderr.String())
		}
	}
}

// TestShownPrepared: an interpreter that was prepared shows what any other does.
func TestShownPrepared(t *testing.T) {
	t.Parallel()
	p := preloaded(t, "shown-prepared", 1)
	awaitPreloaded(t, p)
	got, o := turnsIn(t, p, sessionOf(t, "python"),
		step{code: "import matplotlib.pyplot as plt\nplt.boxplot([[1, 2, 3, 9]]);"}, step{code: "raise ValueError('no')"}, step{code: "1 + 1"})
	results, _ := got[0].said(t)
	_, exception := got[1].said(t)
	if len(results) != 2 || results[1].Data["image/png"].Artifact != "chart-1.png" || exception == nil || exception.Name != "ValueError" || !o.Preloaded {
		t.Fatalf("got %+v, %+v, %+v", results, exception, o)
	}
	const chart = `{"label":"1","position":1,"min":1,"first_quartile":1.75,"median":2.5,"third_quartile":4.5,"max":4.5,"outliers":[9]}`
	if data := results[1].Data["application/vnd.glovebox.chart+json"].Text; !strings.Contains(data, chart) {
		t.Errorf("got %s", data)
	}
}

// TestShownTable: a table of pandas is told as text, as HTML and by its values, where these are few.
func TestShownTable(t *testing.T) {
	t.Parallel()
	got := turns(t, sessionOf(t, "python"),
		step{code: "import pandas as pd\npd.DataFrame({'a': [1, float('inf')], 'b': ['x', None], 't': pd.to_datetime(['2020-01-02', None])})"},
		step{code: "pd.DataFrame({'a': range(10001)})"})
	check(t, got, want{stdout: got[0].stdout.String()}, want{stdout: got[1].stdout.String()})
	results, _ := got[0].said(t)
	if len(results) != 1 {
		t.Fatalf("got %+v", results)
	}
	data := results[0].Data
	if !strings.HasPrefix(data["text/html"].Text, "<div>") || data["text/plain"].Text+"\n" != got[0].stdout.String() {
		t.Errorf("got %+v", data)
	}
	if table := data["application/vnd.glovebox.table+json"].Text; table != `{"a":[1.0,null],"b":["x",null],"t":["2020-01-02T00:00:00",null]}` {
		t.Errorf("got %s", table)
	}
	results, _ = got[1].said(t)
	if len(results) != 1 || len(results[0].Data) != 2 || results[0].Note != "application/vnd.glovebox.table+json: it has more than 10000 cells" {
		t.Errorf("got %+v", results)
	}
}

// TestShownInterrupted: a piece that is interrupted shows none of its figures, and leaves none open.
func TestShownInterrupted(t *testing.T) {
	t.Parallel()
	got := turns(t, sessionOf(t, "python"),
		step{code: "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nprint('begun', flush=True)\nwhile True: pass", interruptAt: "begun"},
		step{code: "plt.get_fignums()"}, step{code: "plt.plot([1, 2]); 1 / 0"})
	check(t, got, want{stdout: "begun\n", status: job.Canceled, code: 130, stderr: "KeyboardInterrupt"}, want{stdout: "[]\n"}, want{status: job.Failed, code: 1, stderr: "ZeroDivisionError"})
	results, exception := got[0].said(t)
	if len(results) != 0 || exception == nil || exception.Name != "KeyboardInterrupt" {
		t.Errorf("got %+v and %+v", results, exception)
	}
	if results, _ = got[2].said(t); len(results) != 1 || got[2].names() != "chart-1.png" {
		t.Errorf("after an error got %+v, and %q", results, got[2].names())
	}
}
