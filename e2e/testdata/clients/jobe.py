#!/usr/bin/env python3
"""What Moodle's CodeRunner does with a Jobe server, after Jobe's documentation (restapi.pdf).

Usage: jobe.py URL KEY, with the URL up to index.php/restapi: http://localhost:4000/jobe. Needs
Python's standard library only. It works with any server of that contract, Glovebox's facade or the
original, and ends with exit code 1 at the first thing that is not as the documentation has it.
"""

import base64
import hashlib
import json
import sys
import urllib.error
import urllib.request

COMPILE_ERROR, RUNTIME_ERROR, TIME_LIMIT, OK, OVERLOAD = 11, 12, 13, 15, 21


class Jobe:
    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/") + "/index.php/restapi/", key

    def ask(self, method, resource, body=None):
        """Returns the status and the JSON of the answer."""
        request = urllib.request.Request(self.url + resource, method=method)
        request.add_header("X-API-KEY", self.key)
        request.add_header("Accept", "application/json")
        if body is not None:
            request.add_header("Content-Type", "application/json; charset=utf-8")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as refused:
            text, status = refused.read(), refused.code
        return status, json.loads(text) if text else None

    def run(self, language, source, files=(), **spec):
        """As CodeRunner: the run first, all of its files on a 404, the run again; once more on an overload."""
        spec.update(language_id=language, sourcecode=source)
        spec["file_list"] = [[name_of(content), name] for name, content in files]
        for _ in range(60):
            status, answer = self.ask("POST", "runs", {"run_spec": spec})
            if status == 404:
                for _, content in files:
                    put, said = self.ask("PUT", "files/" + name_of(content), {"file_contents": base64.b64encode(content).decode()})
                    check(put == 204 and said is None, "a file is put", (put, said))
                status, answer = self.ask("POST", "runs", {"run_spec": spec})
            check(status == 200, "a run is answered", (status, answer))
            if answer["outcome"] != OVERLOAD:
                return answer
        raise SystemExit("overloaded for ten minutes")


def name_of(content):
    return hashlib.md5(content).hexdigest()


def check(good, what, got):
    if not good:
        raise SystemExit(f"NOT SO: {what}: got {got!r}")


def languages(server):
    status, listed = server.ask("GET", "languages")
    check(status == 200 and {"c", "python3"} <= {name for name, _ in listed}, "C and Python are there", listed)


def outcomes(server):
    hello = '#include <stdio.h>\nint main(void) { printf("Hello %s", "world"); return 0; }'
    for language, source, outcome, stdout in [
        ("c", hello, OK, "Hello world"),
        ("c", "int main(void) { return nothing; }", COMPILE_ERROR, ""),
        ("python3", "print(sum(map(int, input().split())))", OK, "5\n"),
        ("python3", "print('before'); 1 / 0", RUNTIME_ERROR, "before\n"),
        ("python3", "print('(', ", COMPILE_ERROR, ""),
        ("python3", "while True: pass", TIME_LIMIT, ""),
    ]:
        got = server.run(language, source, input="2 3\n", parameters={"cputime": 2 if outcome == TIME_LIMIT else 20})
        check(got["outcome"] == outcome and got["stdout"] == stdout, f"outcome {outcome} of {source}", got)
        check((got["cmpinfo"] != "") == (outcome == COMPILE_ERROR), "cmpinfo of a compile error only", got)
        check(set(got) == {"run_id", "outcome", "cmpinfo", "stdout", "stderr"}, "these fields", got)


def coderunner(server):
    """A question's template: the student's answer and all tests in one program, its support files beside."""
    tester = '''
import subprocess, sys
SEPARATOR = "#<ab@17943918#@>#"
print(open("data.txt").read().split()[0])
print(SEPARATOR)
from helper import twice
print(twice(21))
print(SEPARATOR)
result = subprocess.run([sys.executable, "-c", "print(input())"], input="from a child", capture_output=True, text=True)
print(result.stdout, end="")
'''
    got = server.run("python3", tester, sourcefilename="__tester__.python3", input="\n",
                     files=[("data.txt", b"first second\n"), ("helper.py", b"def twice(n): return 2 * n\n")],
                     parameters={"cputime": 20, "memorylimit": 1000, "numprocs": 20, "streamsize": 5})
    check(got["outcome"] == OK, "the template runs", got)
    check([part.strip() for part in got["stdout"].split("#<ab@17943918#@>#")] == ["first", "42", "from a child"], "an output for each test", got)


def arguments(server):
    got = server.run("c", '#include <stdio.h>\n#include <math.h>\nint main(int n, char **a) { printf("%s %d %g", a[1], N, sqrt(n)); }',
                     parameters={"compileargs": ["-Wall", "-DN=7"], "linkargs": ["-lm"], "runargs": ["'a b' c", "d"], "cputime": 20})
    check(got["outcome"] == OK and got["stdout"] == "a b 7 2", "arguments are pieces of a command line", got)


def files(server):
    content = b"\x00\xffthe same bytes"
    status, said = server.ask("PUT", "files/" + name_of(content), {"file_contents": base64.b64encode(content).decode()})
    check(status == 204, "a file is put", (status, said))
    check(server.ask("HEAD", "files/" + name_of(content))[0] == 204, "it is there", None)
    check(server.ask("HEAD", "files/" + name_of(b"never put"))[0] == 404, "another is not", None)
    status, said = server.ask("PUT", "files/" + name_of(b"x"), {"file_contents": "no base64!"})
    check(status == 400 and isinstance(said, str), "an error is a string", (status, said))


def errors(server):
    status, said = server.ask("POST", "runs", {"run_spec": {"language_id": "befunge", "sourcecode": ""}})
    check((status, said) == (400, "Language 'befunge' is not known"), "an unknown language", (status, said))
    status, said = server.ask("POST", "runs", {"run_spec": {"language_id": "c"}})
    check((status, said) == (400, "run_spec is missing the required attribute 'sourcecode'"), "no source", (status, said))


def main(url, key):
    server = Jobe(url, key)
    for step in (languages, outcomes, coderunner, arguments, files, errors):
        step(server)
        print("ok", step.__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
