package podman_test

import (
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestTypeScript: a session of typescript is one of node whose types are taken out. Whether they fit nobody looks.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	failed := func(stderr string) want { return want{status: job.Failed, code: 1, stderr: stderr} }
	lib := []sandbox.File{{Name: "lib.ts", Content: []byte("enum Size { Small = 7 }\nexport const twice = (n: number): number => n * 2 * Size.Small / 7")}}
	play(t, "typescript",
		scene{step{code: "interface A { a: number }\nconst x: A = { a: 20 }; function f<T>(v: T): T { return v }"}, want{}},
		scene{step{code: "f<number>(x.a) as number"}, want{stdout: "20\n"}},
		scene{step{code: "const x: string = 3 as any; x!"}, want{stdout: "3\n"}},
		scene{step{code: "let n: number = 'text'; n"}, want{stdout: "'text'\n"}},
		scene{step{code: "enum E { A, B = 5 }\nnamespace N { export const q = E.B }"}, want{}},
		scene{step{code: "E[5] + N.q"}, want{stdout: "'B5'\n"}},
		scene{step{code: "class P { constructor(private readonly v: number, public w?: string) {} get(): number { return this.v } }"}, want{}},
		scene{step{code: "new P(4).get()"}, want{stdout: "4\n"}},
		scene{step{code: "const wait = async (ms: number): Promise<number> => { await new Promise<void>((r) => setTimeout(r, ms)); return ms }"}, want{}},
		scene{step{code: "await wait(5)"}, want{stdout: "5\n"}},
		scene{step{code: "import type { Stats } from 'fs'\nimport fs = require('fs')\nfs.existsSync('/nosuch') satisfies boolean"}, want{stdout: "false\n"}},
		scene{step{code: "const { twice } = require('./lib.ts'); twice(4)", files: lib}, want{stdout: "8\n"}},
		scene{step{code: "const a: number = 1\nconst b: = 2"}, failed("line 2\nconst a: number = 1\nconst b: = 2\n         ^\n\nSyntaxError")},
		scene{step{code: "function g(v: number): never {\n  throw new TypeError(`no ${v}`)\n}\ng(3 as number)"}, failed("TypeError: no 3")},
		scene{step{code: "import fs2 from 'fs'\nfs2.existsSync('/nosuch') as boolean"}, want{stdout: "false\n"}},
		scene{step{code: "console.log('begun'); while (true) {}", interruptAt: "begun"}, want{stdout: "begun\n", status: job.Canceled, code: 130}},
		scene{step{code: "[x, E.B] as const"}, want{stdout: "[ 3, 5 ]\n"}},
		scene{step{code: "type Only = string"}, want{}},
		scene{step{code: "require('module').stripTypeScriptTypes = () => 'stolen'; SyntaxError = undefined as any; 6"}, want{stdout: "6\n"}},
		scene{step{code: "const last: number = 7; last"}, want{stdout: "7\n"}},
		scene{step{code: "const b: = 2"}, failed("SyntaxError")},
	)
}
