# Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
def glovebox_session():
    import __future__, ast, fcntl, linecache, os, signal, stat, sys, traceback

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

    def compiled(source, file, mode, other=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        try:
            return compile(source, file, mode, flags | other, dont_inherit=True)
        except SyntaxError as e:
            if e.text is None and e.filename == file:  # the compiler looks for the line in a file
                e.text = linecache.getline(file, e.lineno or 0) or None
            raise

    def execute(text, file):
        nonlocal awaits, flags
        linecache.cache[file] = (len(text), None, [line + "\n" for line in text.split("\n")], file)
        tree = compiled(text, file, "exec", ast.PyCF_ONLY_AST)
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
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                execute(text, file)
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
            while frames and frames.tb_frame.f_code in own:
                frames = frames.tb_next
            traceback.print_exception(type(e), e.with_traceback(frames if not isinstance(e, SyntaxError) else None), None if isinstance(e, SyntaxError) else frames)
            return 130 if isinstance(e, KeyboardInterrupt) else 1

    def settle(text, file):
        try:
            code = attempt(text, file)
        except BaseException as e:  # an error can't be printed: stderr is closed, its __str__ raises, another interrupt came
            code = 130 if isinstance(e, KeyboardInterrupt) else 1
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
            try:
                stream = getattr(sys, name, None)
                if hasattr(stream, "flush") and not getattr(stream, "closed", False):
                    stream.flush()
            except BaseException:
                code = code or 1
        return code

    # The piece's processes stand still between two pieces. Where their parent ends then, the kernel sends this one a SIGHUP, too. It is ignored with a function, which
    # programs that the piece starts don't inherit.
    signal.signal(signal.SIGHUP, lambda *_: None)
    own = {f.__code__ for f in (execute, awaited, compiled, attempt)}
    count = 0
    while True:
        while b"\0" not in waiting:
            more = os.read(control, 65536)
            if not more:
                return
            waiting += more
        piece, _, waiting = waiting.partition(b"\0")
        token, _, text = piece.partition(b"\n")
        count += 1
        code = settle(text.decode("utf-8", "replace"), f"<execution {count}>")
        if os.getpid() != process:  # the piece has forked: its child ends where a program would
            os._exit(code)
        os.write(control, b"\0%s %d\0" % (token, code))  # a NUL before: the piece may have written there


glovebox_session()
