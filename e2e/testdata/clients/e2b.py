#!/usr/bin/env python3
"""What an agent does with E2B's code interpreter, after its documentation and its API's description.

Usage: e2b.py URL TOKEN, with the URL of both the API and the sandboxes. Needs Python's standard
library only. It works with any server of that contract at one address, and ends with exit code 1
at the first thing that is not as the documentation has it.
"""

import base64
import http.client
import json
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid


class Sandbox:
    def __init__(self, url, token, **settings):
        self.url, self.token = url.rstrip("/"), token
        made = self.api("POST", "/sandboxes", 201, {"templateID": "code-interpreter-v1", "timeout": 300, **settings})
        self.id = made["sandboxID"]
        self.headers = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49999"}
        for name, header in (("trafficAccessToken", "E2B-Traffic-Access-Token"), ("envdAccessToken", "X-Access-Token")):
            if made.get(name):
                self.headers[header] = made[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.api("DELETE", "/sandboxes/" + self.id, 204)

    def api(self, method, path, wanted, body=None):
        """Asks the API, with the key."""
        status, answer = self.ask(method, path, {"X-API-Key": self.token}, body)
        check(status == wanted, f"{method} {path} is answered {wanted}", (status, answer))
        return json.loads(answer) if answer else None

    def ask(self, method, path, headers, body=None):
        """Returns the status and the bytes of the answer."""
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        if isinstance(body, dict):
            request.add_header("Content-Type", "application/json")
            body = json.dumps(body).encode()
        request.data = body
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def run(self, code, **more):
        """Executes code, and returns what came of it by type."""
        status, answer = self.ask("POST", "/execute", self.headers, {"code": code, **more})
        check(status == 200, "code is executed", (status, answer))
        lines = [json.loads(line) for line in answer.splitlines()]
        check(lines[-1] == {"type": "end_of_execution"}, "the end is told", lines)
        return Execution(lines)

    def contexts(self, method, path="", body=None):
        return self.ask(method, "/contexts" + path, self.headers, body)

    def write(self, path, content):
        status, answer = self.ask("POST", "/files?" + urllib.parse.urlencode({"path": path}), {**self.headers, "Content-Type": "application/octet-stream"}, content)
        check(status == 200, "a file is written", (status, answer))
        return json.loads(answer)

    def read(self, path):
        return self.ask("GET", "/files?" + urllib.parse.urlencode({"path": path}), self.headers)

    def call(self, method, message):
        """Calls a procedure of envd's."""
        status, answer = self.ask("POST", method, self.headers, message)
        return status, json.loads(answer)

    def command(self, command):
        """Runs a command, and returns what it printed and its exit code."""
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}}).encode()
        headers = {**self.headers, "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
        status, answer = self.ask("POST", "/process.Process/Start", headers, struct.pack(">BI", 0, len(message)) + message)
        check(status == 200, "a command is run", (status, answer))
        printed, code = b"", None
        while answer:
            flags, size = struct.unpack(">BI", answer[:5])
            said, answer = json.loads(answer[5:5 + size]), answer[5 + size:]
            event = said.get("event", {})
            printed += base64.b64decode(event.get("data", {}).get("stdout", ""))
            if "end" in event:
                code = event["end"].get("exitCode", 0)
            check(not flags & 2 or said == {}, "no error at the end", said)
        return printed.decode(), code


class Execution:
    def __init__(self, lines):
        of = lambda kind: [line for line in lines if line["type"] == kind]
        self.stdout = "".join(line["text"] for line in of("stdout"))
        self.stderr = "".join(line["text"] for line in of("stderr"))
        self.results, self.error, self.count = of("result"), (of("error") or [None])[0], of("number_of_executions")
        self.text = next((r.get("text") for r in self.results if r["is_main_result"]), None)


def check(good, what, got):
    if not good:
        raise SystemExit(f"NOT SO: {what}: got {got!r}")


def run_code(sandbox):
    got = sandbox.run("import sys\nx = 41\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    check((got.stdout, got.stderr, got.text, got.error) == ("out\n", "err\n", "42", None), "output and value", vars(got))
    check(sandbox.run("x").text == "41", "its state is kept", None)
    check(got.count[0]["execution_count"] > 0, "executions are counted", got.count)


def chart(sandbox):
    got = sandbox.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1, 4, 9], label='squares')\nplt.xlabel('n')\nplt.title('Squares')\nplt.show()")
    shown = next((r for r in got.results if "png" in r), {})
    check(base64.b64decode(shown.get("png", ""))[:4] == b"\x89PNG", "a figure has an image", vars(got))
    data = shown["chart"]
    check((data["type"], data["title"], data["x_label"]) == ("line", "Squares", "n"), "and its data", data)
    check(data["elements"][0]["label"] == "squares" and [list(p) for p in data["elements"][0]["points"]] == [[1, 1], [2, 4], [3, 9]], "with its points", data)


def data_frame(sandbox):
    got = sandbox.run("import pandas as pd\npd.DataFrame({'name': ['ann', 'bob'], 'age': [31, 42]})")
    check(got.results[0].get("data") == {"name": ["ann", "bob"], "age": [31, 42]}, "a table's columns", vars(got))
    check("<table" in got.results[0].get("html", "") and "ann" in got.text, "as HTML and text", vars(got))


def error(sandbox):
    got = sandbox.run("def f():\n    raise ValueError('no such thing')\nf()")
    check((got.error["name"], got.error["value"]) == ("ValueError", "no such thing") and "in f" in got.error["traceback"], "an exception", vars(got))
    check(got.stderr == "", "which is no output", got.stderr)
    check(sandbox.run("1 +").error["name"] == "SyntaxError", "a mistake in the code", None)


