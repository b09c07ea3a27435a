package podman_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// nodeRuntime is what jobs in JavaScript are run with.
func nodeRuntime(tb testing.TB) runtimes.Runtime {
	tb.Helper()
	return preloadingRuntime(tb, "node")
}

// preloadedNode keeps two sandboxes of Node's that wait preloaded, for any program.
func preloadedNode(tb testing.TB, worker string) *podman.Sandboxes {
	tb.Helper()
	open(tb)
	r := nodeRuntime(tb)
	return keepWarmOf(tb, worker, r.Image(), preloadOf(r))
}

// node is a program in JavaScript.
func node(tb testing.TB, source string, options ...func(*sandbox.Program)) sandbox.Program {
	tb.Helper()
	r := nodeRuntime(tb)
	return program("", append([]func(*sandbox.Program){func(p *sandbox.Program) {
		_, p.Command = r.Command("", nil)
		p.Image, p.Env = r.Image(), maps.Clone(r.Env)
		p.Files = []sandbox.File{{Name: "main.js", Content: []byte(source)}}
	}}, options...)...)
}

// arguments are those of a program.
func arguments(args ...string) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Command = append(p.Command[:len(p.Command):len(p.Command)], args...) }
}

// nodeState is most of what a program can ask about itself and its process, except for what runtimes/README.md lists.
const nodeState = `
const fs = require('fs'), os = require('os'), v8 = require('v8'), path = require('path');
console.log(process.argv, process.argv0, process.execPath, process.execArgv, process.title, process.exitCode);
console.log(__filename, __dirname, require.main === module, module.id, module.parent, module.paths, module.children, module.loaded, process.mainModule === module);
console.log(Object.getOwnPropertyNames(globalThis).sort(), Object.getOwnPropertyNames(process).sort(), Object.getOwnPropertyDescriptor(process, 'env').writable);
console.log(Object.entries(process.env).sort(), process.cwd(), fs.readdirSync('.'), fs.readdirSync('/tmp'), process.umask(0o77).toString(8));
console.log(process.getuid(), process.geteuid(), process.getgid(), process.getgroups(), process.ppid, os.getPriority());
console.log(fs.readFileSync('/proc/self/status', 'utf8').split('\n').filter((l) => /^(Cap|Seccomp|NoNewPrivs|Sig|Uid|Gid|Threads)/.test(l)));
console.log(fs.readFileSync('/proc/self/limits', 'utf8').split('\n').filter((l) => !/cpu time/.test(l)));
for (const fd of [0, 1, 2]) { const s = fs.fstatSync(fd); console.log(fd, s.isFIFO(), s.isFile(), s.isSocket(), s.isCharacterDevice(), s.size); }
console.log(process.stdin.constructor.name, process.stdout.constructor.name, process.stdout.isTTY, process.stdout.writable, process.stderr.constructor.name);
console.log(process.eventNames(), process.listenerCount('exit'), process._getActiveHandles().length, process.getActiveResourcesInfo(), process.features, process.allowedNodeEnvironmentFlags.size);
console.log(Error.stackTraceLimit, new Error('x').stack, Intl.DateTimeFormat().resolvedOptions(), new Date(0).toString(), os.homedir(), os.tmpdir());
console.log(module.constructor.builtinModules.length, Object.keys(require.extensions), require('module').globalPaths, v8.getHeapStatistics().heap_size_limit, v8.startupSnapshot.isBuildingSnapshot());
console.log(Math.random.toString(), Math.random.name, process.env.toString(), process.env.nothing, delete process.env.nothing, 'HOME' in process.env, process.emitWarning.length);
console.log(Object.getOwnPropertyDescriptor(Math, 'random'), process.report.excludeNetwork, process.hasUncaughtExceptionCaptureCallback(), process.sourceMapsEnabled, process.noDeprecation);
`

