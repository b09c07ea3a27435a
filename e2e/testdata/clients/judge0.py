#!/usr/bin/env python3
"""What a front end of Judge0 CE does, after Judge0's documentation (https://ce.judge0.com).

Usage: judge0.py URL TOKEN. Needs Python's standard library only. It works with any server of that
contract, Glovebox's facade or the original, and ends with exit code 1 at the first thing that is
not as the documentation has it.
"""

import base64
import json
import sys
import time
import urllib.error
import urllib.request


class Judge0:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token

    def ask(self, method, path, body=None):
        """Returns the status and the JSON of the answer."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("X-Auth-Token", self.token)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            text = refused.read()
            return refused.code, json.loads(text) if text else None

    def poll(self, path, ended):
        """Asks until the answer says that all has ended."""
        for _ in range(1200):
            status, answer = self.ask("GET", path)
            check(status == 200, "a look is answered", answer)
            if ended(answer):
                return answer
            time.sleep(0.1)
        raise SystemExit("not ended after two minutes: " + path)


def check(good, what, got):
    if not good:
        raise SystemExit(f"NOT SO: {what}: got {got!r}")


def encode(text):
    return base64.b64encode(text.encode()).decode()


def decode(text):
    """As front ends do: null stands for nothing, and line breaks mean nothing."""
    return base64.b64decode(text).decode() if text else ""


def language(server, word):
    """Picks a language by its name, as a menu does."""
    status, languages = server.ask("GET", "/languages")
    check(status == 200 and languages, "languages are listed", languages)
    for one in languages:
        if one["name"].startswith(word + " ("):
            return one["id"]
    raise SystemExit(f"no {word} among {languages}")


def submit_and_poll(server):
    python = language(server, "Python")
    status, made = server.ask("POST", "/submissions?base64_encoded=false&wait=false",
                              {"language_id": python, "source_code": "print('hello,', input())", "stdin": "Judge0", "expected_output": "hello, Judge0"})
    check(status == 201 and len(made["token"]) == 36, "a submission has a token", made)
    got = server.poll("/submissions/" + made["token"] + "?base64_encoded=false",
                      lambda s: s["status"]["id"] > 2)
    check(got["status"] == {"id": 3, "description": "Accepted"}, "it is accepted", got)
    check(got["stdout"] == "hello, Judge0\n" and got["stderr"] is None and got["compile_output"] is None, "its output is there", got)
    check(float(got["time"]) >= 0 and got["memory"] > 0, "time is text, memory a number", got)
    check(set(got) == {"token", "time", "memory", "stdout", "stderr", "compile_output", "message", "status"}, "the default fields", got)


def verdicts(server):
    python, c = language(server, "Python"), language(server, "C")
    for body, wanted in [
        ({"language_id": python, "source_code": "print(1)", "expected_output": "2"}, 4),
        ({"language_id": python, "source_code": "while True: pass", "cpu_time_limit": 1}, 5),
        ({"language_id": c, "source_code": "int main(void) { return x; }"}, 6),
        ({"language_id": python, "source_code": "1 / 0"}, 11),
    ]:
        status, got = server.ask("POST", "/submissions?wait=true", body)
        check(status == 201 and got["status"]["id"] == wanted, f"status {wanted} of {body['source_code']}", got)
        if wanted == 6:
            check("undeclared" in got["compile_output"] and got["stdout"] is None, "the compiler's words", got)
        if wanted == 11:
            check("ZeroDivisionError" in got["stderr"], "stderr", got)


def in_base64(server):
    text = "größer 🧤\n" * 20
    status, made = server.ask("POST", "/submissions?base64_encoded=true&wait=false", {
        "language_id": language(server, "Python"), "source_code": encode("print(end=open(0, encoding='utf-8').read())"),
        "stdin": encode(text), "expected_output": encode(text),
    })
    check(status == 201, "base64 is taken", made)
    got = server.poll(f"/submissions/{made['token']}?base64_encoded=true&fields=*", lambda s: s["status_id"] > 2)
    check(got["status_id"] == 3 and decode(got["stdout"]) == text and decode(got["stdin"]) == text, "text comes back", got)
    check(all(len(line) == 60 for line in got["stdout"].rstrip("\n").split("\n")[:-1]), "lines of 60, as Ruby writes them", got)
    check(got["finished_at"][19] == "." and got["finished_at"].endswith("Z"), "times have milliseconds", got)


def batch(server):
    python = language(server, "Python")
    status, made = server.ask("POST", "/submissions/batch", {"submissions": [
        {"language_id": python, "source_code": f"print({n})"} for n in range(3)] + [{"language_id": python}]})
    check(status == 201 and len(made) == 4 and made[3] == {"source_code": ["can't be blank"]}, "each is answered for itself", made)
    tokens = [one["token"] for one in made[:3]]
    got = server.poll("/submissions/batch?fields=token,stdout,status_id&tokens=" + ",".join(tokens),
                      lambda b: all(s["status_id"] > 2 for s in b["submissions"]))["submissions"]
    check([s["token"] for s in got] == tokens and [s["stdout"] for s in got] == ["0\n", "1\n", "2\n"], "in the order asked", got)


def errors(server):
    status, got = server.ask("POST", "/submissions", {"language_id": 150000, "source_code": "x"})
    check(status == 422 and got == {"language_id": ["language with id 150000 doesn't exist"]}, "an unknown language", got)
    status, got = server.ask("GET", "/submissions/00000000-0000-4000-8000-000000000000")
    check(status == 404, "an unknown token", got)
    status, got = Judge0(server.url, "wrong").ask("GET", "/languages")
    check(status == 401 and got is None, "a wrong token", got)


def main(url, token):
    server = Judge0(url, token)
    status, about = server.ask("GET", "/about")
    check(status == 200 and about["version"] in ("1.13.1", "1.14.0"), "a version that clients know", about)
    status, config = server.ask("GET", "/config_info")
    check(status == 200 and config["max_submission_batch_size"] >= 20 and config["max_wall_time_limit"] >= 10, "settings", config)
    for step in (submit_and_poll, verdicts, in_base64, batch, errors):
        step(server)
        print("ok", step.__name__)


if __name__ == "__main__":
    main(*sys.argv[1:])
