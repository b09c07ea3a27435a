package podman_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestPrintedAsPlain: what is put into Python to let lines out (glovebox_output.py) changes
// nothing of what a program prints, however it does: cold and preloaded it is what a Python
// without site, and so without anything of ours, says of the same program.
func TestPrintedAsPlain(t *testing.T) {
	t.Parallel()
	open(t)
	p := preloaded(t, "print", 2)
	const libraries = "import sys; sys.path.append('/usr/lib/python3/dist-packages')\n"
	sources := map[string]string{
		"print":      "for i in range(5000): print(i, 'x')",
		"csv":        "import csv, sys\nw = csv.writer(sys.stdout)\nfor i in range(5000): w.writerow([i, 'x'])",
		"pandas":     libraries + "import pandas as pd\npd.DataFrame({'i': range(5000)}).to_csv(sys.stdout)",
		"pprint":     "import pprint\npprint.pprint(list(range(5000)))",
		"kept write": "import sys\nw = sys.stdout.write\nfor i in range(5000): w(f'{i}\\n')\nprint(w, vars(sys.stdout), file=open('/dev/null', 'w'))",
		"kept flush": "import sys\nf = sys.stdout.buffer.flush, sys.stdout.flush\nfor i in range(5000): print(i); f[i % 2]()",
		"logging":    "import logging, sys\nlogging.basicConfig(stream=sys.stdout)\nfor i in range(5000): logging.warning('%d', i)",
		"json":       "import json, sys\njson.dump(list(range(5000)), sys.stdout, indent=1)",
		"replaced":   "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'latin-1', line_buffering=True)\nfor i in range(5000): print('\xe4')",
		"told":       "import sys\nsys.stdout.reconfigure(encoding='utf-16', newline='\\r\\n', line_buffering=True)\nfor i in range(5000): print(i)\nprint(sys.stdout.line_buffering)",
		"patched":    "import sys\nfrom unittest import mock\nwith mock.patch.object(sys.stdout, 'write', mock.Mock()) as w:\n    for i in range(5000): print(i)\nprint(w.call_count)\nfor i in range(5000): print(i)",
		"threads":    "import sys, threading\ndef f():\n    for i in range(5000): sys.stdout.write('x\\n')\nts = [threading.Thread(target=f) for _ in range(4)]\n[t.start() for t in ts]; [t.join() for t in ts]",
		"no text":    "print(1)\ntry: print('\\ud800')\nfinally: import sys; sys.stdout.write(5)",
		"closed":     "import sys\nprint('x')\nsys.stdout.close()\nprint('y')",
		"called":     "import sys\nsys.excepthook(1, '1', 1); sys.excepthook(KeyError, KeyError(2), None)",
		"traced":     "import sys\nseen = []\nsys.setprofile(lambda f, e, a: seen.append((e, f.f_code.co_name)))\nfor i in range(100): print(i)\nsys.setprofile(None)\nprint(seen)",
		"deep":       "import sys\nn = 0\ndef f():\n    global n; n += 1\n    if n == 900: print('x' * 9999)\n    try: f()\n    except RecursionError: print('y'); raise SystemExit(n)\nsys.setrecursionlimit(905)\nf()",
	}
	for _, name := range namesInShort(0, 2, sources) {
		source := sources[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			type result struct {
				Status         job.Status
				ExitCode       int
				Stdout, Stderr string
			}
			patient := limits(job.Limits{WallMS: 60_000, CPUMS: 60_000})
			of := func(sandboxes *podman.Sandboxes, argv ...string) (result, bool) {
				sink := &kept{}
				o, err := sandboxes.Run(t.Context(), program(source, asJobOf(pythonRuntime(t)), command(argv...), patient), sink)
				if err != nil {
					t.Fatal(err)
				}
				return result{o.Status, o.ExitCode, sink.stdout.String(), address.ReplaceAllString(sink.stderr.String(), "0x…")}, o.Preloaded
			}
			plain, _ := of(suite.podman, "python3", "-S", "main.py")
			cold, _ := of(suite.podman, "python3", "main.py")
			if diff := cmp.Diff(plain, cold); diff != "" {
				t.Errorf("plain (-) and cold (+) differ:\n%s", diff)
			}
			if !slices.Contains([]string{"csv", "kept write", "threads", "no text"}, name) {
				return // each preloaded sandbox takes a second of CPU time, and has the same in it
			}
			for was := false; !was; { // another may take the one that waits
				awaitPreloaded(t, p)
				var warm result
				if warm, was = of(p, "python3", "main.py"); was {
					if diff := cmp.Diff(plain, warm); diff != "" {
						t.Errorf("plain (-) and preloaded (+) differ:\n%s", diff)
					}
				}
			}
		})
	}
}
