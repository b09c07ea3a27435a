package podman_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// countDrawings is a program that executes cases, each with a figure of its own, without the ticks that take most of its drawing. They print how often it was drawn,
// and what its canvas shows.
const countDrawings = `import json, matplotlib.axes, matplotlib.pyplot as plt, numpy as np
for axis in "xtick.bottom", "xtick.labelbottom", "ytick.left", "ytick.labelleft":
    plt.rcParams[axis] = False
from matplotlib.backends.backend_agg import FigureCanvasAgg
drawn = 0
def draw(self, *args, _draw=matplotlib.axes.Axes.draw, **kwargs):
    global drawn
    drawn += 1
    return _draw(self, *args, **kwargs)
matplotlib.axes.Axes.draw = draw
def shows_itself():
    "Whether the canvas shows the figure as it is, as if it had just been drawn."
    shown = np.array(plt.gcf().canvas.buffer_rgba())
    plt.gcf().canvas.draw()
    return np.array_equal(shown, np.asarray(plt.gcf().canvas.buffer_rgba())) and len(np.unique(shown)) > 2
for one in json.loads(r"""%s"""):
    drawn = 0
    exec(one["Code"])
    plt.close("all")
`

// TestSavefigDrawsOnce: pyplot.savefig draws a figure once, and a second time when the canvas is looked at; or at once, where the program could notice that it waits.
// Where more than the count is printed, matplotlib alone prints the same.
func TestSavefigDrawsOnce(t *testing.T) {
	t.Parallel()
	cases := []struct{ Name, Code, Prints string }{
		{"once", `plt.plot([1, 2]); plt.savefig("a.png"); print(drawn)`, "1"},
		{"three pictures", `plt.plot([1, 2]); plt.savefig("a.png"); plt.savefig("b.jpg"); plt.savefig("c.svg"); print(drawn)`, "4"},
		{"looked at", `plt.plot([1, 2]); plt.savefig("a.png"); print(shows_itself(), drawn)`, "True 3"},
		{"other dpi", `plt.plot([1, 2]); plt.savefig("a.png", dpi=50); print(plt.gcf().canvas.buffer_rgba().shape, drawn, shows_itself())`, "(480, 640, 4) 2 True"},
		{"transparent", `plt.plot([1, 2]); plt.savefig("a.png", transparent=True); print(shows_itself(), drawn)`, "True 3"},
		{"a part", `plt.plot([1, 2]); plt.savefig("a.png", bbox_inches="tight"); n = drawn; print(plt.gcf().canvas.get_renderer().width, drawn - n, shows_itself())`, "640.0 0 True"},
		{"only a vector", `plt.plot([1, 2]); plt.savefig("a.svg"); print(drawn, hasattr(plt.gcf().canvas, "renderer"), drawn)`, "2 True 2"},
		{"bytes", `plt.plot([1, 2]); plt.savefig("a.png"); a = plt.gcf().canvas.tostring_argb(); print(len(a), drawn)`, "1228800 2"},
		{"extent", `text = plt.text(.5, .5, "x"); plt.savefig("a.png", dpi=50); box = text.get_window_extent().bounds; plt.gcf().canvas.draw(); print(box == text.get_window_extent().bounds)`, "True"},
		{"extent at its dpi", `text = plt.text(.5, .5, "x"); plt.savefig("a.png"); box = text.get_window_extent().bounds; plt.gcf().canvas.draw(); print(box == text.get_window_extent().bounds)`, "True"},
		{"a vector behind it", `plt.plot([1, 2]); plt.savefig("a.png"); plt.savefig("a.svg"); print(drawn, plt.gca().title._renderer is plt.gcf().canvas.renderer)`, "3 True"},
		{"a file in memory", `import io; plt.plot([1, 2]); plt.savefig(io.BytesIO()); print(drawn, shows_itself())`, "1 True"},
		{"drawn since", `plt.plot([1, 2]); plt.savefig("a.png"); plt.gcf().canvas.draw(); plt.gcf().canvas.buffer_rgba(); print(drawn)`, "2"},
		{"nobody drew", `print(hasattr(plt.gcf().canvas, "renderer"), hasattr(FigureCanvasAgg, "renderer"))`, "False False"},
		{"asked for", `plt.plot([1, 2]); plt.gcf().canvas.draw_idle(); print(drawn)`, "1"},
		{"of its own", `plt.plot([1, 2]); plt.gcf().canvas.draw_idle(); plt.savefig("a.png"); plt.gcf().canvas.draw_idle(); print(drawn)`, "3"},
		{"layout", `plt.figure(layout="constrained"); plt.plot([1, 2]); plt.savefig("a.png"); n = drawn; shows_itself(); print(drawn - n)`, "1"},
		{"tight layout", `plt.plot([1, 2]); plt.tight_layout(); n = drawn; plt.savefig("a.png"); print(drawn - n, shows_itself())`, "2 True"},
		{"a listener", `plt.plot([1, 2]); plt.gcf().canvas.mpl_connect("draw_event", lambda event: print("drawn", end=" ")); plt.savefig("a.png"); print(drawn)`, "drawn drawn 2"},
		{"another canvas", "class C(FigureCanvasAgg): pass\nC(plt.gcf()); plt.plot([1, 2]); plt.savefig('a.png'); print(drawn)", "2"},
		{"a drawing of its own", `plt.plot([1, 2]); plt.gcf().canvas.draw = lambda *a, **k: print("mine", end=" "); plt.savefig("a.png"); print(drawn)`, "mine 1"},
		{"pixels held", `plt.plot([1, 2]); plt.gcf().canvas.draw(); a = np.asarray(plt.gcf().canvas.buffer_rgba()); plt.savefig("a.png", transparent=True); print(a[0, 0, 3], drawn)`, "255 3"},
		{"not stale", `plt.plot([1, 2]); plt.savefig("a.png"); print(plt.gcf().stale, drawn)`, "False 1"},
		{"another savefig", "save, plt.savefig = plt.savefig, lambda *a, **k: save(*a, **k)\nplt.plot([1, 2]); plt.savefig('a.png'); print(drawn)", "2"},
		{"the figure's", `plt.plot([1, 2]); plt.gcf().savefig("a.png", dpi=50); print(plt.gcf().canvas.renderer.width, drawn)`, "320.0 1"},
		{"the same bytes", `plt.plot([1, 2]); plt.savefig("a.png"); plt.gcf().savefig("b.png"); plt.gcf().canvas.draw(); plt.savefig("c.png")
print(open("a.png", "rb").read() == open("b.png", "rb").read() == open("c.png", "rb").read())`, "True"},
	}
	for some := range slices.Chunk(cases, 6) { // a busy machine takes long for all of them
		t.Run(some[0].Name, func(t *testing.T) {
			t.Parallel()
			told, err := json.Marshal(some)
			if err != nil {
				t.Fatal(err)
			}
			o, k := run(t, program(fmt.Sprintf(countDrawings, told), asJobOf(pythonRuntime(t))))
			if o.ExitCode != 0 {
				t.Fatalf("exit code %d, stderr %q", o.ExitCode, k.stderr.String())
			}
			printed := strings.Split(k.stdout.String(), "\n")
			for i, one := range some {
				if got := printed[min(i, len(printed)-1)]; got != one.Prints {
					t.Errorf("%s: printed %q, want %q", one.Name, got, one.Prints)
				}
			}
		})
	}
}
