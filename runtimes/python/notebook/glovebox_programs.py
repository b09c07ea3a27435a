"""Runs the programs that code for notebooks starts: !command and %%bash.

They belong to the execution: they print to its streams, in order with what it prints
itself, and are interrupted with it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

_BIN = os.path.join(os.path.dirname(__file__), "bin")


class Lines(list):
    """The lines that a command printed; s and n have them as one text."""

    @property
    def l(self):  # noqa: E743 as notebooks call it
        return list(self)

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)


def run(args, out=None):
    """Runs a program and returns its exit code. It prints where the code would, or both of its streams to out."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if out is None and sys.stdout is not sys.__stdout__:
        out = sys.stdout
    streams = {"stdout": subprocess.PIPE, "text": True, "errors": "replace"} if out else {}
    if out and (sys.stderr is not sys.__stderr__ or out is not sys.stdout):
        streams["stderr"] = subprocess.STDOUT
    env = os.environ | {"PATH": f"{os.environ.get('PATH', os.defpath)}:{_BIN}"}
    child = None
    try:
        with _uninterrupted() as interrupted:
            child = subprocess.Popen(args, stdin=subprocess.DEVNULL, env=env, process_group=0, **streams)
        if interrupted:
            raise KeyboardInterrupt
        for text in child.stdout or ():
            out.write(text)
        return child.wait()
    except BaseException:
        if child:
            _end(child)
        raise
    finally:
        if child and child.stdout:
            child.stdout.close()


@contextlib.contextmanager
def _uninterrupted():
    """Keeps interrupts for later, as a list: one that came as a program starts would leave it behind."""
    interrupted = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.append(True))
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _end(child):
    """Ends a program and what it has started in its process group: half a second after it has been told to."""
    with _uninterrupted():
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(child.pid, number)
                child.wait(0.5)
