package podman_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestPreloadedNodeEnds: however a program ends, what it says and its exit code are those of a Node that frees all that it has (preload.js: endAtOnce).
func TestPreloadedNodeEnds(t *testing.T) {
	t.Parallel()
	programs := map[string]sandbox.Program{}
	for name, source := range map[string]string{
		"by itself":                     "console.log('x')",
		"a code":                        "process.exitCode = 7",
		"a code in digits":              "process.exitCode = '9'",
		"a code beyond":                 "process.exitCode = 300",
		"a code below":                  "process.exitCode = -1",
		"a code taken back":             "process.exitCode = 2; process.exitCode = undefined",
		"a listener's code":             "process.on('exit', (c) => { console.log('exit', c); process.exitCode = 4; })",
		"a listener exits":              "process.on('exit', () => process.exit(6))",
		"a listener throws":             "process.on('exit', () => { throw new Error('x'); })",
		"a listener throws, handled":    "process.on('uncaughtException', (e) => console.log(e.message)).on('exit', () => { throw new Error('x'); })",
		"a listener throws, with code":  "process.exitCode = 5; process.on('uncaughtException', () => {}).on('exit', () => { throw new Error('x'); })",
		"handled late":                  "process.on('uncaughtException', (e) => { console.log(e.message); process.exitCode = 3; }); setTimeout(() => { throw new Error('y'); }, 10)",
		"before the end":                "let n = 0; process.on('beforeExit', (c) => { console.log('before', c); if (n++ < 2) setTimeout(() => {}, 1); })",
		"thrown before the end":         "process.on('beforeExit', () => { throw new Error('b'); })",
		"a listener's timer":            "process.on('exit', () => setTimeout(() => console.log('never'), 0))",
		"no emit":                       "process.emit = 3",
		"its own emit":                  "process.emit = () => { throw new Error('emit'); }",
		"its own reallyExit":            "process.exitCode = 3; process.reallyExit = () => console.log('never')",
		"no process":                    "process.exitCode = 3; globalThis.process = undefined; delete globalThis.Reflect; Function.prototype.call = null",
		"an exitCode that it defines":   "Object.defineProperty(process, 'exitCode', { value: 3 })",
		"an inherited code":             "Object.defineProperty(Object.prototype, 'exitCode', { get() { return 9; } })",
		"exiting, it says":              "process._exiting = true; process.exitCode = 4",
		"a thread that goes on":         "new (require('worker_threads').Worker)('for (;;);', { eval: true }).unref(); setTimeout(() => console.log('bye'), 100)",
		"a thread that exits":           "new (require('worker_threads').Worker)('process.exit(3)', { eval: true }).on('exit', (c) => console.log(c))",
		"a thread's code":               "new (require('worker_threads').Worker)('process.exitCode = 5', { eval: true }).on('exit', (c) => { process.exitCode = c; })",
		"a child that goes on":          "const c = require('child_process').spawn('sleep', ['100'], { detached: true, stdio: 'ignore' }); c.unref(); console.log('x')",
		"a file that is being written":  "const fs = require('fs'); const s = fs.createWriteStream('out'); s.on('finish', () => console.log(fs.statSync('out').size)); s.end('x'.repeat(3e6))",
		"much output at once":           "process.stdout.write('y'.repeat(3e5) + '\\nend\\n'); process.stderr.write('z'.repeat(1e5))",
		"a server that waits":           "require('net').createServer().listen('/tmp/s').unref()",
		"a file handle":                 "require('fs').promises.open('main.js').then((h) => { globalThis.kept = h; })",
		"an inspector":                  "const s = new (require('inspector').Session)(); s.connect(); s.post('Profiler.enable'); s.post('Profiler.start'); console.log('x')",
		"hooks":                         "require('async_hooks').createHook({ init() {}, destroy() {}, before() {} }).enable(); setTimeout(() => console.log('x'), 1)",
		"a domain":                      "const d = require('domain').create(); d.on('error', (e) => console.log(e.message)); d.run(() => setTimeout(() => { throw new Error('q'); }, 1))",
		"what is finalized":             "new FinalizationRegistry(() => console.log('never')).register({}, 1)",
		"a module":                      "import 'fs'; process.exitCode = 2",
		"a module that waits":           "import 'fs'; process.on('exit', (c) => console.log(c)); await new Promise(() => {})",
		"a module that waits, its code": "import 'fs'; process.exitCode = 3; await new Promise(() => {})",
	} {
		programs[name] = node(t, source, limits(job.Limits{WallMS: 60_000, CPUMS: 60_000}))
	}
	sameWherePreloaded(t, preloadedNode(t, fromSnapshots+"node-ends"), programs, namesInShort(1, 4, programs))
}