def environment(sandbox):
    shows = "import os\n[os.environ.get(n) for n in ('ALWAYS', 'ONCE')]"
    check(sandbox.run(shows, env_vars={"ONCE": "y"}).text == "['x', 'y']", "with a variable of its own", None)
    check(sandbox.run(shows).text == "['x', None]", "and without", None)


def files(sandbox):
    told = sandbox.write("in/data.csv", b"a,b\n1,2\n")
    check(told == [{"name": "data.csv", "type": "file", "path": "/home/user/in/data.csv"}], "where it is", told)
    check(sandbox.run("print(open('/home/user/in/data.csv').read())\nopen('out.bin', 'wb').write(b'\\xff\\x00')").stdout == "a,b\n1,2\n\n", "code reads it", None)
    check(sandbox.read("/home/user/out.bin") == (200, b"\xff\x00"), "and what code wrote is read", sandbox.read("/home/user/out.bin"))
    status, answer = sandbox.read("nothing.txt")
    check(status == 404 and json.loads(answer)["code"] == 404, "there is no such file", answer)
    boundary = uuid.uuid4().hex
    form = "".join(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n{text}\r\n' for name, text in (("/home/user/d/one", "1"), ("two", "2"))) + f"--{boundary}--\r\n"
    status, answer = sandbox.ask("POST", "/files", {**sandbox.headers, "Content-Type": "multipart/form-data; boundary=" + boundary}, form.encode())
    check(status == 200 and [f["path"] for f in json.loads(answer)] == ["/home/user/d/one", "/home/user/two"], "a form of files", answer)
    status, listed = sandbox.call("/filesystem.Filesystem/ListDir", {"path": "/home/user/d", "depth": 1})
    check(status == 200 and [(e["name"], e["type"], e["size"]) for e in listed["entries"]] == [("one", "FILE_TYPE_FILE", "1")], "a directory", listed)
    status, refused = sandbox.call("/filesystem.Filesystem/Stat", {"path": "/home/user/nothing"})
    check((status, refused["code"]) == (404, "not_found"), "there is no such file", refused)


def commands(sandbox):
    check(sandbox.command("echo $((6 * 7)); ls d") == ("42\none\n", 0), "a command", sandbox.command("ls d"))
    check(sandbox.command("exit 3") == ("", 3), "an exit code", None)


def contexts(sandbox):
    sandbox.run("x = 'default'")
    status, answer = sandbox.contexts("POST", body={"language": "python", "cwd": "/home/user"})
    made = json.loads(answer)
    check(status == 200 and (made["language"], made["cwd"]) == ("python", "/home/user"), "a context", (status, answer))
    check(sandbox.run("x", context_id=made["id"]).error["name"] == "NameError", "with a state of its own", None)
    check(sandbox.run("const twice = (n) => 2 * n; twice(21)", language="javascript").text == "42", "another language", None)
    check(sandbox.run("twice(4)", language="javascript").text == "8", "whose state is kept", None)
    listed = [(c["id"], c["language"]) for c in json.loads(sandbox.contexts("GET")[1])]
    check((made["id"], "python") in listed and [l for _, l in listed[:2]] == ["python", "javascript"], "the list", listed)
    sandbox.run("y = 1", context_id=made["id"])
    status, answer = sandbox.contexts("POST", f"/{made['id']}/restart")
    check(status == 200 and json.loads(answer) is None, "it is restarted", (status, answer))
    check(sandbox.run("y", context_id=made["id"]).error["name"] == "NameError", "and knows nothing", None)
    check(sandbox.contexts("DELETE", "/" + made["id"])[0] == 200, "it is removed", None)
    status, answer = sandbox.ask("POST", "/execute", sandbox.headers, {"code": "1", "context_id": made["id"]})
    check((status, answer.decode()) == (404, f"Context {made['id']} not found"), "and is gone", (status, answer))
    status, answer = sandbox.ask("POST", "/execute", sandbox.headers, {"code": "1", "context_id": "main", "language": "python"})
    check(status == 400, "one of the two", (status, answer))


def stream(sandbox):
    """Reads lines while the code runs, and hangs up, which interrupts it."""
    sandbox.run("kept = 1")
    address = urllib.parse.urlsplit(sandbox.url)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request("POST", address.path + "/execute", json.dumps({"code": "kept += 1\nprint('begun', flush=True)\nimport time\ntime.sleep(250)"}), {**sandbox.headers, "Content-Type": "application/json"})
    answer = connection.getresponse()
    line = json.loads(answer.readline())
    while line["type"] == "keepalive":
        line = json.loads(answer.readline())
    check((line["type"], line["text"]) == ("stdout", "begun\n"), "output comes while the code runs", line)
    answer.close()
    connection.close()
    check(sandbox.run("kept").text == "2", "the context works on", None)


def main(url, token):
    with Sandbox(url, token, envVars={"ALWAYS": "x"}, metadata={"test": "e2b.py"}) as sandbox:
        status, answer = sandbox.ask("GET", "/health", sandbox.headers)
        check(status == 200 and json.loads(answer) == "OK", "its health", (status, answer))
        check(sandbox.api("GET", "/sandboxes/" + sandbox.id, 200)["metadata"] == {"test": "e2b.py"}, "its metadata", None)
        for step in (run_code, chart, data_frame, error, environment, files, commands, contexts, stream):
            step(sandbox)
            print("ok", step.__name__)
    status, answer = sandbox.ask("POST", "/execute", sandbox.headers, {"code": "1"})
    check(status == 502, "it has ended", (status, answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
