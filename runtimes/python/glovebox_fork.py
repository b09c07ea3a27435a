"""Makes the processes of a program's tests, each by a fork, of an interpreter that is started once.

The agent runs `python3 main.py` before main.py is there, with GLOVEBOX_FORKS naming a socket, and
a .pth file imports this module as it does glovebox_preload. It says "ready" and waits for tests. What is
a test's own is set in its process, which gives up the right to be anybody else and says "started" before
it returns; then Python goes on by itself, and looks for main.py. Nothing of a test comes into the memory of this
process, which is every later test's: its arguments, too, are in a file, which only its own process reads.

Where GLOVEBOX_FORK_WORDS names modules, which the program's text mentions, these are imported
once for all tests. A program could tell if it had files with the names of modules that are there: then
its tests are started plainly. The environment is the program's from the start.
"""

import sys

_before = sys.modules.keys() - {__name__}

import _ctypes
import _socket
import os
import resource

import glovebox_prepare as prepare

_SERVER = 9_999  # no program's uid, nor any test's
_MOST_TOLD = 4096  # bytes, the agent's maxForkMessage
_PR_SET_DUMPABLE = 4
_WALL = 0x40000000  # children of any kind
# What comes with a module in most programs, and is made at first use.
_MORE = {"matplotlib": ("matplotlib.backends.backend_agg", "matplotlib.pyplot", "glovebox_chartdata")}


class _Int(_ctypes._SimpleCData):
    _type_ = "i"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL
    _restype_ = _Int


def _import(words):
    """Imports modules that are there, and returns the names that no module of the program can have."""
    prepare.end_quickly()
    with prepare.Notes() as notes:
        for word in words:
            try:
                for name in (word, *_MORE.get(word, ())):
                    __import__(name)
            except ImportError:
                pass  # the program will say so
    prepare.keep(_before)
    notes.take()
    return notes


def _become(test, streams, notes):
    """Makes this process a test's."""
    user, cpu, processes = map(int, test.split())
    os.setsid()
    os.umask(0o077)
    prepare.read_from(streams[0])
    for number in 1, 2:
        os.dup2(streams[number], number)
        os.close(streams[number])
    args = []
    if len(streams) > 3:
        with open(streams[3], "rb") as file:
            args = [os.fsdecode(arg) for arg in file.read().split(b"\0")]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)  # every capability goes with it
    _prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec: /dev/stdin is the program's own
    if notes:
        refusal = prepare.has_taken(notes)
        if refusal:
            raise ValueError(refusal)
        prepare.draw_anew()
        prepare.start_clocks()
    else:
        for name in sys.modules.keys() - _before - {__name__}:
            del sys.modules[name]  # the program may have a file of that name
    sys.argv += args
    sys.orig_argv += args


def _await_end(control, child):
    """Says how the child ends, and waits for all others: a program can make siblings of its own (CLONE_PARENT)."""
    while True:
        try:
            pid, status, used = os.wait4(-1, _WALL)
        except ChildProcessError:
            return
        if pid == child and status & 0xFF != 0x7F:  # a stop is no end
            control.send(b"ended %d %d" % (status, used.ru_maxrss))
            child = 0  # its number may be used again


def _serve(control):
    words = os.environ.pop("GLOVEBOX_FORK_WORDS", "").split()
    notes = _import(words) if words else None
    prepare.freeze()
    path, sys.path[:] = sys.path[:], []  # nothing is imported here any more: PYTHONPATH may lead to the program's files
    os.setresuid(_SERVER, 0, _SERVER)  # so that signals that are for the tests' users are not for this process
    control.send(b"ready")
    while True:
        test, rights, _, _ = control.recvmsg(_MOST_TOLD, _socket.CMSG_SPACE(16), _socket.MSG_CMSG_CLOEXEC)
        if not test:
            os._exit(0)
        streams = list(memoryview(rights[0][2]).cast("i"))
        child = os.fork()
        if child == 0:
            try:
                _become(test, streams, notes)
                sys.path[:] = path
                control.send(b"started %d" % os.getpid())
            except BaseException as error:
                control.send(b"no: " + repr(error).encode(errors="replace")[:500])
                os._exit(1)
            control.close()
            return
        for stream in streams:
            os.close(stream)
        _await_end(control, child)


_prctl = _Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"))
_serve(_socket.socket(fileno=int(os.environ.pop("GLOVEBOX_FORKS"))))
