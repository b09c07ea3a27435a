// Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
// It is a result besides, as is what display() is called with.
(() => {
  const { Session } = require('inspector');
  const vm = require('vm');
  const util = require('util');
  const fs = require('fs');
  const path = require('path');
  const { promiseHooks } = require('v8');
  const { stripTypeScriptTypes } = require('module');
  const isTypeScript = process.execArgv.includes('--experimental-transform-types');
  const { Atomics, Buffer, Int32Array, Promise, Set, SharedArrayBuffer, SyntaxError, setImmediate } = globalThis; // code may change the names
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
  // Where vm has let go of SIGINT and Node has not taken it again, it would end the process. So interrupts are masked but while code runs, or is
  // waited for. An interrupt ends the code without its finally: isMasked says so only where it was told.
  let isMasked = true;
  const setMasked = (masked) => {
    if (masked === isMasked) return;
    if (!masked) isMasked = false;
    tell(masked ? 'mask' : 'unmask');
    isMasked = masked;
  };
  const unmasked = (run) => {
    setMasked(false);
    try {
      return run();
    } finally {
      setMasked(true);
    }
  };
  const breakable = (text) => {
    try {
      return vm.runInThisContext(text, { breakOnSigint: true });
    } finally {
      setMasked(true);
    }
  };
  let endHook = () => {};
  hidden('__gloveboxRun', () => {
    let own;
    let answered;
    pending = new Promise((resolve, reject) => {
      answered = (e, answer) => { unsettled.delete(own); if (e) reject(e); else resolve(answer); };
    });
    endHook = promiseHooks.onInit((promise) => {
      endHook();
      own = promise;
      unsettled.add(own);
    });
    unmasked(() => debug.post('Runtime.evaluate', { expression, replMode: true }, answered));
  });
  let interrupted = () => {};
  const interruption = () => Object.assign(new Error('interrupted'), { code: 'ERR_SCRIPT_EXECUTION_INTERRUPTED' });
  // Processes that code started stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too.
  process.on('SIGHUP', () => {});
  process.on('SIGINT', () => interrupted(interruption()));
  // What is printed is written at once, not as the loop comes to it: nothing runs behind a piece's end.
  for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true);

  // The bounds of job.MaxShown and those beside it, and that of a file. All lengths are those of JSON in UTF-8, which is never shorter than its text.
  const mostResults = 64;
  const mostInline = 64 << 10;
  const mostInlineTotal = 256 << 10;
  const mostWritten = 8 << 20;
  const mostTypes = 16;
  const quiet = process.env.GLOVEBOX_RESULTS === 'only'; // values and errors are results, and not printed
  const home = process.cwd();
  const { stringify } = JSON;
  let token = '';
  let results = 0;
  let leftOut = 0;
  let room = 0; // bytes that there may still be
  let files = 0; // that were written so far
  let exception;
  // At once, and not by the stream: an interrupt in the midst of its code would leave it unusable.
  const { writeSync } = fs;
  const never = new Int32Array(new SharedArrayBuffer(4));
  const tell = (word) => {
    for (let rest = Buffer.from(`\0${token} ${word}\0`); rest.length > 0;) {
      try {
        rest = rest.subarray(writeSync(5, rest));
      } catch (e) {
        if (e.code !== 'EAGAIN') throw e;
        Atomics.wait(never, 0, 0, 1); // ms, until there is room
      }
    }
  };

  const endings = {
    'text/html': 'html', 'text/markdown': 'md', 'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpg', 'image/gif': 'gif', 'image/webp': 'webp',
    'application/pdf': 'pdf', 'application/json': 'json',
  };

  // Returns the JSON of what is shown in one media type; undefined of what is left out.
  function rendering(type, content, most, notes) {
    let bytes = content;
    if (typeof content === 'string') {
      if (content.length <= most) {
        const json = stringify(content);
        if (Buffer.byteLength(json) <= most) return json;
      }
      if (type === 'text/plain') {
        const beginning = content.slice(0, most >> 2);
        notes.push(`text/plain: the first ${beginning.length} of ${content.length} characters`);
        return rendering('text/plain', beginning, 6 * most, []);
      }
      if (content.length > mostWritten) {
        notes.push(`${type}: it is longer than ${mostWritten} characters`);
        return undefined;
      }
      bytes = Buffer.from(content);
    }
    if (!ArrayBuffer.isView(bytes)) {
      notes.push(`${type}: it is neither text nor bytes`);
      return undefined;
    }
    if (bytes.byteLength > mostWritten) {
      notes.push(`${type}: it is longer than ${mostWritten} bytes`);
      return undefined;
    }
    for (;;) {
      const name = `result-${++files}.${endings[type] ?? 'bin'}`;
      try {
        fs.writeFileSync(path.join(home, name), bytes, { flag: 'wx' });
        return stringify({ artifact: name });
      } catch (e) {
        if (e.code === 'EEXIST') continue;
        notes.push(`${type}: its file can't be written: ${e.code}`);
        return undefined;
      }
    }
  }

  // Tells of what is shown: an object of texts and bytes by media type.
  function show(kind, shown, notes) {
    if (results === mostResults) {
      leftOut++;
      return;
    }
    results++;
    const parts = [];
    for (const type of Object.keys(shown).slice(0, mostTypes)) {
      const key = `${stringify(type)}:`;
      const told = rendering(type, shown[type], Math.max(Math.min(mostInline, room - key.length - 1), 0), notes);
      if (told === undefined) continue;
      parts.push(key + told);
      room -= Buffer.byteLength(told) + key.length + 1;
    }
    const note = notes.length ? `,"note":${stringify(notes.join('; ').slice(0, 500))}` : '';
    tell(`{"kind":"${kind}","data":{${parts}}${note}}`);
  }

  // Returns what a value is besides its text: JSON, of objects and arrays that have no class of their own. An object that is large, or has anything that
  // JSON has no word for, has none.
  const isPlain = (value) => {
    if (value === null || typeof value !== 'object' || util.types.isProxy(value)) return false;
    if (Array.isArray(value)) return true;
    const prototype = Object.getPrototypeOf(value);
    return prototype === Object.prototype || prototype === null;
  };
  let asked;
  const asJSON = () => {
    let left = 10000;
    return stringify(asked, (_, value) => {
      if (--left < 0) throw new RangeError();
      if (typeof value === 'object' && value !== null && !isPlain(value)) throw new TypeError();
      if (['function', 'symbol', 'undefined'].includes(typeof value)) throw new TypeError();
      return value;
    });
  };
  hidden('__gloveboxJSON', () => unmasked(asJSON));
  function shownOf(value, text, toJSON) {
    const shown = { 'text/plain': text };
    if (!isPlain(value)) return shown;
    asked = value;
    try {
      const json = toJSON();
      if (json.length <= mostInline >> 1) shown['application/json'] = json;
    } catch (e) {
      if (e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw e;
    } finally {
      asked = undefined;
    }
    return shown;
  }

  // Shows values: each is a result, and is printed. With {raw: true} the first is an object of texts and bytes by media type.
  Object.defineProperty(globalThis, 'display', {
    configurable: true,
    writable: true,
    value(...values) {
      if (values.length === 2 && values[1] && values[1].raw === true) {
        show('display', { ...values[0] }, []);
        return;
      }
      for (const value of values) {
        const text = util.inspect(value);
        if (!quiet) console.log(text);
        show('display', results === mostResults ? {} : shownOf(value, text, asJSON), []);
      }
    },
  });

  // An interrupt of the streams' own code leaves them waiting for a write that has no end.
  const mendStreams = () => {
    for (const stream of [process.stdout, process.stderr]) {
      Object.assign(stream._writableState, { writing: false, bufferProcessing: false, corked: 0, length: 0, needDrain: false, afterWriteTickInfo: null });
      stream.setMaxListeners(0); // console leaves one behind each time
    }
  };

  // An interrupt that meets the end of breakable's text stays with Node, which ends the next such text by it. Here that is one of our own, which waits for it.
  hidden('__gloveboxWait', () => { Atomics.wait(never, 0, 0, 20); }); // ms
  const takeLateInterrupts = () => {
    for (let late = true; late;) {
      late = false;
      try { breakable('__gloveboxWait()'); } catch { late = true; }
    }
  };

  const complain = (e, ends) => {
    let text = 'an error that can\'t be described';
    try { text = util.inspect(e); } catch {}
    text = `Uncaught ${text}\n`;
    if (ends) exception = { name: 'Error', value: '', traceback: text };
    try {
      if (ends) exception.value = e instanceof Error ? `${e.message}` : text.slice(9, -1);
      if (ends) exception.name = e instanceof Error ? `${e.name}` : typeof e;
    } catch {}
    try { if (!quiet || !ends) process.stderr.write(text); } catch {}
  };
  const tellEnd = () => {
    const words = [`"left_out":${leftOut}`];
    if (exception) {
      let { traceback } = exception;
      if (traceback.length > 10000) { // whole lines, in which secrets are found
        const [head, tail] = [traceback.slice(0, 7000), traceback.slice(-3000)];
        traceback = `${head.slice(0, head.lastIndexOf('\n') + 1)}…${tail.slice(tail.indexOf('\n'))}`;
      }
      words.push(`"exception":${stringify({ name: exception.name.slice(0, 100), value: exception.value.slice(0, 2000), traceback })}`);
    }
    tell(`{${words}}`);
  };
  process.on('unhandledRejection', (e) => complain(e, false));
  process.on('uncaughtException', (e) => complain(e, false));

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

  // Code of a session is a script: it takes no import statement, and Node doesn't know whose an import() in it is. So both become calls of a function that is
  // Node's own code. What is imported is there before the piece begins, as in a module, and all lines stay where they are. Code that the parser doesn't know
  // stays as it is, as its error is V8's to tell.
  hidden('__gloveboxImport', async (specifier, options, names = []) => {
    const all = await import(specifier, options);
    const missing = names.find((name) => !(name in all));
    if (missing !== undefined) throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${missing}'`);
    return all;
  });
  let acorn;
  function asScript(text) {
    if (!/\bimport\b/.test(text)) return text;
    acorn ??= require('/node_modules/acorn');
    const edits = []; // [from, to, new text]
    try {
      const { body } = acorn.parse(text, { ecmaVersion: 'latest', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true });
      const imports = body.filter((node) => node.type === 'ImportDeclaration');
      for (const { start, end } of imports) edits.push([start, end, `;${text.slice(start, end).replace(/[^\n]/g, '')}`]);
      const begin = body.find((node) => node.directive === undefined)?.start;
      if (imports.length > 0) edits.unshift([begin, begin, imports.map(asAwaited).join('')]);
      for (const start of importCalls(body)) edits.push([start, start + 'import'.length, '__gloveboxImport']);
    } catch {
      return text;
    }
    let [script, from] = ['', 0];
    for (const [start, end, changed] of edits.sort((a, b) => a[0] - b[0])) {
      script += text.slice(from, start) + changed;
      from = end;
    }
    return script + text.slice(from);
  }

  // Returns a statement that has the same names as the import.
  function asAwaited({ source, specifiers, attributes }) {
    const options = attributes.length ? `{with: {${attributes.map(({ key, value }) => `${stringify(key.name ?? key.value)}: ${value.raw}`)}}}` : 'undefined';
    const whole = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier');
    const parts = specifiers.filter((one) => one !== whole);
    const names = parts.map(({ imported }) => stringify(imported ? imported.name ?? imported.value : 'default'));
    const bound = `{${parts.map(({ local }, i) => `${names[i]}: ${local.name}`)}}`;
    const called = `await __gloveboxImport(${source.raw}, ${options}, [${names}])`;
    return whole ? `const ${whole.local.name} = ${called}, ${bound} = ${whole.local.name}; ` : `const ${bound} = ${called}; `;
  }

  // Returns where import() begins in the tree.
  function importCalls(tree) {
    if (tree === null || typeof tree !== 'object') return [];
    const within = Object.values(tree).flatMap(importCalls);
    return tree.type === 'ImportExpression' ? [tree.start, ...within] : within;
  }

  const turnOfLoop = () => new Promise((resolve) => { setImmediate(resolve); });

  async function execute(text) {
    // An interrupt of the code before can come late, but not behind the events that are there now.
    for (let i = 0; i < 2; i++) await turnOfLoop();
    const stopped = new Promise((_, reject) => { interrupted = reject; });
    stopped.catch(() => {});
    const settled = async (promise) => {
      setMasked(false);
      try {
        return await Promise.race([promise, stopped]);
      } finally {
        setMasked(true);
      }
    };
    try {
      expression = asScript(asJavaScript(text));
      try {
        breakable('__gloveboxRun()');
      } finally {
        endHook(); // what an interrupt ends comes to no end of its own
      }
      const { result, exceptionDetails } = await settled(pending);
      if (exceptionDetails) {
        const e = exceptionDetails.exception ? (await valueOf(exceptionDetails.exception)).value : exceptionDetails.text;
        if (e instanceof Error && e.stack) {
          e.stack = e.stack.split('\n').filter((line) => !/^\s+at .*(node:|\[eval\])/.test(line)).join('\n');
        }
        complain(e, true);
        return 1;
      }
      let { value } = await valueOf(result);
      if (util.types.isPromise(value)) value = await settled(value);
      if (value !== undefined) {
        const described = util.inspect(value);
        if (!quiet) console.log(described);
        show('value', shownOf(value, described, () => breakable('__gloveboxJSON()')), []);
      }
      return 0;
    } catch (e) {
      if (e && e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED') {
        mendStreams();
        takeLateInterrupts();
        exception = { name: 'Interrupted', value: '', traceback: 'Interrupted\n' };
        if (!quiet) process.stderr.write('Interrupted\n');
        return 130;
      }
      complain(e, true);
      return 1;
    } finally {
      interrupted = () => {};
    }
  }

  // What was random before is drawn anew, as another session goes on from the same state. V8 can't be given another seed, so Math.random becomes a function of ours, unless code has put
  // one of its own there. OpenSSL's generators are seeded by the image's addon; what Node has drawn from them before, for later calls, is used up.
  const { random } = Math;
  const { dlopen } = process;
  let anew = random;
  const drawAnew = () => {
    const native = { exports: {} };
    dlopen.call(process, native, '/usr/local/lib/glovebox/preload.node');
    native.exports.reseed();
    const crypto = require('crypto');
    for (let i = 0; i < 128; i++) crypto.randomUUID(); // 128 of them at once
    for (let i = 0; i < 1024; i++) crypto.randomInt(2); // of 6 bytes, 6 KiB at once
    const kernel = fs.openSync('/dev/urandom', 'r');
    const fresh = new Float64Array(1024);
    const bits = new Uint32Array(2 * fresh.length);
    let left = 0;
    const drawn = function random() {
      if (left === 0) {
        fs.readSync(kernel, bits);
        for (let i = 0; i < fresh.length; i++) fresh[i] = ((bits[2 * i] >>> 5) * 2 ** 26 + (bits[2 * i + 1] >>> 6)) / 2 ** 53;
        left = fresh.length;
      }
      return fresh[--left];
    };
    if (Math.random === random || Math.random === anew) Math.random = anew = drawn;
  };

  let waiting = Buffer.alloc(0);
  let busy = Promise.resolve();
  control.on('data', (more) => {
    waiting = Buffer.concat([waiting, more]);
    for (let end; (end = waiting.indexOf(0)) >= 0;) {
      const piece = waiting.toString('utf8', 0, end);
      const line = piece.indexOf('\n');
      waiting = waiting.subarray(end + 1);
      busy = busy
        .then(() => {
          token = piece.slice(0, line);
          if (token.startsWith('anew-')) {
            try {
              drawAnew();
            } catch (error) { // nothing is executed that would draw what another session draws
              fs.writeSync(2, `random numbers can't be drawn anew: replay the session instead of forking it (glovebox session replay): ${error}\n`);
              process.reallyExit(1);
            }
          }
          [results, leftOut, room, exception] = [0, 0, mostInlineTotal, undefined];
          return execute(piece.slice(line + 1));
        }).catch(() => 1)
        .then(async (code) => {
          await turnOfLoop(); // a promise that was rejected and has no handler is told of by then
          if (exception || leftOut) tellEnd();
          tell(code);
        });
    }
  });
  control.on('end', () => process.exit());
  tell('mask');
})();