// TestPreloadedNodeSemantics: a program does in a Node that waited what it does in one that was started for it.
func TestPreloadedNodeSemantics(t *testing.T) {
	t.Parallel()
	with := func(source string, options ...func(*sandbox.Program)) sandbox.Program {
		return node(t, source, append([]func(*sandbox.Program){limits(job.Limits{WallMS: 60_000, CPUMS: 60_000})}, options...)...)
	}
	programs := map[string]sandbox.Program{
		"state":              with(nodeState),
		"state, told more":   with(nodeState, stdin("in"), env("MINE", "ä\n=x"), env("EMPTY", ""), arguments("a", "--b")),
		"arguments":          with("console.log(process.argv)", arguments("-e", "ä b", "", "--", "$HOME", "--require=x")),
		"stdin":              with("const b = require('fs').readFileSync(0); console.log(b, require('fs').readFileSync(0).length, require('fs').readFileSync('/dev/stdin', 'utf8'))", stdin("a\r\nb\x00\xff")),
		"stdin by stream":    with("process.stdin.on('data', (d) => console.log(d)).on('end', () => console.log('end'))", stdin("abc\n")),
		"stdin by lines":     with("(async () => { for await (const l of require('readline').createInterface({ input: process.stdin })) console.log([l]); })()", stdin("a\r\nb\n\nc")),
		"no stdin":           with("console.log(require('fs').readFileSync(0)); process.stdin.on('end', () => console.log('end')).resume()"),
		"exit code":          with("console.log('x'); process.on('exit', (c) => console.log('exit', c)); process.exitCode = 7"),
		"exit at once":       with("console.log('x'); process.exit(3); console.log('never')"),
		"error":              with("function f() {\n  throw new TypeError('so be ä', { cause: new Error('c') });\n}\nf();\n"),
		"no error":           with("throw { a: 1 }"),
		"late error":         with("setTimeout(() => { null.x; }, 10)"),
		"syntax":             with("let x = ;\n"),
		"rejection":          with("Promise.reject(new Error('r'))"),
		"rejection handled":  with("process.on('unhandledRejection', (e) => console.log('handled', e.message)); Promise.reject(new Error('r'))"),
		"uncaught handled":   with("process.on('uncaughtException', (e, o) => console.log(o, e.message)); throw new Error('u')"),
		"no such module":     with("require('nowhere')"),
		"own module":         with("console.log(require('./lib'), require('./data.json'), require.resolve('./lib'), Object.keys(require.cache).filter((k) => k.startsWith('/work')))", files("lib.js", "exports.main = require.main.filename; exports.id = module.id;", "data.json", "{\"k\": 1}")),
		"own lodash":         with("console.log(require('lodash'), require('mathjs').add)", files("node_modules/lodash/index.js", "module.exports = 'mine';")),
		"own package":        with("console.log(import.meta.url); import m from './m.js'; console.log(m)", files("package.json", "{\"type\": \"module\"}", "m.js", "export default 1")),
		"module":             with("import fs, { readFileSync } from 'fs';\nimport path from 'node:path';\nconsole.log(typeof readFileSync, import.meta.filename, import.meta.dirname, typeof require, this);\nconst x = await Promise.resolve(4); console.log(x);"),
		"module error":       with("import fs from 'fs';\nfunction f() {\n  throw new Error('m');\n}\nf();\n"),
		"module of nowhere":  with("import x from 'nowhere';"),
		"unsettled":          with("import 'fs'; await new Promise(() => {})"),
		"libraries imported": with("import _ from 'lodash'; import dayjs from 'dayjs'; import { evaluate } from 'mathjs'; console.log(_.chunk([1, 2, 3], 2), dayjs(0).year(), evaluate('2 + 3i'))"),
		"libraries":          with("const _ = require('lodash'), d = require('dayjs'), m = require('mathjs'); console.log(_.chunk([1, 2, 3], 2), d('2020-01-02').add(1, 'month').format(), m.evaluate('det([1, 2; 3, 4])').toFixed(3), m.config(), m.create(m.all, { randomSeed: 'a' }).random(), _.runInContext === undefined, require('mathjs').random() < 1)"),
		"a seed of its own":  with("const { create, all } = require('mathjs'); const m = create(all); m.config({ randomSeed: 'x' }); console.log(m.random(), m.random())"),
		"timers":             with("const t = performance.now(); setTimeout(() => console.log(performance.now() - t > 4990), 5000); setImmediate(() => { console.log('immediate'); setTimeout(() => console.log('first'), 1); }); process.nextTick(() => console.log('tick')); Promise.resolve().then(() => console.log('promise'))"),
		"child":              with("const c = require('child_process'); console.log(c.execFileSync(process.execPath, ['-p', '[process.argv, process.execArgv, Object.entries(process.env).sort(), Object.keys(require.cache)]']).toString()); console.log(c.spawnSync('sh', ['-c', 'env | sort; cat; exit 4'], { input: 'in' }).status)"),
		"forked":             with("if (process.send) { process.on('message', (m) => { console.log(m, process.execArgv); process.exit(2); }); } else { const c = require('child_process').fork(__filename); c.send('hi'); c.on('exit', (e) => console.log('exit', e)); }"),
		"worker":             with("const { Worker, isMainThread, workerData, parentPort } = require('worker_threads'); if (isMainThread) { new Worker(__filename, { workerData: 5 }).on('message', (m) => console.log(m)).on('exit', (c) => console.log('exit', c)); } else { parentPort.postMessage([workerData, process.argv, process.execArgv, Object.keys(require.cache), Object.entries(process.env).sort(), require('mathjs').add(1, 2)]); }"),
		"worker's error":     with("const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) new Worker(__filename).on('error', (e) => console.log(e.message)); else throw new Error('w')"),
		"thread that waits":  with("const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) { process.env.GLOVEBOX_PRELOAD = '0'; new Worker(__filename).on('error', (e) => console.log(e.message)).on('exit', (c) => console.log('exit', c)); } else console.log('thread', process.env.GLOVEBOX_PRELOAD, process._preload_modules)"),
		"traces":             with("console.log(process._preload_modules, Object.values(require('module')._pathCache).filter((f) => f.includes('glovebox')), require('fs').readFileSync('/proc/self/fdinfo/0', 'utf8').split('\\n')[1])", stdin("in")),
		"context":            with("const vm = require('vm'); console.log(vm.runInNewContext('x + 1', { x: 1 }), vm.runInThisContext('typeof require'))"),
		"pool":               with("const c = require('crypto'), fs = require('fs'); c.pbkdf2('a', 'b', 10, 8, 'sha1', (e, k) => console.log(k.toString('hex'))); console.log(c.createHash('md5').update('x').digest('hex')); fs.promises.writeFile('out.txt', 'x').then(() => console.log('written'))"),
		"signal":             with("console.log('x'); process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000)"),
		"signal handled":     with("process.on('SIGUSR2', (s) => { console.log(s); clearInterval(i); }); const i = setInterval(() => {}, 1000); process.kill(process.pid, 'SIGUSR2')"),
		"abort":              with("process.removeAllListeners(); process.kill(process.pid, 'SIGABRT'); setInterval(() => {}, 1000)"),
		"interrupted":        with("process.kill(process.pid, 'SIGINT'); setInterval(() => {}, 1000)"),
		"time":               with("console.log('x'); for (;;);", limits(job.Limits{WallMS: 12_000})),
		"memory":             with("const all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1))"),
		"memory that fits":   with("const b = Buffer.alloc(150 << 20, 1); console.log(b.length)"),
		"warnings":           with("process.emitWarning('w'); new Buffer(1); console.error('e'); console.warn('%s %d', 'a', 1)"),
		"recursion":          with("(function f() { f(); })()"),
		"much output":        with("for (let i = 0; i < 5000; i++) console.log('line', i)"),
		"WebAssembly":        with("WebAssembly.instantiate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).then((m) => console.log(Object.keys(m)))"),
		"generators kept":    with("Math.random = () => 0.5; console.log(Math.random(), require('lodash').random(0, 10) <= 10, require('crypto').randomBytes(4).length, require('crypto').randomUUID().length)"),
	}
	sameWherePreloaded(t, preloadedNode(t, fromSnapshots+"node-semantics"), programs, namesInShort(1, 4, programs))
}

