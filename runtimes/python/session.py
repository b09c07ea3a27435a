# Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
# It is a result besides, as is what display() is called with, and each figure.
def glovebox_session():
    import __future__, _json, _thread, ast, builtins, fcntl, linecache, os, signal, stat, sys, traceback

    names = sys.modules["__main__"].__dict__
    control = 5
    if stat.S_ISSOCK(os.fstat(0).st_mode):  # a process that was prepared: the socket is its standard input, and this a file
        control = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.unlink(names["__file__"])
        sys.path[0] = ""
    for name in ("__file__", "__cached__", "glovebox_session"):
        names.pop(name, None)
    sys.argv[:] = [""]
    awaits_something = 0x80  # inspect.CO_COROUTINE, without inspect's milliseconds
    os.set_inheritable(control, False)
    process = os.getpid()
    waiting = b""
    awaits = None  # runs pieces that await something
    futures = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
    flags = 0  # of the pieces' own imports from __future__, which hold for the pieces after

    # The bounds of job.MaxShown and those beside it. All lengths are those of JSON, which is never shorter than its text.
    most_results, most_inline, most_inline_total = 64, 64 << 10, 256 << 10
    quiet = os.environ.get("GLOVEBOX_RESULTS") == "only"  # values and tracebacks are results, and not printed
    write_value = sys.__displayhook__
    telling = _thread.RLock()
    token, results, left_out, room = b"", 0, 0, 0  # of the piece; room is how many bytes there may still be

    def quote(text):
        return _json.encode_basestring(str.__str__(text)).encode("utf-8", "replace")

    held = b""  # is told with the next word: one write for a value and the answer

    def tell(word, hold=False):
        nonlocal held
        rest, held = b"%s\0%s %s\0" % (held, token, word), b""  # a NUL before: the piece may have written there
        if hold:
            held = rest
            return
        while rest:
            rest = rest[os.write(control, rest):]

    def show(kind, value, text, file=None):
        """Tells of a value by media type. text is its repr, and file that which the figure was written to."""
        nonlocal results, left_out, room
        if is_child:  # nobody waits for it
            return
        with telling:
            if results == most_results:
                left_out += 1
                return
            results += 1
        notes = []
        if type(value).__module__ == "builtins" and len(text) < 4096:
            data = b'{"text/plain":%s}' % quote(text)
        else:
            try:
                import glovebox_results

                data = glovebox_results.data(value, text, file, room, most_inline, notes)
            except Exception as e:
                data = b'{"text/plain":%s}' % quote(text[:4096])
                notes.append(type(e).__name__)
        with telling:
            if len(data) > room:
                data, notes = b"{}", ["there are too many results"]
            room -= len(data)
            note = b',"note":%s' % quote("; ".join(notes)[:500]) if notes else b""
            tell(b'{"kind":"%s","data":%s%s}' % (kind, data, note), hold=kind == b"value")

    def show_value(value):
        """Is sys.displayhook."""
        if value is None:
            return
        builtins._ = None
        text = repr(value)
        if not quiet:
            write_value(Written(text))
        builtins._ = value
        show(b"value", value, text)

    class Written:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    def display(*values, raw=False, **_):
        """Shows values: each is a result, and is printed. With raw=True they are dicts of a text or bytes by media type."""
        for value in values:
            if raw:
                text = str(value.get("text/plain", ""))
            else:
                try:
                    text = repr(value)
                except Exception as e:
                    text = f"<{type(value).__name__}: its __repr__ raises {type(e).__name__}>"
            if text and not quiet:
                print(text)
            show(b"display", Raw(value) if raw else value, text)

    class Raw:
        def __init__(self, data):
            self.data = data

        def _repr_mimebundle_(self):
            return self.data

    def close_figures(unseen):
        close = getattr(sys.modules.get("glovebox_charts"), "close_figures", None)
        if close:
            close(unseen)

    def name_of(e):
        try:
            return str.__str__(type(e).__name__)
        except BaseException:  # its class has a class of its own
            return "Exception"

    def tell_end():
        words = [b'"left_out":%d' % left_out]
        if error:
            name, value, text = (str.__str__(one) for one in error)
            if len(text) > 12000:
                text = text[:3000].rpartition("\n")[0] + "\n…\n" + text[-9000:].partition("\n")[2]  # whole lines, in which secrets are found
            words.append(b'"exception":{"name":%s,"value":%s,"traceback":%s}' % (quote(name[:100]), quote(value[:2000]), quote(text)))
        tell(b"{%s}" % b",".join(words))

    is_child = False

    def leave_to_parent():
        nonlocal is_child
        is_child = True

    os.register_at_fork(after_in_child=leave_to_parent)

    def get_ipython():
        import glovebox_magics

        return glovebox_magics.shell

    sys.path.append("/usr/local/lib/glovebox/notebook")
    builtins.display, builtins.get_ipython = display, get_ipython
    sys.displayhook = show_value
    if "glovebox_charts" in sys.modules:
        sys.modules["glovebox_charts"].in_session(lambda name, figure: show(b"display", figure, "", name))

    def compiled(source, file, mode, other=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        try:
            return compile(source, file, mode, flags | other, dont_inherit=True)
        except SyntaxError as e:
            if e.text is None and e.filename == file:  # the compiler looks for the line in a file
                e.text = linecache.getline(file, e.lineno or 0) or None
            raise

    def parsed(text, file):
        def to_tree(source):
            return compiled(source, file, "exec", ast.PyCF_ONLY_AST)

        try:
            return to_tree(text)
        except SyntaxError:
            pass
        import glovebox_cells  # of the notation of notebooks, which is no Python

        return glovebox_cells.parse(text, to_tree)

    def execute(text, file):
        nonlocal awaits, flags
        linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
        tree = parsed(text, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [compiled(tree, file, "exec")]
        flags |= codes[0].co_flags & futures
        if last is not None:
            codes.append(compiled(ast.Expression(last.value), file, "eval"))
        if any(code.co_flags & awaits_something for code in codes):
            import asyncio

            awaits = awaits or asyncio.Runner()
            value = awaits.run(awaited(codes))
        else:
            for code in codes:
                value = eval(code, names)
        if last is not None:
            sys.displayhook(value)

    async def awaited(codes):
        for code in codes:
            value = eval(code, names)
            if code.co_flags & awaits_something:
                value = await value
        return value

    def attempt(text, file):
        nonlocal error
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                unseen = True
                try:
                    execute(text, file)
                except KeyboardInterrupt:
                    unseen = False
                    raise
                finally:
                    close_figures(unseen)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            return 0
        except SystemExit as e:
            if e.code is None or isinstance(e.code, int):
                return (e.code or 0) & 255
            print(e.code, file=sys.stderr)
            return 1
        except BaseException as e:
            frames = e.__traceback__
            while frames and (frames.tb_frame.f_code in own or frames.tb_frame.f_code.co_filename.endswith("/glovebox_charts.py")):
                frames = frames.tb_next
            error = (name_of(e), "", "")
            if isinstance(e, SyntaxError):
                frames = None
            if "glovebox_magics" in sys.modules:
                sys.modules["glovebox_magics"].leave_out(frames)
            told = traceback.TracebackException(type(e), e.with_traceback(frames), frames, compact=True)
            lines = "".join(told.format())
            error = (error[0], getattr(told, "_str", ""), lines)
            if not quiet:
                print(lines, end="", file=sys.stderr)
            return 130 if isinstance(e, KeyboardInterrupt) else 1

    def settle(text, file):
        nonlocal error
        error = None
        try:
            code = attempt(text, file)
        except BaseException as e:  # an error can't be printed: stderr is closed, its __str__ raises, another interrupt came
            code = 130 if isinstance(e, KeyboardInterrupt) else 1
            error = error or (name_of(e), "", "")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
            try:
                stream = getattr(sys, name, None)
                if hasattr(stream, "flush") and not getattr(stream, "closed", False):
                    stream.flush()
            except BaseException:
                code = code or 1
        return code

    def draw_anew():
        """Seeds what was seeded before: another session goes on from the same state. What asks the kernel each time needs nothing."""
        for name, function, values in (("random", "seed", ()), ("numpy.random", "seed", ()), ("ssl", "RAND_add", (os.urandom(32), 32.0))):
            try:
                getattr(sys.modules[name], function)(*values)
            except Exception:  # it is not imported, or the session's code has put something else there
                pass
        if "tempfile" in sys.modules:
            sys.modules["tempfile"]._name_sequence = None

    # An interrupt comes when the first piece has left the socket, which may be before it is here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The piece's processes stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too. It is ignored with a function, which
    # programs that the piece starts don't inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    own = {f.__code__ for f in (execute, awaited, compiled, attempt, show_value, close_figures)}
    count, error = 0, None
    while True:
        while b"\0" not in waiting:
            more = os.read(control, 65536)
            if not more:
                return
            waiting += more
        piece, _, waiting = waiting.partition(b"\0")
        token, _, text = piece.partition(b"\n")
        count += 1
        if token.startswith(b"anew-"):
            draw_anew()
        results, left_out, room = 0, 0, most_inline_total
        code = settle(text.decode("utf-8", "replace"), f"<execution {count}>")
        if os.getpid() != process:  # the piece has forked: its child ends where a program would
            os._exit(code)
        if error or left_out:
            tell_end()
        tell(b"%d" % code)


glovebox_session()
