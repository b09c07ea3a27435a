// Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
(() => {
  const { Session } = require('inspector');
  const vm = require('vm');
  const util = require('util');
  const { promiseHooks } = require('v8');
  const { stripTypeScriptTypes } = require('module');
  const isTypeScript = process.execArgv.includes('--experimental-transform-types');
  const { Promise, Set, SyntaxError, setImmediate } = globalThis; // code may change the names
  const control = new (require('net').Socket)({ fd: 5, readable: true, writable: true });
  const debug = new Session();
  debug.connect();
  const post = (method, params) => new Promise((resolve, reject) => debug.post(method, params, (e, r) => (e ? reject(e) : resolve(r))));

  // What is handed to a global function is the value itself; what the debugger says is only a description.
  let held;
  let expression;
  let pending;
  const hidden = (name, value) => Object.defineProperty(globalThis, name, { value });
  hidden('__gloveboxHold', (value) => { held = value; });
  // The first promise that a piece makes is its own, which the debugger waits for. It is kept until it is settled: where one is collected before, the
  // debugger answers in the midst of that, which aborts the process.
  const unsettled = new Set();
  hidden('__gloveboxRun', () => {
    let own;
    let answered;
    pending = new Promise((resolve, reject) => {
      answered = (e, answer) => { unsettled.delete(own); if (e) reject(e); else resolve(answer); };
    });
    const endHook = promiseHooks.onInit((promise) => { own ??= promise; });
    try {
      debug.post('Runtime.evaluate', { expression, replMode: true }, answered);
    } finally {
      endHook();
      unsettled.add(own);
    }
  });
  let interrupted = () => {};
  const interruption = () => Object.assign(new Error('interrupted'), { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' });
  // Processes that code started stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too.
  process.on('SIGHUP', () => {});
  process.on('SIGINT', () => interrupted(interruption()));
  // What is printed is written at once, not as the loop comes to it: nothing runs behind a piece's end.
  for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);
  const complain = (e) => {
    let text = 'an error that can\'t be described';
    try { text = util.inspect(e); } catch {}
    try { process.stderr.write(`Uncaught ${text}\n`); } catch {}
  };
  process.on('unhandledRejection', complain);
  process.on('uncaughtException', complain);

  // In an object, as a promise of a value that has a method "then" would call it.
  async function valueOf(remote) {
    if (!remote.objectId) {
      if (remote.unserializableValue) return { value: vm.runInThisContext(`(${remote.unserializableValue})`) };
      return { value: remote.value };
    }
    await post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration: 'function () { __gloveboxHold(this); }' });
    await post('Runtime.releaseObject', { objectId: remote.objectId });
    return { value: held };
  }

  // Types are taken out, and nothing moves; enumerations and the like are more than types, and are transformed.
  function asJavaScript(text) {
    if (!isTypeScript) return text;
    try {
      try {
        return stripTypeScriptTypes(text);
      } catch (e) {
        if (e.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw e;
        return stripTypeScriptTypes(text, { mode: 'transform' });
      }
    } catch (e) {
      if (e instanceof SyntaxError) e.stack = e.stack.replace(/\n +at [^]*/, '').replace(/^:/, 'line ');
      throw e;
    }
  }

  const turnOfLoop = () => new Promise((resolve) => { setImmediate(resolve); });

  async function execute(text) {
    // An interrupt of the code before can come late, but not behind the events that are there now.
    for (let i = 0; i < 2; i++) await turnOfLoop();
    const stopped = new Promise((_, reject) => { interrupted = reject; });
    stopped.catch(() => {});
    try {
      expression = asJavaScript(text);
      vm.runInThisContext('__gloveboxRun()', { breakOnSigint: true });
      const { result, exceptionDetails } = await Promise.race([pending, stopped]);
      if (exceptionDetails) {
        const e = exceptionDetails.exception ? (await valueOf(exceptionDetails.exception)).value : exceptionDetails.text;
        if (e instanceof Error && e.stack) {
          e.stack = e.stack.split('\n').filter((line) => !/^\s+at .*(node:|\[eval\])/.test(line)).join('\n');
        }
        complain(e);
        return 1;
      }
      let { value } = await valueOf(result);
      if (util.types.isPromise(value)) value = await Promise.race([value, stopped]);
      if (value !== undefined) console.log(util.inspect(value));
      return 0;
    } catch (e) {
      if (e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
        process.stderr.write('Interrupted\n');
        return 130;
      }
      complain(e);
      return 1;
    } finally {
      interrupted = () => {};
    }
  }

  let waiting = Buffer.alloc(0);
  let busy = Promise.resolve();
  control.on('data', (more) => {
    waiting = Buffer.concat([waiting, more]);
    for (let end; (end = waiting.indexOf(0)) >= 0;) {
      const piece = waiting.toString('utf8', 0, end);
      const line = piece.indexOf('\n');
      waiting = waiting.subarray(end + 1);
      busy = busy.then(() => execute(piece.slice(line + 1))).catch(() => 1)
        .then(async (code) => {
          await turnOfLoop(); // a promise that was rejected and has no handler is told of by then
          control.write(`\0${piece.slice(0, line)} ${code}\0`);
        });
    }
  });
  control.on('end', () => process.exit());
})();
