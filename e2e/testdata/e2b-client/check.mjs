// Does by E2B's SDK what its users do, and ends with exit code 1 at the first thing that is not so. E2B_API_URL, E2B_SANDBOX_URL and
// E2B_API_KEY are set; with E2B_DEBUG there is no API.
import assert from "node:assert/strict";
import { CommandExitError, FileNotFoundError, NotFoundError, Sandbox, TimeoutError } from "@e2b/code-interpreter";

const steps = {
  async lifecycle() {
    const sandbox = await Sandbox.create({ metadata: { user: "ann & bob" }, envs: { COLOUR: "blue" }, timeoutMs: 600_000 });
    assert.equal(await sandbox.isRunning(), true);
    const info = await sandbox.getInfo();
    assert.deepEqual(info.metadata, { user: "ann & bob" });
    assert.equal(info.state, "running");
    assert.equal(Math.round((info.endAt - info.startedAt) / 1000), 600);
    const ids = async (query) => {
      const all = [];
      for (const pages = Sandbox.list({ query, limit: 1 }); pages.hasNext; ) all.push(...(await pages.nextItems()));
      return all.map((s) => s.sandboxId);
    };
    assert.deepEqual(await ids({ metadata: { user: "ann & bob" } }), [sandbox.sandboxId]);
    assert.deepEqual(await ids({ metadata: { user: "carl" } }), []);
    await sandbox.setTimeout(900_000);
    assert.ok((await sandbox.getInfo()).endAt > info.endAt);
    const again = await Sandbox.connect(sandbox.sandboxId);
    assert.equal((await again.runCode("import os\nprint(os.environ['COLOUR'])")).logs.stdout.join(""), "blue\n");
    await assert.rejects(sandbox.pause(), /can't be paused/);
    await assert.rejects(sandbox.setTimeout(86_400_000), /5400/);
    assert.equal(await sandbox.kill(), true);
    assert.equal(await sandbox.isRunning(), false);
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false);
    await assert.rejects(Sandbox.getInfo(sandbox.sandboxId), NotFoundError);
    await assert.rejects(sandbox.runCode("1"), TimeoutError);
    const online = await Sandbox.create({ allowInternetAccess: true }); // as it is by default in Python; there is no network
    assert.equal((await online.runCode("1 + 1")).text, "2");
    await online.kill();
    await assert.rejects(Sandbox.create("no-such-template"), /not found/);
  },

  async code(sandbox) {
    const seen = [];
    const ran = await sandbox.runCode("import sys\nx = 41\nprint('out')\nprint('err', file=sys.stderr)\nx + 1", {
      onStdout: (m) => seen.push(["out", m.line]),
      onStderr: (m) => seen.push(["err", m.line]),
      onResult: (r) => seen.push(["result", r.text]),
    });
    assert.equal(ran.text, "42");
    assert.equal(ran.logs.stdout.join(""), "out\n");
    assert.equal(ran.logs.stderr.join(""), "err\n");
    assert.equal(ran.error, undefined);
    assert.ok(ran.executionCount >= 1);
    assert.deepEqual(seen.sort(), [["err", "err\n"], ["out", "out\n"], ["result", "42"]]);
    assert.equal((await sandbox.runCode("x")).text, "41");
    assert.equal((await sandbox.runCode("    if x:\n        x = 5\n    x")).text, "5");
    assert.equal((await sandbox.runCode("'as it is'")).text, "as it is");
  },

  async streams(sandbox) {
    let told;
    const first = new Promise((resolve) => (told = resolve));
    const running = sandbox.runCode("import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('ended')", { onStdout: (m) => told(m.line) });
    assert.equal(await first, "begun\n"); // while it runs
    running.catch(() => {});
    const other = sandbox.runCode("1", { requestTimeoutMs: 120_000 }); // waits for its turn
    await assert.rejects(sandbox.runCode("while True: pass", { timeoutMs: 500 }), TimeoutError);
    void other.catch(() => {});
    return "left";
  },

  async error(sandbox) {
    const failed = await sandbox.runCode("def divide():\n    return 1 / 0\ndivide()");
    assert.equal(failed.error.name, "ZeroDivisionError");
    assert.equal(failed.error.value, "division by zero");
    assert.match(failed.error.traceback, /divide/);
    assert.deepEqual(failed.logs.stderr, []);
    assert.equal((await sandbox.runCode("import sys\nsys.exit(3)")).error.name, "SystemExit");
  },

  async interrupt(sandbox) {
    await sandbox.runCode("kept = 'kept'");
    await assert.rejects(sandbox.runCode("while True: pass", { timeoutMs: 1000 }), TimeoutError);
    assert.equal((await sandbox.runCode("kept")).text, "kept");
  },

  async shown(sandbox) {
    const frame = await sandbox.runCode("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})");
    assert.deepEqual(frame.results[0].data, { a: [1, 2], b: ["x", "y"] });
    assert.match(frame.results[0].html, /<table/);
    const plot = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [3, 4])\nplt.title('Bars')\nplt.ylabel('height')\nplt.show()");
    const shown = plot.results.find((r) => r.png);
    assert.equal(Buffer.from(shown.png, "base64").subarray(1, 4).toString(), "PNG");
    assert.equal(shown.chart.type, "bar");
    assert.equal(shown.chart.title, "Bars");
    assert.deepEqual(shown.chart.elements.map((e) => [e.label, e.value]), [["a", 3], ["b", 4]]);
  },

  async environment(sandbox) {
    const shows = "import os\nos.environ.get('ONLY', 'none')";
    assert.equal((await sandbox.runCode(shows, { envs: { ONLY: "once" } })).text, "once");
    assert.equal((await sandbox.runCode(shows)).text, "none");
  },

  async contexts(sandbox) {
    const context = await sandbox.createCodeContext({ language: "python", cwd: "/home/user/apart" });
    assert.equal(context.language, "python");
    assert.equal(context.cwd, "/home/user/apart");
    await sandbox.runCode("x = 'outside'");
    await sandbox.runCode("x = 'inside'", { context });
    assert.equal((await sandbox.runCode("x")).text, "outside");
    assert.equal((await sandbox.runCode("import os\nx + ' ' + os.path.basename(os.getcwd())", { context })).text, "inside apart");
    assert.equal((await sandbox.runCode("const js = [1, 2]; js.map((n) => n * 2).join()", { language: "javascript" })).text, "2,4");
    assert.equal((await sandbox.runCode("js.length", { language: "js" })).text, "2");
    assert.equal((await sandbox.runCode("const n: number = 20; interface Two { two: 2 }; n + ({ two: 2 } satisfies Two).two", { language: "ts" })).text, "22");
    assert.equal((await sandbox.runCode("process.env.ONE as string", { language: "typescript", envs: { ONE: "one" } })).text, "one");
    const listed = await sandbox.listCodeContexts();
    assert.ok(listed.some((c) => c.id === context.id && c.cwd === context.cwd));
    assert.deepEqual(listed.slice(0, 2).map((c) => c.language), ["python", "javascript"]);
    await sandbox.restartCodeContext(context);
    assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
    assert.equal((await sandbox.runCode("x")).text, "outside");
    await sandbox.removeCodeContext(context);
    await assert.rejects(sandbox.runCode("1", { context }), NotFoundError);
    await assert.rejects(sandbox.removeCodeContext("nobodys"), NotFoundError);
  },

  async files(sandbox) {
    const info = await sandbox.files.write("data/in.txt", "two\nlines ü");
    assert.equal(info.path, "/home/user/data/in.txt");
    assert.equal(await sandbox.files.read("/home/user/data/in.txt"), "two\nlines ü");
    assert.equal((await sandbox.runCode("open('data/in.txt').read()")).text, "two\\nlines ü");
    const bytes = new Uint8Array(200_000).map((_, i) => i * 31);
    await sandbox.files.write("bytes.bin", bytes.buffer);
    assert.deepEqual(await sandbox.files.read("bytes.bin", { format: "bytes" }), bytes);
    await sandbox.files.write([{ path: "a.txt", data: "a" }, { path: "/tmp/below/b.txt", data: "b" }]);
    assert.equal(await sandbox.files.read("a.txt"), "a");
    assert.equal(await sandbox.files.read("/tmp/below/b.txt"), "b");
    await sandbox.files.write("zipped.txt", "z".repeat(10_000), { gzip: true });
    assert.equal((await sandbox.files.read("zipped.txt")).length, 10_000);
    await sandbox.files.write("empty", "");
    assert.equal(await sandbox.files.read("empty"), "");
    await assert.rejects(sandbox.files.read("nothing"), FileNotFoundError);
    await assert.rejects(sandbox.files.list("nothing"), FileNotFoundError);
    assert.deepEqual((await sandbox.files.list("data")).map((e) => [e.name, e.type, e.path, e.size]), [["in.txt", "file", "/home/user/data/in.txt", 12]]);
    assert.ok((await sandbox.files.list("/home/user", { depth: 2 })).some((e) => e.path === "/home/user/data/in.txt"));
    assert.equal(await sandbox.files.makeDir("new/dir"), true);
    assert.equal(await sandbox.files.makeDir("new/dir"), false);
    assert.equal((await sandbox.files.rename("a.txt", "new/c.txt")).path, "/home/user/new/c.txt");
    assert.equal(await sandbox.files.exists("a.txt"), false);
    assert.equal((await sandbox.files.getInfo("new/c.txt")).type, "file");
    assert.equal((await sandbox.files.rename("new/c.txt", "/tmp/c.txt")).path, "/tmp/c.txt"); // another file system
    assert.equal(await sandbox.files.read("/tmp/c.txt"), "a");
    await assert.rejects(sandbox.files.rename("data", "/tmp/below"), /already exists/);
    await sandbox.files.rename("/tmp/c.txt", "new/c.txt");
    await sandbox.files.remove("new");
    assert.equal(await sandbox.files.exists("new/c.txt"), false);
    await assert.rejects(sandbox.files.watchDir("data", () => {}), /is not there/);
    // What a program prints that was left running is never taken for a file's content.
    await sandbox.commands.run("while :; do for i in {1..200}; do :; done; echo tick; done & echo $! >pid");
    const refused = async (read, content) => {
      for (let n = 0; n < 200; n++) {
        let got;
        try { got = await read(); } catch (e) { assert.match(e.message, /left running/); return; }
        assert.deepEqual(got, content); // it printed nothing meanwhile
      }
      assert.fail("was never refused");
    };
    await refused(() => sandbox.files.read("data/in.txt"), "two\nlines ü");
    await refused(() => sandbox.files.read("bytes.bin", { format: "bytes" }), bytes);
    await refused(async () => (await sandbox.files.list("data")).map((e) => e.name), ["in.txt"]);
    await sandbox.commands.run("kill $(cat pid)");
    assert.equal(await sandbox.files.read("data/in.txt"), "two\nlines ü");
  },

  async commands(sandbox) {
    const seen = [];
    const ran = await sandbox.commands.run("echo $GREETING; pwd -P; echo bad >&2; printf '\\377'", { envs: { GREETING: "hi" }, onStdout: (s) => seen.push(s) });
    assert.equal(ran.exitCode, 0);
    assert.equal(ran.stdout, "hi\n/work\n\uFFFD");
    assert.equal(ran.stderr, "bad\n");
    assert.equal(seen.join(""), ran.stdout);
    await assert.rejects(sandbox.commands.run("echo out; exit 3"), (e) => e instanceof CommandExitError && e.exitCode === 3 && e.stdout === "out\n");
    await assert.rejects(sandbox.commands.run("sleep 1000", { timeoutMs: 1000 }), TimeoutError);
    const running = await sandbox.commands.run("echo begun; sleep 1000", { background: true, timeoutMs: 0 });
    assert.ok((await sandbox.commands.list()).some((p) => p.pid === running.pid));
    assert.equal(await running.kill(), true);
    await assert.rejects(running.wait(), CommandExitError);
    assert.equal(await sandbox.commands.kill(running.pid), false);
    await assert.rejects(sandbox.commands.run("cat", { stdin: true }), /written/);
    await assert.rejects(sandbox.commands.run("pwd", { cwd: "/nowhere" }), /not a directory/);
  },
};

const wanted = process.argv.slice(2);
for (const name of wanted) {
  const sandbox = name === "lifecycle" ? undefined : await Sandbox.create();
  try {
    await steps[name](sandbox);
  } finally {
    await sandbox?.kill();
  }
  console.log("ok", name);
}
process.exit(0); // the SDK keeps connections
