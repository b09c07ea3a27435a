"""Does what code for notebooks asks for beside Python: it is what get_ipython() returns in a session.

This is no IPython: a session executes plain Python, and these are the commands of
notebooks that make sense without a browser and a network.
"""

import builtins
import contextlib
import io
import os
import re
import resource
import shlex
import subprocess
import sys
import time

import glovebox_programs

_LIBRARY = os.path.dirname(os.__file__)
_OURS = os.path.dirname(__file__)
_COMMANDS = {"ls", "cat", "cp", "mv", "rm", "mkdir", "rmdir"}  # of the shell, that are magics, too
_WITHOUT_EFFECT = {"matplotlib", "config", "pylab", "gui", "colors", "xmode", "precision", "load_ext", "reload_ext", "autoreload"}
_PROGRAMS = {"bash": "bash", "sh": "sh", "python": "python3", "python3": "python3", "perl": "perl"}
_MEDIA = {"html": "text/html", "HTML": "text/html", "markdown": "text/markdown", "latex": "text/latex", "svg": "image/svg+xml", "SVG": "image/svg+xml"}
_CODE = {"time", "timeit"}  # their line is Python

# What is put for {expression} and $name in a line, and the braces that are written twice.
_VARIABLE = re.compile(r"\{\{|\}\}|(?<!\$)\{(?P<expression>[^{}\n]+)\}|\$(?P<name>[^\W\d]\w*)")
# A command that starts pip as a module: pip is a program here.
_MODULE = re.compile(r"(^|[;&|(])(\s*)\S*python[\d.]*\s+-m\s+pip\b")


class UsageError(Exception):
    """Says what a command for notebooks can't do here."""


UsageError.__module__ = "builtins"  # it is printed without


class Captured:
    """What was printed within %%capture."""

    def __init__(self):
        self._out, self._err = io.StringIO(), io.StringIO()

    @property
    def stdout(self):
        return self._out.getvalue()

    @property
    def stderr(self):
        return self._err.getvalue()

    def show(self):
        print(self.stdout, end="")
        print(self.stderr, end="", file=sys.stderr)

    __call__ = show

    def __str__(self):
        return self.stdout


