# Executes what it is given on descriptor 5, and answers with an exit code (runtimes/README.md, "Sessions"). Names stay from one piece to the next, and the value of a last expression is printed.
def glovebox_session():
    import ast, linecache, os, signal, sys, traceback

    control = 5
    os.set_inheritable(control, False)
    names = sys.modules["__main__"].__dict__
    waiting = b""

    def execute(text, file):
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        tree = ast.parse(text, file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, file, "exec"), names)
        if last is not None:
            sys.displayhook(eval(compile(ast.Expression(last.value), file, "eval"), names))

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
            while frames and frames.tb_frame.f_code.co_filename == "<string>":  # this file's
                frames = frames.tb_next
            traceback.print_exception(type(e), e.with_traceback(frames if not isinstance(e, SyntaxError) else None), None if isinstance(e, SyntaxError) else frames)
            return 130 if isinstance(e, KeyboardInterrupt) else 1

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
        code = attempt(text.decode("utf-8", "replace"), f"<execution {count}>")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                code = code or 1
        os.write(control, b"%s %d\0" % (token, code))


glovebox_session()
