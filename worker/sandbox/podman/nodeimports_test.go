package podman_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestNodeImports: import statements and import() do in a session what they do in a module, and leave what is text as it is.
func TestNodeImports(t *testing.T) {
	t.Parallel()
	failed := func(stderr string) want { return want{status: job.Failed, code: 1, stderr: stderr} }
	cells := []struct {
		code string
		want want
	}{
		{"import _ from 'lodash'", want{}},
		{"_.sum([1, 2])", want{stdout: "3\n"}},
		{"import _ from 'lodash'; _.chunk([1, 2, 3], 2)", want{stdout: "[ [ 1, 2 ], [ 3 ] ]\n"}},
		{"import { readFileSync, existsSync as exists } from 'node:fs'\nexists('/work') && typeof readFileSync", want{stdout: "'function'\n"}},
		{"import * as path from 'path';\npath.basename('/a/b')", want{stdout: "'b'\n"}},
		{"import url, * as all from 'url'; import {default as same} from 'url'; [url === same, all.default === url]", want{stdout: "[ true, true ]\n"}},
		{"import 'fs'", want{}},
		{"import {} from 'fs'", want{}},
		{"import fs, {\n  promises, // a comment\n  'readFile' as read\n} from 'fs';\nthrow new Error(typeof read + typeof promises)", failed("<anonymous>:5:7")},
		{"used('a,b')\nimport {parse} from 'node:querystring'\nfunction used(s) { return parse(s) }", want{stdout: "[Object: null prototype] { 'a,b': '' }\n"}},
		{"const m = await import('lodash'); m.default === _", want{stdout: "true\n"}},
		{"import('lodash').then(({ default: l }) => l.max([4, 5]))", want{stdout: "5\n"}},
		{"const load = (name) => import(/* by name */ name)", want{}},
		{"(await load('path')).sep", want{stdout: "'/'\n"}},
		{"const Import = 1, o = { import: 2 }; [Import, o.import, 'import(\"x\")', `import y from ${o.import}`, /import('x')/.source, 8 / 2 / 1]", want{
			stdout: "[ 1, 2, 'import(\"x\")', 'import y from 2', \"import('x')\", 4 ]\n",
		}},
		{"`\nimport a from 'b'\n`.length", want{stdout: "19\n"}},
		{"require('fs').writeFileSync('lib.mjs', 'export const n = 7; export default (x) => x * n; export class A {}')", want{}},
		{"import times, { n, A } from './lib.mjs'; [times(2), n, new A()]", want{stdout: "[ 14, 7, A {} ]\n"}},
		{"n = 8", failed("TypeError: Assignment to constant variable")},
		{"require('fs').writeFileSync('data.json', '{\"k\": 1}')", want{}},
		{"import data from './data.json' with { type: 'json' }; data.k", want{stdout: "1\n"}},
		{"(await import('./data.json', { with: { type: 'json' } })).default", want{stdout: "{ k: 1 }\n"}},
		{"import { nothing } from './lib.mjs'", failed("SyntaxError: The requested module './lib.mjs' does not provide an export named 'nothing'")},
		{"import x from 'no-such-package'", failed("Cannot find package 'no-such-package'")},
		{"await import('./none.mjs')", failed("Cannot find module '/work/none.mjs'")},
		{"import x from", failed("SyntaxError")},
		{"if (true) { import x from 'fs' }", failed("SyntaxError")},
		{"'use strict'; import os from 'os'; typeof os.cpus; (function () { return this })()", want{}},
		{"5\nimport os2 from 'os'", want{stdout: "5\n"}},
	}
	for _, runtime := range []string{"node", "typescript"} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			var todo []step
			var wanted []want
			for _, c := range cells {
				todo, wanted = append(todo, step{code: c.code}), append(wanted, c.want)
			}
			if runtime == "typescript" {
				todo = append(todo,
					step{code: "require('fs').writeFileSync('lib.ts', 'export type T = number; export const t: T = 3')"},
					step{code: "import { type T, t } from './lib.ts'\nimport type { T as U } from './lib.ts'\nconst u: U = t; u + 1"},
					step{code: "import { t as kept } from './lib.ts'; enum E { a = kept }; E.a"},
				)
				wanted = append(wanted, want{}, want{stdout: "4\n"}, want{stdout: "3\n"})
			}
			todo = append(todo,
				step{code: "require('fs').writeFileSync('waits.mjs', 'console.log(\"begun\"); await new Promise(() => setTimeout(() => {}, 1e6))')"},
				step{code: "import './waits.mjs'", interruptAt: "begun"}, step{code: "_.sum([3, 4])"},
			)
			wanted = append(wanted, want{}, want{stdout: "begun\n", status: job.Canceled, code: 130}, want{stdout: "7\n"})
			check(t, turns(t, sessionOf(t, runtime), todo...), wanted...)
		})
	}
}
