"""What processes need that are started before their program is known (glovebox_preload.py,
glovebox_fork.py).
"""

import atexit
import gc
import io
import os
import sys

_MOST_FILES = 1000


class Notes:
    """Notes what imports look for: variables, and modules that are not there."""

    def __init__(self):
        self.variables = set()
        self.missing = set()
        self.taken = set()  # names that no module of a program can have

    def __enter__(self):
        get = self._get = os._Environ.__getitem__

        def get_and_note(environ, name):
            self.variables.add(name)
            return get(environ, name)

        os._Environ.__getitem__ = get_and_note
        sys.meta_path.append(self)
        return self

    def __exit__(self, *_):
        os._Environ.__getitem__ = self._get
        sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        self.missing.add(_top(name))

    def take(self):
        """Takes the names of all modules that there are, and of those that are not."""
        self.taken = self.missing | {_top(name) for name in sys.modules}


def _top(name):
    return name.partition(".")[0]


def has_taken(notes):
    """Says which of the program's files has a taken name; None where none has."""
    files = 0
    for _, directories, names in os.walk("."):
        for name in directories + names:
            if _top(name) in notes.taken:
                return f"it has a {name} of its own"
            files += 1
            if files > _MOST_FILES:
                return "it has many files"
    return None


def draw_anew():
    """Seeds what was seeded before: many programs may go on from one state of this process.
    What asks the kernel each time (os.urandom, secrets, uuid4) needs nothing.
    """
    for name, function in (("random", "seed"), ("numpy.random", "seed"), ("sympy.core.random", "seed")):
        if name in sys.modules:
            getattr(sys.modules[name], function)()
    if "tempfile" in sys.modules:
        sys.modules["tempfile"]._name_sequence = None
    if "sympy" in sys.modules:  # it numbers its dummies from here
        dummy = sys.modules["sympy"].Dummy
        dummy._prng.seed()
        dummy._base_dummy_index = dummy._prng.randint(10**6, 9 * 10**6)


def start_clocks():
    """Sets the clocks that run from an import."""
    logging = sys.modules.get("logging")
    if logging:
        import time

        logging._startTime = time.time_ns()


def read_from(stdin):
    """Makes a descriptor the standard input."""
    os.dup2(stdin, 0)
    os.close(stdin)
    encoding, errors = sys.stdin.encoding, sys.stdin.errors
    binary = open(0, "rb", closefd=False)  # as the interpreter makes it
    binary.raw.name = "<stdin>"
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(binary, encoding, errors, "\n")
    sys.stdin.mode = "r"


def end_quickly():
    """Keeps what keep is called for from being taken to pieces at the end, for 100 ms. It comes before any
    import that registers something itself, so as to be the last thing that a program does at its exit.
    """
    atexit.register(_leave_quickly)


def keep(before):
    """Keeps what was imported since, where before has the names of the modules that there were."""
    _kept.update((name, sys.modules[name]) for name in sys.modules.keys() - before)


def _leave_quickly():
    """Takes them out of all tables: they are left alone then, and this one with them. What the program itself made goes as ever."""
    if len(sys._current_frames()) > 1:
        return  # a thread may still import one of them
    for name in _kept:
        sys.modules.pop(name, None)


_kept = {}


def freeze():
    """Keeps the garbage collector from looking at all this again, but for __main__'s
    names: what a program has there must be found, and destroyed, at its end. A dictionary
    that is empty is not the collector's.
    """
    main = sys.modules["__main__"].__dict__
    names = dict(main)
    main.clear()
    gc.collect()
    gc.freeze()
    main.update(names)