// TestPreloadedNodeRefuses: a program that the Node that waits can't be gets one of its own.
func TestPreloadedNodeRefuses(t *testing.T) {
	t.Parallel()
	p := preloadedNode(t, fromSnapshots+"node-refuses")
	refusesPrograms(t, p, nodeRuntime(t), "console.log(process.env.NODE_OPTIONS, new Date(0).toString())", map[string]refused{
		"another time zone": {env("TZ", "Asia/Tokyo"), "undefined Thu Jan 01 1970 09:00:00"},
		"options of Node's": {env("NODE_OPTIONS", "--no-warnings"), "--no-warnings Thu Jan 01 1970 00:00:00"},
		"another home":      {env("HOME", "/work"), "undefined Thu Jan 01 1970 00:00:00"},
	})
}

// TestPreloadedNodeIsFresh: what is drawn at random differs between two that go on from one snapshot, timers begin
// as the program does, and the rest is what runtimes/README.md says.
func TestPreloadedNodeIsFresh(t *testing.T) {
	t.Parallel()
	p := preloadedNode(t, fromSnapshots+"node-fresh")
	const source = `
const crypto = require('crypto'), fs = require('fs'), vm = require('vm'), { Worker } = require('worker_threads');
const began = Date.now();
const differ = {
  random: Math.random(), next: Math.random(), lodash: require('lodash').random(0, 1, true), mathjs: require('mathjs').random(), created: require('mathjs').create(require('mathjs').all).random(),
  bytes: crypto.randomBytes(8).toString('hex'), int: crypto.randomInt(2 ** 40), uuid: crypto.randomUUID(), values: crypto.getRandomValues(new Uint32Array(2)).join(),
  key: crypto.generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }).toString('hex'), file: fs.mkdtempSync('/tmp/x'), decimal: require('decimal.js').random().toString(),
};
const context = vm.runInNewContext('Math.random()');
new Worker("require('worker_threads').parentPort.postMessage([Math.random(), require('crypto').randomBytes(8).toString('hex')])", { eval: true }).on('message', ([random, bytes]) => {
  differ.worker = random; differ["worker's bytes"] = bytes;
  setTimeout(() => console.log(JSON.stringify({ differ, context, time: began, slept: Date.now() - began, uptime: process.uptime() })), 200);
});
`
	type said struct {
		Differ  map[string]any
		Context float64
		Time    float64
		Slept   float64
		Uptime  float64
	}
	get := func() (s said) {
		awaitPreloadedOf(t, p, nodeRuntime(t).Image())
		sink := &kept{}
		o, err := p.Run(t.Context(), node(t, source), sink)
		if err != nil || o.Status != job.Succeeded || !o.Preloaded || o.Snapshot == "" {
			t.Fatalf("got %+v, %v: %s", o, err, sink.stderr.String())
		}
		if err := json.Unmarshal(sink.stdout.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if held := o.Usage.MemoryPeakBytes >> 20; held < 50 {
			t.Errorf("it held %d MiB at most, want what was preloaded among it", held)
		}
		t.Logf("held %d MiB", o.Usage.MemoryPeakBytes>>20)
		if s.Slept < 190 {
			t.Errorf("a timer of 200 ms was over after %v", s.Slept)
		}
		return s
	}
	one, two := get(), get()
	for what, value := range one.Differ {
		if fmt.Sprint(value) == fmt.Sprint(two.Differ[what]) {
			t.Errorf("%s: %v in two sandboxes of one snapshot", what, value)
		}
	}
	if one.Differ["random"] == one.Differ["worker"] {
		t.Error("a thread has the program's random numbers")
	}
	if one.Context != two.Context {
		t.Error("contexts have a seed each: docs/security.md says that they share one")
	}
}
