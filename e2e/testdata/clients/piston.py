#!/usr/bin/env python3
"""What a bot or an editor does with a Piston server, after the API's documentation in Piston's README.

Usage: piston.py URL TOKEN, with the URL up to /api/v2. Needs Python's standard library only. It works
with any server of that contract, Glovebox's facade or the original, and ends with exit code 1 at the
first thing that is not as the documentation has it.
"""

import base64
import json
import sys
import urllib.error
import urllib.request


class Piston:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/") + "/api/v2/", token

    def ask(self, method, resource, body=None):
        """Returns the status and the JSON of the answer."""
        request = urllib.request.Request(self.url + resource, method=method)
        request.add_header("Authorization", self.token)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    def execute(self, language, *contents, **more):
        files = [{"name": name, "content": content} if name else {"content": content} for name, content in contents]
        status, answer = self.ask("POST", "execute", {"language": language, "version": "*", "files": files, **more})
        check(status == 200, f"{language} is executed", answer)
        return answer


def check(good, what, got):
    if not good:
        raise SystemExit(f"NOT SO: {what}: got {got!r}")


def runtimes(server):
    """As a bot does at its start: names and aliases to a language and its version."""
    status, listed = server.ask("GET", "runtimes")
    check(status == 200 and all(r["version"].count(".") == 2 for r in listed), "runtimes have versions of three numbers", listed)
    known = {name: r for r in listed for name in [r["language"], *r["aliases"]]}
    check({"python", "py", "c", "gcc"} <= set(known), "names and aliases", sorted(known))
    return known


def stdin_and_arguments(server):
    got = server.execute("py", ("", "import sys\nprint(sys.argv[1:], input())"), stdin="from stdin", args=["1", "two words"])
    check(got["language"] == "python" and "compile" not in got, "its own name, and no compile step", got)
    run = got["run"]
    check(run["stdout"] == "['1', 'two words'] from stdin\n" and run["output"] == run["stdout"] and run["stderr"] == "", "its output", got)
    check(run["code"] == 0 and run["signal"] is None, "it ended well", got)


def exact_version(server, known):
    version = known["python"]["version"]
    status, got = server.ask("POST", "execute", {"language": "python", "version": version, "files": [{"content": "print(1)"}]})
    check(status == 200 and got["version"] == version, "a version as it is listed", got)
    status, got = server.ask("POST", "execute", {"language": "python", "version": "0.1.2", "files": [{"content": "print(1)"}]})
    check((status, got) == (400, {"message": "python-0.1.2 runtime is unknown"}), "no such version", got)


def compiled(server):
    got = server.execute("c", ("main.c", "#include \"twice.h\"\n#include <stdio.h>\nint main(void) { printf(\"%d\\n\", twice(21)); }"),
                         ("twice.h", "int twice(int n);\n"), ("twice.c", "#include \"twice.h\"\nint twice(int n) { return 2 * n; }\n"))
    check(got["compile"]["code"] == 0 and got["run"]["output"] == "42\n", "two sources and a header", got)
    got = server.execute("c", ("main.c", "int main(void) { return nothing; }"))
    check(got["compile"]["code"] != 0 and "undeclared" in got["compile"]["stderr"], "the compiler's words", got)
    check(got["run"]["code"] != 0 and got["run"]["stdout"] == "", "nothing ran", got)


def failures(server):
    run = server.execute("python", ("", "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)"))["run"]
    check((run["code"], run["stdout"], run["stderr"]) == (3, "out\n", "err\n"), "an exit code", run)
    run = server.execute("python", ("", "while True: pass"), run_timeout=1000)["run"]
    check(run["signal"] == "SIGKILL" and run["code"] is None, "a time-out", run)


def data_files(server):
    got = server.ask("POST", "execute", {"language": "python", "version": "*", "files": [
        {"name": "main.py", "content": "print(open('in/data', 'rb').read())"},
        {"name": "in/data", "content": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"},
    ]})
    check(got[0] == 200 and got[1]["run"]["stdout"] == "b'\\xff\\x00'\n", "bytes", got)


def errors(server):
    for body, message in [
        ({"version": "*", "files": []}, "language is required as a string"),
        ({"language": "python", "version": "*"}, "files is required as an array"),
        ({"language": "python", "version": "*", "files": [{}]}, "files[0].content is required as a string"),
    ]:
        status, got = server.ask("POST", "execute", body)
        check((status, got) == (400, {"message": message}), message, got)


def main(url, token):
    server = Piston(url, token)
    known = runtimes(server)
    print("ok runtimes")
    exact_version(server, known)
    print("ok exact_version")
    for step in (stdin_and_arguments, compiled, failures, data_files, errors):
        step(server)
        print("ok", step.__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
