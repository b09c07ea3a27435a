"""Calls each checker, as a grader does that looks at style."""

import os
import subprocess

with open("student.py", "w", encoding="utf-8") as f:
    f.write('"""A student\'s."""\nimport os\n\n\ndef double(n: int) -> str:\n    """Return twice n."""\n    return 2 * n\n')
for command in ["pylint student.py", "flake8 student.py", "mypy student.py"]:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    found = [word for word in ("unused-import", "F401", "return-value") if word in done.stdout]
    print(command.split()[0], done.returncode, *found, done.stderr)
os.remove("student.py")
print(os.listdir("."))
