package podman_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// TestShownHostile: whatever a piece shows, its results keep to their bounds and say what is missing, and the session lives on.
func TestShownHostile(t *testing.T) {
	t.Parallel()
	type bounds struct {
		results int // exactly; -1: any
		left    int // at least
		status  job.Status
		lost    bool
		name    string // of the exception
	}
	for name, c := range map[string]struct {
		runtime string // python by default
		code    string
		wall    time.Duration // of what make test leaves out
		want    bounds
	}{
		"many displays":             {code: "for i in range(10**5): display({}, raw=True)", want: bounds{results: job.MaxShown, left: 90_000}},
		"many of node":              {runtime: "node", code: "for (let i = 0; i < 1e5; i++) display({}, {raw: true})", want: bounds{results: job.MaxShown, left: 90_000}},
		"a text of 100 MB":          {code: "class A:\n    def __repr__(self): return 'a'\n    def _repr_html_(self): return 'x' * (100 << 20)\n    def _repr_png_(self): return bytes(100 << 20)\nA()", want: bounds{results: 1}},
		"a text of 1 GB":            {code: "class A:\n    def __repr__(self): return 'x' * (1 << 30)\ndisplay(A())", want: bounds{results: 0, status: job.OutOfMemory, lost: true}},
		"a text of node":            {runtime: "node", code: "display({'text/html': 'x'.repeat(100 << 20), 'text/plain': '\\0'.repeat(1 << 20)}, {raw: true})", want: bounds{results: 1}},
		"texts that JSON swells":    {code: "for i in range(40): display({'text/x': '\\x01' * 60000, 'text/html': '\"' * 60000}, raw=True)", want: bounds{results: 40}},
		"all media types":           {code: "display({f'a/b{i}': 'x' * 1000 for i in range(100000)}, raw=True)", want: bounds{results: 1}},
		"media types that are none": {code: "display({'': 'x', 'a b/c': 'x', 'text/html; charset=x': 'y', 'a/' + 'b' * 200: 'z', '\\0/x\\n': 'q', 3: 'n'}, raw=True)", want: bounds{results: 1}},
		"many figures": {
			code: "import matplotlib\nmatplotlib.rcParams['figure.max_open_warning'] = 0\nimport matplotlib.pyplot as plt\nfor i in range(66): plt.figure(figsize=(.2, .2))", want: bounds{results: job.MaxShown, left: 2},
		},
		"a million figures": {
			code: "import matplotlib.pyplot as plt\nfor i in range(10**6): plt.figure()", wall: 10 * time.Second, want: bounds{results: 0, status: job.TimedOut, name: "KeyboardInterrupt"},
		},
		"a million figures that are shown": {
			code: "import matplotlib.pyplot as plt\nfor i in range(10**6):\n    plt.figure(figsize=(.1, .1))\n    plt.show()", wall: 10 * time.Second,
			want: bounds{results: job.MaxShown, left: 1, status: job.TimedOut, name: "KeyboardInterrupt"},
		},
		"a million figures that are drawn": {
			code: "import matplotlib.pyplot as plt\nfor i in range(10**6): plt.figure(figsize=(60, 60)).canvas.draw()", want: bounds{results: 0, status: job.OutOfMemory, lost: true},
		},
		"a representation that raises": {
			code: "class A:\n    def __repr__(self): raise BaseException('no')\ndisplay(A())", want: bounds{results: 0, status: job.Failed, name: "BaseException"},
		},
		"an error without words": {
			code: "class E(Exception):\n    def __str__(self): raise BaseException('no')\n    __repr__ = __str__\nraise E()", want: bounds{status: job.Failed, name: "E"},
		},
		"an error that never ends": {
			code: "class E(Exception):\n    def __str__(self): return 'x' * (50 << 20)\nE.__name__ = 'n' * 100000\nraise E()", want: bounds{status: job.OutputLimitExceeded, name: strings.Repeat("n", 100)},
		},
		"an error whose name is none": {code: "import sys\nclass M(type):\n    __name__ = property(lambda self: 3)\nclass E(Exception, metaclass=M): pass\nraise E()", want: bounds{results: -1, status: job.Failed}},
		"a representation that shows itself": {
			code: "class A:\n    def __repr__(self): return 'a'\n    def _repr_html_(self): display(self)\ndisplay(A())", want: bounds{results: -1},
		},
		"a representation that waits": {
			code: "class A:\n    def _repr_html_(self):\n        while True: pass\ndisplay(A())", want: bounds{results: 0, status: job.TimedOut, name: "KeyboardInterrupt"},
		},
		"JSON that waits": {
			runtime: "node", code: "({get a() { while (true); }, toJSON() { while (true); }})", want: bounds{results: 0, status: job.TimedOut, name: "Interrupted"},
		},
		"children that display": {
			code: "import os\npids = []\nfor i in range(8):\n    pid = os.fork()\n    if pid == 0:\n        for j in range(100): display({'text/html': 'x' * 1000}, raw=True)\n        os._exit(0)\n    pids.append(pid)\nfor pid in pids: os.waitpid(pid, 0)\ndisplay('mine')", want: bounds{results: 1},
		},
		"threads that display": {
			code: "import threading\nts = [threading.Thread(target=lambda: [display({'text/html': 'x' * 1000}, raw=True) for _ in range(100)]) for _ in range(8)]\nfor x in ts: x.start()\nfor x in ts: x.join()", want: bounds{results: job.MaxShown, left: 800 - job.MaxShown},
		},
		"children that speak": {
			code: findToken + "import os\npids = []\nfor i in range(8):\n    pid = os.fork()\n    if pid == 0:\n        for j in range(200): os.write(5, b'\\0' + token + b' {\"kind\":\"display\",\"data\":{\"a/b\":\"' + b'x' * 9000 + b'\"}}\\0')\n        os._exit(0)\n    pids.append(pid)\nfor pid in pids: os.waitpid(pid, 0)", want: bounds{results: -1, left: 1},
		},
		"forged results": {
			code: findToken + "import os\nfor word in (b'{', b'{}', b'null', b'[1]', b'{\"kind\":\"x\"}', b'{\"kind\":\"value\",\"data\":{\"image/png\":{\"artifact\":\"../../etc/passwd\"}}}', b'{\"left_out\":-5}', b'{\"left_out\":1e99}', b'\\xff\\xfe'): os.write(5, b'\\0' + token + b' ' + word + b'\\0')\n1",
			want: bounds{results: -1},
		},
		"a word without end": {
			code: findToken + "import os\nos.write(5, b'\\0' + token + b' {\"kind\":')\nfor i in range(64): os.write(5, b'x' * (1 << 20))\ndisplay(2)", want: bounds{results: -1, left: 0},
		},
		"display is replaced": {code: "import builtins, sys\nbuiltins.display = lambda *a: 1 / 0\n2", want: bounds{results: 1}},
		"no module is left":   {code: "import sys\nsys.modules.clear()\ndisplay({'text/html': 'x'}, raw=True)", want: bounds{results: -1}},
		"files that are taken": {
			code: "import os\nos.mkdir('result-1.png')\nos.symlink('/dev/full', 'result-2.png')\ndisplay({'image/png': b'x'}, raw=True)", want: bounds{results: 1},
		},
	} {
		if c.wall > 0 && testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.runtime == "" {
				c.runtime = "python"
			}
			if c.want.status == "" {
				c.want.status = job.Succeeded
			}
			wall := time.Minute
			if c.want.status == job.TimedOut {
				wall = cmp.Or(c.wall, 2*time.Second)
			}
			got := turns(t, sessionOf(t, c.runtime), step{code: "1 + 1"}, step{code: c.code, wall: wall}, step{code: "1 + 1"})
			hostile := got[1]
			if hostile.Status != c.want.status || hostile.StateLost != c.want.lost {
				t.Errorf("got %s, lost %v: %.500s", hostile.Status, hostile.StateLost, hostile.stderr.String())
			}
			if hostile.shown.Len() > agentwire.MaxShown {
				t.Errorf("%d bytes are shown", hostile.shown.Len())
			}
			results, exception, left := hostile.read()
			if left += hostile.ShownLeftOut; c.want.results >= 0 && results != c.want.results || results > job.MaxShown+1 || left < c.want.left {
				t.Errorf("got %d results, and %d are left out", results, left)
			}
			if c.want.name != "" && exception != c.want.name {
				t.Errorf("got exception %.200q", exception)
			}
			check(t, got[2:], want{stdout: "2\n"})
			if results, _ := got[2].said(t); len(results) != 1 || results[0].Data["text/plain"].Text != "2" {
				t.Errorf("the next shows %+v", results)
			}
		})
	}
}
