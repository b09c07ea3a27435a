package podman_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestPreloadedTypeScript: a program does in a Node that waited, with what takes types out loaded, what it does in one that was started for it.
func TestPreloadedTypeScript(t *testing.T) {
	t.Parallel()
	open(t)
	of := preloadingRuntime(t, "typescript")
	with := func(source string, options ...func(*sandbox.Program)) sandbox.Program {
		return programIn(of, source, append([]func(*sandbox.Program){limits(job.Limits{WallMS: 60_000, CPUMS: 60_000})}, options...)...)
	}
	const ask = "const m = require('module'), util = require('util');\n"
	programs := map[string]sandbox.Program{
		"state":          with(nodeState, stdin("in"), env("MINE", "ä\n=x"), arguments("a", "--b")),
		"types":          with("interface P { x: number }\ntype Q<T> = T extends string ? 1 : 2;\nconst p: P = { x: 1 } satisfies P;\nfunction f<T>(this: void, a: T, b?: T): a is T { return b! === undefined }\nconsole.log(f<P>(p), <number>p.x, (p as any).y)"),
		"not only types": with("enum A { B = 3, C }\nconst enum D { E = 'e' }\nnamespace N { export const x = A.C; export namespace M { export enum Y { Z } } }\nclass P { constructor(private readonly a: number, public b = 2) {} sum() { return this.a + this.b } }\nconsole.log(A, D.E, N.x, N.M.Y.Z, new P(3), new P(3).sum())"),
		"an alias":       with("import fs = require('fs');\nimport type { Stats } from 'fs';\nconsole.log(typeof fs.readFileSync)"),
		"a module":       with("import path, { type ParsedPath } from 'node:path';\nimport type { Stats } from 'node:fs';\nconst p: ParsedPath = path.parse('/a/b.ts');\nconsole.log(p, typeof require, import.meta.filename, await Promise.resolve(4))"),
		"modules of its own": with("import { t, E } from './lib.ts';\nimport { c } from './common.cts';\nimport m from './mod.mts';\nconsole.log(t, E.X, c, m)",
			files("lib.ts", "export const t: number = 3;\nexport enum E { X = 9 }", "common.cts", "const c: string = __filename;\nmodule.exports = { c };", "mod.mts", "export default import.meta.url as string;")),
		"required":             with("const { t } = require('./lib.ts');\nconsole.log(t, Object.keys(require.cache), module.id, require.main === module)", files("lib.ts", "const t: number = 3; module.exports = { t };")),
		"JavaScript":           with("const f = require('./lib.js');\nconsole.log(f(2))", files("lib.js", "module.exports = (a) => a * 2;")),
		"JSON":                 with("import d from './data.json' with { type: 'json' };\nconsole.log(d)", files("data.json", "{\"k\": 1}")),
		"in packages":          with("try { require('p') } catch (e: any) { console.log(e.code, e.message) }", files("node_modules/p/index.ts", "export const a: number = 1", "node_modules/p/package.json", "{\"main\": \"index.ts\"}")),
		"libraries":            with("import _ from 'lodash';\nimport { evaluate } from 'mathjs';\nimport dayjs from 'dayjs';\nconsole.log(_.sum([1, 2]), String(evaluate('2 + 3i')), dayjs(0).year())"),
		"an error":             with("interface A {\n  x: number\n}\n\nenum E { A }\n\nfunction fails(a: A): never {\n  throw new TypeError('so be ä', { cause: a });\n}\nfails({ x: E.A });\n"),
		"an error later":       with("enum E { A, B }\nsetTimeout((): void => { (null as any).x }, 10)"),
		"a rejection":          with("enum E {\n  A\n}\nasync function f(): Promise<void> { throw new Error('r') }\nawait f()"),
		"an error of a module": with("import { f } from './lib.ts';\nf(1)", files("lib.ts", "type N = number\nenum E {\n  A\n}\nexport function f(n: N) {\n\n  throw new Error(String(n + E.A))\n}\n")),
		"no TypeScript":        with("const x: = 3\n"),
		"no JavaScript":        with("type A = 1;\nlet x: number = ;\n"),
		"what can't be":        with("@deco\nclass A {}\nfunction deco(c: any) { console.log('decorated') }"),
		"an old cast":          with("const a = <any>3;\nconsole.log(a)"),
		"an old namespace":     with("module Old { export const x = 1 }\nconsole.log(Old.x)"),
		"empty":                with(""),
		"no text":              with("\xff\xfe\x00"),
		"long":                 with("type T = { a: number };\n" + strings.Repeat("enum E { A, B }\nfunction f<T>(x: T): T { return x }\n", 3000) + "console.log(E.B, f<number>(1))"),
		"asked for":            with(ask + "console.log(m.stripTypeScriptTypes('const a: number = 1'), m.stripTypeScriptTypes('enum A { B }', { mode: 'transform', sourceMap: true, sourceUrl: 'x.ts' }))"),
		"asked in vain":        with(ask + "for (const s of ['enum A {}', 'let x: = 1', '@d class A {}']) try { console.log(m.stripTypeScriptTypes(s)) } catch (e: any) { console.log(e.code, e.name, e.message) }"),
		"maps":                 with(ask + "enum E { A }\nconst map = m.findSourceMap(__filename);\nconsole.log(map?.payload, map?.findEntry(4, 0), process.sourceMapsEnabled, Error.prepareStackTrace, process.features)"),
		"evaluated":            with("const { execFileSync } = require('child_process');\nconsole.log(execFileSync(process.execPath, ['--experimental-strip-types', '--no-warnings', '-e', 'const a: number = 1; console.log(a, process.execArgv)']).toString())"),
		"a child":              with("import { fork } from 'node:child_process';\nif (process.send) process.send(process.execArgv as any); else fork(import.meta.filename).on('message', (m: string[]) => console.log(m))"),
		"a thread":             with("import { Worker, isMainThread, parentPort } from 'node:worker_threads';\nenum E { A = 5 }\nif (isMainThread) new Worker(import.meta.filename).on('message', (m: number) => console.log(m)); else parentPort!.postMessage(E.A)"),
		"a thread that waits":  with("const { Worker, isMainThread } = require('worker_threads'); if (isMainThread) { process.env.GLOVEBOX_PRELOAD = '0'; new Worker(__filename).on('error', (e: Error) => console.log(e.message)).on('exit', (c: number) => console.log('exit', c)); } else console.log('thread', process.env.GLOVEBOX_PRELOAD, (process as any)._preload_modules)"),
		"traces":               with("console.log((process as any)._preload_modules, Object.values((require('module') as any)._pathCache), require('fs').readFileSync('/proc/self/fdinfo/0', 'utf8').split('\\n')[1])", stdin("in")),
		"async ids":            with("const { executionAsyncId, createHook } = require('async_hooks'); const seen: string[] = []; createHook({ init(id: number, type: string) { seen.push(type + id); } }).enable(); setTimeout(() => console.log(executionAsyncId(), seen), 1)"),
		"stdin":                with("process.stdin.on('data', (d: Buffer) => console.log(d.toString()))", stdin("abc\n")),
		"exit code":            with("process.exitCode = 7 as number"),
		"a warning":            with("process.emitWarning('w' as string); process.emitWarning('e', 'ExperimentalWarning')"),
		"warnings heard":       with("process.on('warning', (w: Error) => console.log(w.name, w.message));\nenum E { A }\nsetTimeout(() => console.log('end'), 10)"),
		"memory":               with("const all: Buffer[] = []; for (;;) all.push(Buffer.alloc(16 << 20, 1))"),
		"WebAssembly":          with("const mine: any = await WebAssembly.instantiate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0, 5, 3, 1, 0, 1, 7, 5, 1, 1, 109, 2, 0]));\nconsole.log(Object.keys(mine.instance.exports), mine.instance.exports.m.buffer.byteLength)"),
	}
	sameWherePreloaded(t, waitingFor(t, of, "typescript-semantics"), programs, namesInShort(1, 4, programs))
}

