// What the protocol's own clients do with Glovebox's tools, for TestMCPClients and TestMCPCancel:
// node check.mjs PACKAGE REVISION TRANSPORT STEP…
import assert from 'node:assert/strict';
import { createInterface } from 'node:readline/promises';

const [, , name, revision, transportName, step, ...rest] = process.argv;
const { GLOVEBOX_URL, GLOVEBOX_TOKEN, GLOVEBOX } = process.env;

const sdk = name === 'sdk'
  ? {
    ...await import('@modelcontextprotocol/sdk/client/index.js'),
    ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    ...await import('@modelcontextprotocol/sdk/client/stdio.js'),
  }
  : { ...await import('@modelcontextprotocol/client'), ...await import('@modelcontextprotocol/client/stdio') };

const versionNegotiation = { mode: revision === '2025-11-25' ? 'legacy' : { pin: revision } };
const client = new sdk.Client({ name: 'glovebox-test', version: '1' }, name === 'sdk' ? {} : { versionNegotiation });
const transport = transportName === 'http'
  ? new sdk.StreamableHTTPClientTransport(new URL(GLOVEBOX_URL + '/mcp'), { requestInit: { headers: { Authorization: `Bearer ${GLOVEBOX_TOKEN}` } } })
  : new sdk.StdioClientTransport({ command: GLOVEBOX, args: ['mcp'], env: { GLOVEBOX_URL, GLOVEBOX_TOKEN } });
await client.connect(transport);
assert.equal(client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? revision, revision);

// call calls a tool, with whatever time a busy machine needs.
function call(tool, args, options = {}) {
  options = { timeout: 120_000, ...options };
  const params = { name: tool, arguments: args };
  return name === 'sdk' ? client.callTool(params, undefined, options) : client.callTool(params, options);
}

const run = (args, options) => call('run_code', { language: 'python', timeout_ms: 60_000, ...args }, options);
const text = (result) => result.content.find((c) => c.type === 'text').text;

const steps = {
  async tools() {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((t) => t.name), ['end_session', 'get_job', 'list_sessions', 'read_file', 'run_code', 'write_file']);
    assert.ok(tools[4].inputSchema.properties.language.enum.includes('python'));

    const lines = [];
    const chart = await run({
      code: "import matplotlib.pyplot as plt, time\nprint('drawing', flush=True)\ntime.sleep(5)\nplt.plot([1, 4, 9])\nplt.show()\nprint(open('in.txt').read())",
      files: [{ name: 'in.txt', content: 'was read' }],
    }, { onprogress: (p) => lines.push(p.message) });
    assert.match(text(chart), /stdout:\ndrawing\nwas read\n/);
    const image = chart.content.find((c) => c.type === 'image');
    assert.equal(image.mimeType, 'image/png');
    assert.ok(Buffer.from(image.data, 'base64').subarray(1, 4).equals(Buffer.from('PNG')));
    const link = chart.content.find((c) => c.type === 'resource_link');
    assert.equal((await fetch(link.uri)).status, 200);
    assert.ok(lines.includes('drawing'), `progress: ${lines}`);
    assert.equal(chart.structuredContent.status, 'succeeded');
    assert.deepEqual(chart.structuredContent.artifacts.map((a) => a.name), [link.name]);

    const failed = await run({ language: 'bash', code: 'echo no >&2; exit 3' });
    assert.ok(failed.isError);
    assert.match(text(failed), /exit code 3\nstderr:\nno\n/);
    const wrong = await call('run_code', { language: 'python', code: '1', tiemout_ms: 1 });
    assert.ok(wrong.isError);
    assert.match(text(wrong), /tiemout_ms/);
  },

  async session() {
    const session_id = await begin();
    const answer = await call('run_code', { session_id, code: 'x + 1' });
    assert.match(text(answer), /stdout:\n42\n/);
    assert.equal(answer.structuredContent.state, 'kept');
    assert.equal(text(await call('end_session', { session_id })), 'The session has ended.\n');
    assert.ok((await call('run_code', { session_id, code: 'x' })).isError);
  },

  // cancel starts code that never ends, cancels it once it runs, and says when. It goes on when told.
  async cancel() {
    const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    const loop = "print('runs', flush=True)\nwhile True: pass";
    const deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n";
    for (const what of rest) {
      const session_id = what === 'new' ? 'new' : await begin(what);
      const cancelling = new AbortController();
      let runs;
      const running = new Promise((resolve) => { runs = resolve; });
      const answered = run({ code: (what === 'deaf' ? deaf : '') + loop, ...session_id && { session_id } }, { signal: cancelling.signal, onprogress: runs })
        .then((r) => assert.fail(`${what}: it answered ${JSON.stringify(r)}`), (e) => e);
      await Promise.race([running, answered.then((e) => { throw e; })]);
      const at = Date.now();
      cancelling.abort('changed my mind');
      await answered;
      console.log(JSON.stringify({ what, session_id, at }));
      await told.next();
      if (what === 'session') {
        const answer = await call('run_code', { session_id, code: 'x + 1' });
        assert.match(text(answer), /stdout:\n42\n/);
      } else if (what === 'deaf') {
        const answer = await call('run_code', { session_id, code: 'print("x" in globals())' });
        assert.match(text(answer), /stdout:\nFalse\n/);
      }
    }
  },

  // leave does not cancel: it is gone while its code runs.
  async leave() {
    const [what] = rest;
    const session_id = await begin(what);
    await new Promise((resolve, reject) => {
      run({ code: "print('runs', flush=True)\nwhile True: pass", ...session_id && { session_id } }, { onprogress: resolve }).then(reject, reject);
    });
    await new Promise((resolve) => { process.stdout.write(JSON.stringify({ what, session_id, at: Date.now() }) + '\n', resolve); });
    process.kill(process.pid, 'SIGKILL');
  },
};

// begin starts a session in which x is 41, if what needs one.
async function begin(what = 'session') {
  if (what !== 'session' && what !== 'deaf') return undefined;
  const begun = await run({ session_id: 'new', code: 'x = 41' });
  assert.ok(!begun.isError, text(begun));
  return begun.structuredContent.session_id;
}

await steps[step]();
await client.close();
console.log('ok');
process.exit(0);