class Shell:
    """What code in a session is executed by."""

    config = {}

    def __init__(self):
        self.user_ns = sys.modules["__main__"].__dict__
        self.events = self
        self._before = os.getcwd()  # the last %cd

    def register(self, *_):
        """Nothing is called between executions: of events."""

    unregister = enable_gui = register

    def system(self, command):
        """Has the shell execute a command, whose output is the code's."""
        self._start(["bash", "-c", self._command(command)])

    def getoutput(self, command):
        """Returns the lines that a command prints to either stream."""
        out = io.StringIO()
        self._start(["bash", "-c", self._command(command)], out)
        return glovebox_programs.Lines(out.getvalue().splitlines())

    def run_line_magic(self, name, line, _stack_depth=1):
        if name in _COMMANDS:
            return self.system(f"{name} {line}")
        if name in _WITHOUT_EFFECT:
            if "autoreload" in (name, line.strip()):
                print(f"%{name} has no effect here: importlib.reload(module) imports anew", file=sys.stderr)
            elif name == "load_ext":
                raise UsageError(f"%load_ext {line}: there are no extensions here")
            return None
        if name not in _CODE:
            line = self._expand(line)
        do = getattr(self, "_line_" + name, None)
        if do is None:
            raise UsageError(f"there is no %{name} here; there are {self._names('%', '_line_')}")
        return do(line)

    def run_cell_magic(self, name, line, cell):
        if name in _PROGRAMS:
            status = self._start([_PROGRAMS[name], *shlex.split(self._expand(line)), "-c" if name != "perl" else "-e", cell])
            if status:
                raise subprocess.CalledProcessError(status, "%%" + name)
            return None
        if name in _MEDIA:
            return builtins.display({_MEDIA[name]: cell}, raw=True)
        do = getattr(self, "_cell_" + name, None)
        if do is None:
            raise UsageError(f"there is no %%{name} here; there are {self._names('%%', '_cell_')}")
        return do(line, cell)

    @contextlib.contextmanager
    def time(self, _=""):
        """Says how long a block takes: %time and %%time."""
        wall, cpu = time.perf_counter(), _cpu()
        yield
        wall, now = time.perf_counter() - wall, _cpu()
        user, system = now[0] - cpu[0], now[1] - cpu[1]
        print(f"CPU times: user {_seconds(user)}, sys: {_seconds(system)}, total: {_seconds(user + system)}\nWall time: {_seconds(wall)}")

    @contextlib.contextmanager
    def capture(self, line=""):
        """Keeps what a block prints: %%capture NAME."""
        captured = Captured()
        for name in line.split():
            if not name.startswith("--"):
                self.user_ns[name] = captured
        with contextlib.redirect_stdout(captured._out), contextlib.redirect_stderr(captured._err):
            yield captured

    def _start(self, args, out=None):
        status = glovebox_programs.run(args, out)
        self.user_ns["_exit_code"] = status
        return status

    def _command(self, line):
        return _MODULE.sub(r"\1\2pip", self._expand(line))

    def _expand(self, line):
        """Puts values for {expression} and $name. What has no value stays: the shell's own names, braces and programs of awk."""
        names = self.user_ns

        def value(match):
            if match["name"]:
                return str(names[match["name"]]) if match["name"] in names else match[0]
            if match["expression"] is None:
                return match[0][0]
            if match["expression"].isidentifier() and match["expression"] not in names:
                return match[0]
            try:
                return str(eval(match["expression"], names))
            except Exception:
                return match[0]

        return _VARIABLE.sub(value, line)

    def _names(self, mark, prefix):
        names = {name.removeprefix(prefix) for name in dir(self) if name.startswith(prefix)}
        names |= {"time", *(_COMMANDS | _WITHOUT_EFFECT)} if mark == "%" else {"time", "capture", *_PROGRAMS, *_MEDIA}
        return ", ".join(mark + name for name in sorted(names))

    def _line_cd(self, line):
        to = _unquoted(line)
        to = self._before if to == "-" else os.path.expanduser(to or "~")
        before = os.getcwd()
        os.chdir(to)
        self._before = before
        print(os.getcwd())

    def _line_pwd(self, _):
        return os.getcwd()

    def _line_env(self, line):
        name, value = (re.split(r"\s*=\s*|\s+", line.strip(), maxsplit=1) + [None])[:2]
        if not name:
            return dict(os.environ)
        if value is None:
            if name not in os.environ:
                raise UsageError(f"there is no environment variable {name}")
            return os.environ[name]
        os.environ[name] = value
        print(f"env: {name}={value}")
        return None

    _line_set_env = _line_env

    def _line_pip(self, line, name="pip"):
        self._start([name, *shlex.split(line)])  # without a shell: ">=" is none of its own

    def _line_conda(self, line):
        self._line_pip(line, "conda")

    def _line_run(self, line):
        """Executes a program's file, whose names are the code's from then on."""
        args = shlex.split(line)
        while args and args[0] in ("-i", "-t"):
            del args[0]
        if not args:
            raise UsageError("%run takes the name of a file")
        with io.open_code(os.path.abspath(args[0])) as file:
            code = compile(file.read(), args[0], "exec", dont_inherit=True)
        names = {"__name__": "__main__", "__file__": args[0], "__builtins__": builtins}
        before, sys.argv = sys.argv, args
        try:
            exec(code, names)
        except SystemExit as e:
            if e.code:
                raise
        finally:
            sys.argv = before
        self.user_ns.update((name, value) for name, value in names.items() if not name.startswith("__"))

    def _line_timeit(self, line, cell=None):
        import timeit

        count = {"n": 0, "r": 7}
        while option := re.match(r"\s*-([nr])\s*(\d+)(?:\s+|$)", line):
            count[option[1]] = max(int(option[2]), 1)
            line = line[option.end():]
        code, setup = (line, "") if cell is None else (cell, line)
        timer = timeit.Timer(code, setup or "pass", globals=self.user_ns)
        loops = count["n"] or timer.autorange()[0]
        each = [took / loops for took in timer.repeat(count["r"], loops)]
        mean = sum(each) / len(each)
        spread = (sum((one - mean) ** 2 for one in each) / len(each)) ** 0.5
        print(f"{_seconds(mean)} ± {_seconds(spread)} per loop (mean ± std. dev. of {len(each)} runs, {loops:,} loops each)")

    def _cell_timeit(self, line, cell):
        self._line_timeit(line, cell)

    def _line_who(self, _):
        print("\t".join(self._own()) or "there are no names yet")

    def _line_whos(self, _):
        for name in self._own():
            print(f"{name}\t{type(self.user_ns[name]).__name__}")

    def _line_reset(self, _):
        for name in self._own():
            del self.user_ns[name]

    def _own(self):
        return sorted(name for name in self.user_ns if not name.startswith("_"))

    def _line_lsmagic(self, _):
        print(self._names("%", "_line_"))
        print(self._names("%%", "_cell_"))

    def _line_pinfo(self, line):
        """Says what a name is: name? and ?name."""
        import inspect

        try:
            value = eval(line, self.user_ns)
        except (NameError, AttributeError):
            print(f"Object `{line}` not found.")
            return
        try:
            print(f"{line}{inspect.signature(value)}")
        except (TypeError, ValueError):
            print(f"{line}: {type(value).__name__}")
        print(inspect.getdoc(value) or "It has no documentation.")

    def _cell_writefile(self, line, cell):
        append, name = re.match(r"(-a\s+|--append\s+)?(.*)", self._expand(line).strip()).groups()
        name = os.path.expanduser(_unquoted(name))
        if not name:
            raise UsageError("%%writefile takes the name of a file")
        print("Appending to" if append else "Overwriting" if os.path.exists(name) else "Writing", name)
        with open(name, "a" if append else "w", encoding="utf-8") as file:
            file.write(cell if cell.endswith("\n") or not cell else cell + "\n")

    _cell_file = _cell_writefile


def leave_out(traceback):
    """Takes the frames of these files out of a traceback, behind its first, and those of what they call."""
    ours = False
    while traceback and traceback.tb_next:
        name = traceback.tb_next.tb_frame.f_code.co_filename
        ours = name.startswith(_OURS) or ours and name.startswith(_LIBRARY)
        if ours:
            traceback.tb_next = traceback.tb_next.tb_next
        else:
            traceback = traceback.tb_next


def _unquoted(text):
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _cpu():
    """The processor's time that the process has used, and the programs that it has waited for: of its own, and of the system for it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime for one in used), sum(one.ru_stime for one in used)


def _seconds(t):
    for unit, least in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if t >= least * 0.9995:  # what is less has at most three digits
            return f"{t / least:.3g} {unit}"
    return f"{t / 1e-9:.3g} ns"


shell = Shell()
