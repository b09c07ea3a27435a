// Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
(() => {
  const { Session } = require('inspector');
  const vm = require('vm');
  const util = require('util');
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
  hidden('__gloveboxRun', () => { pending = post('Runtime.evaluate', { expression, replMode: true, awaitPromise: true }); });
  let interrupted = () => {};
  const interruption = () => Object.assign(new Error('interrupted'), { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' });
  // Processes that code started stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too.
  process.on('SIGHUP', () => {});
  process.on('SIGINT', () => interrupted(interruption()));
  const complain = (e) => process.stderr.write(`Uncaught ${util.inspect(e)}\n`);
  process.on('unhandledRejection', complain);
  process.on('uncaughtException', complain);

  async function valueOf(remote) {
    if (!remote.objectId) {
      if (remote.unserializableValue) return vm.runInThisContext(`(${remote.unserializableValue})`);
      return remote.value;
    }
    await post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration: 'function () { __gloveboxHold(this); }' });
    await post('Runtime.releaseObject', { objectId: remote.objectId });
    return held;
  }

  async function execute(text) {
    expression = text;
    // An interrupt of the code before can come late, but not behind the events that are there now.
    for (let i = 0; i < 2; i++) await new Promise((resolve) => setImmediate(resolve));
    const stopped = new Promise((_, reject) => { interrupted = reject; });
    stopped.catch(() => {});
    try {
      vm.runInThisContext('__gloveboxRun()', { breakOnSigint: true });
      const { result, exceptionDetails } = await Promise.race([pending, stopped]);
      if (exceptionDetails) {
        const e = exceptionDetails.exception ? await valueOf(exceptionDetails.exception) : exceptionDetails.text;
        if (e instanceof Error && e.stack) {
          e.stack = e.stack.split('\n').filter((line) => !/^\s+at .*(node:|\[eval\])/.test(line)).join('\n');
        }
        complain(e);
        return 1;
      }
      const value = await valueOf(result);
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
      busy = busy.then(() => execute(piece.slice(line + 1))).then((code) => control.write(`\0${piece.slice(0, line)} ${code}\0`));
    }
  });
  control.on('end', () => process.exit());
})();
