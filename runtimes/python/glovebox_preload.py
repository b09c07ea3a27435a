"""Starts Python before its program is known, and makes it the program's.

The agent runs `python3 main.py` in a sandbox that waits, with GLOVEBOX_PRELOAD naming a
socket. A .pth file then imports this module at the last moment before Python looks for
main.py. It imports what programs here use most, says "prepared" and waits to be told its
program. When it returns, Python goes on by itself: sys.path[0], __main__, tracebacks,
exit codes and all else are made by the interpreter, not by something like it.

Where a program could tell the difference it is refused, and the agent starts Python
anew: when its environment has another value for something that was read already, or a
file of its own has the name of a module that was imported already. What remains is
listed in runtimes/README.md.
"""

import sys

_before = sys.modules.keys() - {__name__}

import ctypes
import io
import json
import os
import resource
import signal
import socket

import glovebox_prepare as prepare

# What libraries in C read of the environment, and programs before Python's own.
# What Python code reads is noted as it does.
_READ_IN_C = (
    "BLIS_", "GCONV_", "GLIBC_", "GOMP_", "GOTO_", "HOME", "LANG", "LC_", "LD_", "LOCPATH", "MALLOC_", "MKL_",
    "MPL", "NLSPATH", "NPY_", "NUMEXPR_", "NUMPY_", "OMP_", "OPENBLAS_", "OPENSSL_", "PATH", "PYTHON", "SSL_", "TMP", "TZ",
)
_CLONE_VM, _CLONE_PARENT = 0x100, 0x8000
_MOST_TOLD = 64 << 10  # bytes, the agent's maxHandover


def _import(more):
    """Imports the stack, and draws once, so that what is made at first use is there; then the modules of more."""
    import glovebox_chartdata
    import glovebox_results
    import matplotlib.backends.backend_agg
    import matplotlib.pyplot as plt
    import numpy.rec
    import pandas

    figure = plt.figure(figsize=(2, 2))
    pandas.DataFrame({"x": ["a", "b"], "y": [1, 2]}).plot(x="x", y="y", kind="bar", title="x", ax=figure.add_subplot(2, 1, 1))
    axes = figure.add_subplot(2, 1, 2)
    axes.plot([1, 2], label="x")
    axes.scatter([1, 2], [1, 2])
    axes.hist([1, 2])
    axes.legend()
    figure.tight_layout()
    figure.savefig(io.BytesIO(), format="png")
    glovebox_chartdata.text(figure)
    plt.close(figure)

    for name in more:
        __import__(name)

    # /tmp is empty as a program starts; whoever writes there later makes the directory.
    import shutil

    shutil.rmtree(matplotlib.get_configdir(), ignore_errors=True)

    # What every start does between here and the program's first line: Python's next import,
    # which then finds it done, and a compiler, which nothing has used yet.
    try:
        import sitecustomize
    except ImportError:
        pass  # there is none: then Python goes on without it, too
    exec(compile("class C:\n    def f(self, *a): return [x for x in a if x]\nC().f(1, 'x')\n", "<preload>", "exec"), {})


def _refusal(told, notes):
    """Says why this interpreter can't be the program's; None where it can."""
    env = told["env"]
    for name in env.keys() | os.environ.keys():
        if env.get(name) != os.environ.get(name) and (name in notes.variables or name.startswith(_READ_IN_C)):
            return f"it has another {name}"
    return prepare.has_taken(notes)


def _become(told, stdin):
    """Gives this process everything that is the program's."""
    prepare.draw_anew()
    for name, value in told["limits"].items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    for name in os.environ.keys() - told["env"].keys():
        del os.environ[name]
    os.environ.update(told["env"])
    sys.argv[1:] = sys.orig_argv[2:] = told["args"]
    if stdin:
        prepare.read_from(stdin[0])
    prepare.start_clocks()


def _files():
    """The files that are mapped, libraries, one a line. The agent holds them, or the sandbox's
    kernel would do away with its mappings of each at the end, for 3 ms.
    """
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        return "".join(sorted({line[line.index("/"):] for line in maps if "/" in line}))[:_MOST_TOLD // 2]


def _keep_memory():
    """Makes a process that shares this one's memory and sleeps, and returns its number.

    The sandbox's kernel takes the memory down with the last process that has it, for 11 ms,
    before that is seen to have ended. So this one, the program's, is not to be the last: the
    agent ends the other, and needn't wait for all of its end (keeper.go). It is the agent's
    child, so that no program waits for it, and all it does is pause(), with no signal let
    through to it.
    """
    global _stack
    libc = ctypes.CDLL(None, use_errno=True)
    _stack = ctypes.create_string_buffer(64 << 10)
    top = (ctypes.addressof(_stack) + len(_stack)) & ~15
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = libc.clone(ctypes.cast(libc.pause, ctypes.c_void_p), ctypes.c_void_p(top), _CLONE_VM | _CLONE_PARENT, None)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def _wait(control):
    prepare.end_quickly()
    more = os.environ.pop("GLOVEBOX_PRELOAD_IMPORTS", "").split()
    try:
        with prepare.Notes() as notes:
            _import(more)
        keeper = _keep_memory()
    except Exception as error:
        control.send(repr(error)[:500].encode(errors="replace"))
        os._exit(1)
    prepare.keep(_before)
    notes.take()
    prepare.freeze()
    control.send((f"prepared\nkeeper {keeper}\n" + _files()).encode(errors="surrogateescape"))
    message, stdin, _, _ = socket.recv_fds(control, _MOST_TOLD, 1)
    if not message:
        os._exit(0)
    told = json.loads(message)
    try:
        refusal = _refusal(told, notes)
        if refusal is None:
            _become(told, stdin)
    except Exception as error:
        refusal = repr(error)[:500]
    control.send((refusal or "yes").encode(errors="replace"))
    if refusal:
        os._exit(0)  # the agent starts another
    control.close()


_stack = None  # the keeper's
_wait(socket.socket(fileno=int(os.environ.pop("GLOVEBOX_PRELOAD"))))