// TestPreloadedTypeScriptRefuses: what Node read of the environment can't be another value.
func TestPreloadedTypeScriptRefuses(t *testing.T) {
	t.Parallel()
	open(t)
	of := preloadingRuntime(t, "typescript")
	refusesPrograms(t, waitingFor(t, of, "typescript-refuses"), of, "enum E { A = 4 }\nconsole.log(E.A, process.env.NODE_OPTIONS)", map[string]refused{
		"options of Node's":     {env("NODE_OPTIONS", "--no-warnings"), "4 --no-warnings"},
		"a time zone":           {env("TZ", "Asia/Tokyo"), "4 undefined"},
		"an option that fails":  {env("NODE_OPTIONS", "--no-such-option"), ""},
		"a variable of Node's":  {env("NODE_DEBUG", "module"), "4 undefined"},
		"no experimental types": {env("NODE_OPTIONS", "--no-experimental-transform-types"), "4 --no-exp"},
	})
}

// TestPreloadedTypeScriptIsFresh: what is drawn at random differs between two that go on from one snapshot.
func TestPreloadedTypeScriptIsFresh(t *testing.T) {
	t.Parallel()
	open(t)
	of := preloadingRuntime(t, "typescript")
	drawsAnew(t, waitingFor(t, of, "typescript-fresh"), of, `
import crypto from 'node:crypto';
import { Worker } from 'node:worker_threads';
const differ: Record<string, string> = { random: String(Math.random()), bytes: crypto.randomBytes(8).toString('hex'), int: String(crypto.randomInt(2 ** 40)), uuid: crypto.randomUUID(), values: crypto.getRandomValues(new Uint32Array(2)).join() };
new Worker("require('worker_threads').parentPort.postMessage(String(Math.random()))", { eval: true }).on('message', (random: string) => console.log(JSON.stringify({ ...differ, thread: random })));
`)
}

// TestPreloadedTypeScriptLoads: what takes types out was loaded before the process became the program's, for which it loads v8.
func TestPreloadedTypeScriptLoads(t *testing.T) {
	t.Parallel()
	open(t)
	of := preloadingRuntime(t, "typescript")
	p := waitingFor(t, of, "typescript-loads")
	awaitPreloadedOf(t, p, of.Image())
	sink := &kept{}
	o, err := p.Run(t.Context(), programIn(of, "const list: string[] = (process as any).moduleLoadList;\nconsole.log(list.findIndex((name) => name.includes('amaro')) < list.indexOf('NativeModule v8'))"), sink)
	if err != nil || !o.Preloaded || sink.stdout.String() != "true\n" {
		t.Errorf("got %+v, %v, %q%s", o, err, sink.stdout.String(), sink.stderr.String())
	}
}
