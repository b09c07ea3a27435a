"""Compares an output with an answer as DMOJ's checker of that name does.

Called as an output validator of the Kattis problem package format:
    validate.py input answer feedback_dir/ CHECKER [NAME=VALUE...] < output
exits with 42 where the output is right, and with 43 where it is not. An output is never held in pieces before it is
known to have as many of them as the answer.
"""

import re
import sys
from itertools import zip_longest

RIGHT, WRONG = 42, 43
WORD = rb"[^ \t\n\r\v\f]+"


def lines(text):
    """The lines that are not empty; a carriage return ends one, too."""
    return (m.group() for m in re.finditer(rb"[^\r\n]+", text))


def words(text):
    return (m.group() for m in re.finditer(WORD, text))


def same(xs, ys, equal=lambda x, y: x == y):
    """Whether two sequences have as many elements, each equal to the other's."""
    missing = object()
    return all(x is not missing and y is not missing and equal(x, y) for x, y in zip_longest(xs, ys, fillvalue=missing))


def as_many(xs, ys):
    return sum(1 for _ in xs) == sum(1 for _ in ys)


def in_lines(text):
    """The words, each with whether it is the first of its line."""
    end = 0
    for m in re.finditer(WORD, text):
        gap = text[end : m.start()]
        yield m.group(), end == 0 or b"\n" in gap or b"\r" in gap
        end = m.end()


def standard(output, answer):
    return same(in_lines(output), in_lines(answer))


def identical(output, answer):
    return output == answer


def floats(output, answer, precision="6", error_mode="default"):
    if not as_many(lines(output), lines(answer)):
        return False
    most = 10 ** -int(precision)

    def near(got, want):
        if error_mode == "absolute":
            return abs(got - want) <= most
        if error_mode == "relative":
            low, high = sorted((want * (1 - most), want * (1 + most)))
            return low <= got <= high
        return abs(got - want) <= most or abs(want) >= most and abs(1.0 - got / want) <= most

    def equal(got, want):
        try:
            number = float(want)
        except ValueError:
            return got == want
        try:
            return near(float(got), number)
        except (ValueError, ZeroDivisionError, OverflowError):
            return False

    return same(lines(output), lines(answer), lambda x, y: same(words(x), words(y), equal))


def floatsabs(output, answer, precision="6"):
    return floats(output, answer, precision, "absolute")


def floatsrel(output, answer, precision="6"):
    return floats(output, answer, precision, "relative")


def sort(output, answer, split_on="lines"):
    pieces = lines if split_on == "lines" else words
    if not as_many(pieces(output), pieces(answer)) or not as_many(words(output), words(answer)):
        return False

    def of(text):
        return sorted(x.split() for x in lines(text)) if split_on == "lines" else sorted(words(text))

    return of(output) == of(answer)


def unordered(output, answer):
    return sort(output, answer, "whitespace")


def easy(output, answer):
    def counted(text):
        text = text.lower()
        return [0 if bytes([b]).isspace() else text.count(b) for b in range(256)]

    return counted(output) == counted(answer)


def rstripped(output, answer, filter_new_line="false"):
    if filter_new_line == "true":
        pattern = rb"[^\n]+"
    else:
        if output.count(b"\n") != answer.count(b"\n"):
            return False
        output, answer, pattern = output + b"\n", answer + b"\n", rb"[^\n]*\n"

    def stripped(text):
        return (m.group().rstrip() for m in re.finditer(pattern, text))

    return same(stripped(output), stripped(answer))


CHECKERS = {
    "standard": standard, "identical": identical, "floats": floats, "floatsabs": floatsabs, "floatsrel": floatsrel,
    "sorted": sort, "unordered": unordered, "easy": easy, "rstripped": rstripped,
}


def main():
    checker = CHECKERS[sys.argv[4]]
    with open(sys.argv[2], "rb") as f:
        answer = f.read()
    right = checker(sys.stdin.buffer.read(), answer, **dict(a.split("=", 1) for a in sys.argv[5:]))
    sys.exit(RIGHT if right else WRONG)


main()
