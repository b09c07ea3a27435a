// Starts Node before its program is known, and makes it the program's.
//
// The agent runs `node main.js` in a sandbox that waits, with GLOVEBOX_PRELOAD naming a socket and NODE_OPTIONS this
// file, which Node executes before it looks for main.js. It loads the libraries that are here, or what programs in TypeScript
// need, says "prepared" and waits to be told its program. When it returns, Node goes on by itself: whether main.js is a module, require.main,
// traces and exit codes are as in any start.
//
// Where a program could tell the difference it is refused, and the agent starts Node anew: when its environment has
// another value for something that was read already. What remains is listed in runtimes/README.md.
'use strict';

// What Node itself, and libraries in C and C++, read of the environment. What libraries here read is noted as they do.
const readByNode = ['GLIBC_', 'GCONV_', 'HOME', 'ICU_', 'LANG', 'LC_', 'LD_', 'LOCPATH', 'MALLOC_', 'NODE', 'OPENSSL_', 'PATH', 'SSL_', 'TEMP', 'TMP', 'TZ', 'UV_'];
const mostTold = 32 << 10; // bytes of the files' names, half of what the agent reads

// loadWith executes what it is given, with a property of an object in the place of its own.
function loadWith(object, name, value, load) {
  const own = object[name];
  object[name] = value;
  try {
    return load();
  } finally {
    object[name] = own;
  }
}

// loadGenerators loads the library that mathjs draws from. It seeds itself by Math.random, and mathjs by the time, as
// they are loaded. Math.random must not begin before the program, and what mathjs has is to be seeded anew.
function loadGenerators(drawAnew) {
  const at = require.resolve('/node_modules/seedrandom');
  const seedrandom = loadWith(Math, 'random', () => 0.5, () => require(at)); // drawAnew has what is random
  const noting = (...seed) => {
    let generator = seedrandom(...seed);
    drawAnew.push(() => { generator = seedrandom(); }); // by the kernel's
    return () => generator();
  };
  return [require.cache[at], noting];
}

// loadTransform loads what makes JavaScript of TypeScript, and no library: modules, which most programs in TypeScript are, import each anew.
// One declaration is enough. After a piece with all that programs have, programs took longer, as V8 compiles once more what is called often.
function loadTransform() {
  const transform = () => require('module').stripTypeScriptTypes('enum Loaded {}', { mode: 'transform', sourceMap: true });
  loadWith(process, 'emitWarning', () => {}, transform); // a program that listens would hear of it
}

// load loads the libraries, and returns the variables that they looked for and what has to be drawn anew.
function load() {
  const looked = new Set();
  const drawAnew = [];
  const noted = (trap) => (target, name, ...more) => { looked.add(name); return Reflect[trap](target, name, ...more); };
  const env = new Proxy(process.env, { get: noted('get'), has: noted('has'), getOwnPropertyDescriptor: noted('getOwnPropertyDescriptor') });
  loadWith(process, 'env', env, () => {
    if (process.execArgv.includes('--experimental-transform-types')) return loadTransform();
    require('/node_modules/lodash');
    require('/node_modules/dayjs');
    const [module, noting] = loadGenerators(drawAnew);
    loadWith(module, 'exports', noting, () => require('/node_modules/mathjs'));
  });
  return { looked, drawAnew };
}

// refusal says why this process can't be the program's; undefined where it can.
function refusal(env, looked) {
  for (const name of new Set([...Object.keys(env), ...Object.keys(process.env)])) {
    if (env[name] !== process.env[name] && (looked.has(name) || readByNode.some((begin) => name.startsWith(begin)))) return `it has another ${name}`;
  }
  return undefined;
}

// become gives this process everything that is the program's. Many may go on from one snapshot of it.
function become(native, told, drawAnew) {
  native.reseed();
  const v8 = require('v8');
  v8.setFlagsFromString(`--random-seed=${native.seed()}`);
  Math.random(); // takes the seed; contexts and threads of the program's take none of ours
  v8.setFlagsFromString('--random-seed=0');
  for (const draw of drawAnew) draw();
  for (const name in told.limits) native.limit(name, told.limits[name]);
  for (const name of Object.keys(process.env)) {
    if (!(name in told.env)) delete process.env[name];
  }
  Object.assign(process.env, told.env);
  process.argv.push(...told.args);
  native.becomeStdin();
}

// endAtOnce has the process end where Node would first free all that it has. Of a process that went on from a snapshot that
// takes half of a short program's time, as each page has to be there to be freed. Listeners of 'exit' were called by then.
function endAtOnce(native) {
  const own = process; // a program can give another thing that name
  const { reallyExit } = own;
  native.atEnd(() => reallyExit(own.exitCode));
}

// files are those that are mapped, one a line: the agent holds them, or the sandbox's kernel would do away with its
// mappings of each at the end.
function files() {
  const maps = require('fs').readFileSync('/proc/self/maps', 'utf8').split('\n');
  const names = new Set(maps.map((line) => line.slice(line.indexOf('/'))).filter((name) => name.startsWith('/')));
  let text = '';
  for (const name of [...names].sort()) {
    if (Buffer.byteLength(text) + Buffer.byteLength(name) < mostTold) text += `${name}\n`;
  }
  return text;
}

function wait() {
  const loaded = { exports: {} };
  process.dlopen(loaded, `${__dirname}/preload.node`);
  const native = loaded.exports;
  native.open(Number(process.env.GLOVEBOX_PRELOAD));
  delete process.env.GLOVEBOX_PRELOAD;
  delete process.env.NODE_OPTIONS;
  let prepared;
  try {
    prepared = load();
  } catch (error) {
    native.say(String(error?.stack).slice(0, 500));
    process.reallyExit(1);
  }
  native.say(`prepared\n${files()}`);
  const message = native.hear();
  if (message === '') process.reallyExit(0);
  const told = JSON.parse(message);
  let refused;
  try {
    refused = refusal(told.env, prepared.looked);
    if (refused === undefined) become(native, told, prepared.drawAnew);
    endAtOnce(native);
  } catch (error) {
    refused = String(error?.stack).slice(0, 500);
  }
  native.say(refused ?? 'yes');
  if (refused !== undefined) process.reallyExit(0); // the agent starts another
  native.done();
}

// Also in each thread of the program's, which executes this file first. Whatever is in its environment by then is the program's.
delete require.cache[__filename];
process._preload_modules.length = 0;
for (const [request, file] of Object.entries(module.constructor._pathCache)) {
  if (file === __filename) delete module.constructor._pathCache[request];
}
if (process.env.GLOVEBOX_PRELOAD !== undefined && require('worker_threads').isMainThread) wait();
