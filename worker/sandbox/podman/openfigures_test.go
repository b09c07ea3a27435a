package podman_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// TestOpenFigures: a figure that is shown without waiting stays open, and is written once: when it is closed, shown for good, or the program ends. One
// that can't be drawn keeps no other from being saved.
func TestOpenFigures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code   string
		want   map[string]int // how many lines each picture shows
		stderr string         // the beginning of its only line
	}{
		"goes on":          {"plt.plot([1]); plt.show(block=False); plt.plot([2]); plt.savefig('own.png')", map[string]int{"own.png": 2}, ""},
		"frames":           {"for i in range(3): plt.plot([i]); plt.pause(.01)", map[string]int{"chart-1.png": 3}, ""},
		"closed":           {"plt.plot([1]); plt.show(block=False); plt.pause(.01); plt.close(); plt.plot([1, 2], [[1, 2], [3, 4]]); plt.gcf().show(); plt.show()", map[string]int{"chart-1.png": 1, "chart-2.png": 2}, ""},
		"interactive":      {"plt.ion(); plt.plot([1]); plt.show(); plt.plot([2]); plt.show()", map[string]int{"chart-1.png": 2}, ""},
		"saved before":     {"plt.plot([1]); plt.savefig('own.png'); plt.plot([2]); plt.gcf().show()", map[string]int{"own.png": 1, "chart-1.png": 2}, ""},
		"shown once more":  {"fig = plt.figure(); plt.plot([1]); plt.show(); fig.show()", map[string]int{"chart-1.png": 1, "chart-2.png": 1}, ""},
		"can't be drawn":   {`plt.title(r'$\foo$'); plt.figure(); plt.plot([1])`, map[string]int{"chart-2.png": 1}, "figure 1 can't be saved: ValueError: "},
		"nor once shown":   {`plt.title(r'$\foo$'); plt.gcf().show(); plt.figure(); plt.plot([1]); plt.gcf().show(); plt.close('all')`, map[string]int{"chart-2.png": 1}, "figure 1 can't be saved: ValueError: "},
		"of another child": {"import os\nplt.plot([1]); plt.gcf().show()\nif os.fork() == 0: raise SystemExit\nos.wait()", map[string]int{"chart-1.png": 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			o, sink := run(t, program("import matplotlib.pyplot as plt\n"+tt.code, limits(job.Limits{MemoryMB: 512, WallMS: 60_000}), environmentOf(t)))
			got := map[string]int{}
			for name, chart := range chartsOf(t, sink) {
				got[name] = len(chart.Series)
			}
			if o.Status != job.Succeeded || !maps.Equal(got, tt.want) {
				t.Errorf("got %s and lines of %v, want %v", o.Status, got, tt.want)
			}
			if stderr := sink.stderr.String(); !strings.HasPrefix(stderr, tt.stderr) || strings.Count(stderr, "\n") != min(1, len(tt.stderr)) {
				t.Errorf("stderr: got %q", stderr)
			}
		})
	}
}

// TestShownOpenFigures: what a piece of a session shows without waiting is its result, be it interrupted or not.
func TestShownOpenFigures(t *testing.T) {
	t.Parallel()
	pieces := []struct {
		step

		images, files string
	}{
		{step{code: "import matplotlib.pyplot as plt\nfor i in range(3):\n    plt.plot([i]); plt.pause(.01)"}, "chart-1.png", "chart-1.png"},
		{step{code: "plt.plot([1]); plt.gcf().show(); plt.savefig('own.png'); plt.close()"}, "own.png", "own.png"},
		{step{code: "import io\nplt.plot([1]); plt.gcf().show(); plt.savefig(io.BytesIO()); plt.close()"}, "chart-2.png", "chart-2.png"},
		{step{code: "plt.plot([1]); plt.show(block=False); plt.savefig('later')"}, "later.png", "later.png"},
		{step{code: "plt.ion(); plt.plot([1]); plt.show(); plt.plot([2]); plt.show()"}, "chart-3.png chart-4.png", "chart-3.png chart-4.png"},
		{step{code: "plt.plot([1]); plt.pause(.01)\nprint('begun', flush=True)\nwhile True: pass", interruptAt: "begun"}, "chart-5.png", "chart-5.png"},
		{step{code: `plt.title(r'$\foo$'); plt.figure(); _ = plt.plot([1])`}, "chart-7.png", "chart-7.png"},
		{step{code: "_ = plt.get_fignums() and 1 / 0"}, "", ""},
	}
	todo := make([]step, len(pieces))
	for i, piece := range pieces {
		todo[i] = piece.step
	}
	for i, got := range turns(t, sessionOf(t, "python"), todo...) {
		results, exception := got.said(t)
		var images []string
		for _, r := range results {
			images = append(images, r.Data["image/png"].Artifact)
		}
		want := map[int]string{5: "KeyboardInterrupt", 6: "ValueError"}[i]
		if exception == nil {
			exception = &job.Exception{}
		}
		if diff := cmp.Diff([]string{pieces[i].images, pieces[i].files, want}, []string{strings.Join(images, " "), got.names(), exception.Name}); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", pieces[i].code, diff)
		}
	}
}
