"""Called as: validate input answer feedback_dir/ < output. Exits with 42 for right, 43 for wrong.

The input of the first pass is "write" and a number. What the program prints then is the input of the second,
after "read"; nextpass.in asks for it. The answer is the number in both.
"""

import re
import sys

input_file, answer_file, feedback = sys.argv[1:4]
with open(input_file) as f:
    task = f.readline().strip()
with open(answer_file) as f:
    answer = f.read().split()
# What comes on standard input was printed by a stranger's program, so no more of it is read than is needed.
said = sys.stdin.buffer.read(1000).decode("ascii", "replace").split()


def say(name, text):
    with open(feedback + name, "a") as f:  # what the pass before said is there
        f.write(text + "\n")


say("judgemessage.txt", f"{task}: the program printed {said}, the number is {answer[0]}")
if task == "write":
    if len(said) != 1 or not re.fullmatch("[a-z]{1,30}", said[0]):
        say("teammessage.txt", "Print one word of up to 30 letters.")
        sys.exit(43)
    with open(feedback + "nextpass.in", "w") as f:
        f.write(f"read\n{said[0]}\n")
elif said != answer:
    say("teammessage.txt", "That was another number.")
    sys.exit(43)
sys.exit(42)
