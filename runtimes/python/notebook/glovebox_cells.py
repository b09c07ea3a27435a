"""Turns into Python what code for notebooks has beside Python: !command, %magic, %%magic and name?.

A session imports this with the first code that is no Python. Only what stands at the
beginning of a statement is turned, where no Python could stand, and each statement
stays on its lines. What it becomes are calls of glovebox_magics.
"""

import ast
import re

_OPENING, _CLOSING = "([{", ")]}"

# What a statement of notebooks begins with. The rest of its lines is its own.
_STATEMENT = re.compile(
    r"(?P<indent>[ \t]*+)(?P<target>[^\W\d][\w., \t]*+(?:\[[^\]\n]*\])?[ \t]*+=[ \t]*+)?"
    r"(?P<mark>!!|!(?!=)|%(?=[^\W\d]))(?P<rest>(?:\\\n|[^\n])*)"
)
_HELP = re.compile(r"(?P<indent>[ \t]*+)(?:\?{1,2}[ \t]*(?P<before>[^\W\d][\w.]*)|(?P<after>[^\W\d][\w.]*)[ \t]*\?{1,2})[ \t]*(?=\n|$)")
_CELL = re.compile(r"\s*%%(?P<name>[^\W\d]\w*)(?P<line>[^\n]*)\n?")

# Cells that are Python, and what they are done within.
_WITHIN = ("time", "capture")


def parse(text, to_tree):
    """Returns the tree of the code. to_tree is what parses Python, and raises the error that there is in Python beside what is turned; else the first one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return to_tree(text)
    except SyntaxError as e:
        error = e
    try:
        tree = _cell(text, to_tree) or _statements(text, to_tree)
    except RecursionError:
        tree = None
    if tree is None:
        raise error
    return tree


def _cell(text, to_tree):
    cell = _CELL.match(text)
    if not cell:
        return None
    name, line, body = cell["name"], cell["line"].strip(), text[cell.end():]
    if name not in _WITHIN:
        return to_tree(f"get_ipython().run_cell_magic({name!r}, {line!r}, {body!r})")
    tree = parse("\n" * text.count("\n", 0, cell.end()) + body, to_tree)
    within = to_tree("\n" * text.count("\n", 0, cell.start("name")) + f"with get_ipython().{name}({line!r}): pass")
    within.body[0].body = tree.body or within.body[0].body
    return _showing(within)


def _statements(text, to_tree):
    python, turned = _turned(text)
    if not turned:
        return None
    try:
        tree = to_tree(python)
    except SyntaxError as e:
        if e.lineno is None or e.lineno in turned:
            return None
        raise
    lines = text.split("\n")
    for node in ast.walk(tree):
        if getattr(node, "lineno", None) in turned:  # a traceback is to point at the whole line, and not at what it has become
            node.end_lineno, node.col_offset, node.end_col_offset = node.lineno, 0, len(lines[node.lineno - 1].encode("utf-8", "replace"))
    return _showing(tree)


def _turned(text):
    """Returns the text with what is not Python turned into it, and the numbers of the lines on which that was."""
    parts, turned, i = [], set(), 0
    while i < len(text):
        if match := _STATEMENT.match(text, i):
            python = _call(match["target"] or "", match["mark"], match["rest"])
        elif match := _HELP.match(text, i):
            python = f"get_ipython().run_line_magic('pinfo', {match['before'] or match['after']!r})"
        else:
            end = _after_code(text, i, "\n")
            parts.append(text[i:end])
            i = end
            continue
        end = match.end()
        first, more = text.count("\n", 0, i) + 1, text.count("\n", i, end)
        turned.update(range(first, first + more + 1))
        parts.append(match["indent"] + python + "\n" * more + text[end:end + 1])
        i = end + 1
    return "".join(parts), turned


def _call(target, mark, rest):
    if mark == "!" and not target:
        return f"get_ipython().system({rest!r})"
    if mark in ("!", "!!"):
        return f"{target}get_ipython().getoutput({rest!r})"
    name, line = re.match(r"(\w+)\s*(.*)", rest.replace("\\\n", " "), re.DOTALL).groups()
    if name != "time":
        return f"{target}get_ipython().run_line_magic({name!r}, {line!r})"
    timed = _turned(line)[0] or "pass"
    return f"with get_ipython().time(): {target}{timed}"


def _showing(tree):
    """Has the value shown that is the last one within a block of ours, as it would be without."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.With) and ast.unparse(last.items[0].context_expr).startswith(tuple(f"get_ipython().{name}(" for name in _WITHIN)):
        value = last.body[-1]
        if isinstance(value, ast.Expr):
            show = ast.parse("__import__('sys').displayhook(0)", mode="eval").body
            show.args = [value.value]
            value.value = ast.copy_location(show, value.value)
            ast.fix_missing_locations(value)
    return tree


def _after_code(text, i, end):
    """Returns where code ends that begins at i: a statement behind the end of its line, a field of a string behind its brace."""
    depth = 0
    while i < len(text):
        c = text[i]
        if c == end and depth <= 0:
            return i + 1
        if c == "#":
            i = text.find("\n", i)
            if i < 0:
                break
            continue
        if c == ":" and end == "}" and depth == 0:
            return _after_text(text, i + 1, "}", True)
        if c in "'\"":
            quote = c * 3 if text.startswith(c * 3, i) else c
            i = _after_text(text, i + len(quote), quote, re.search(r"\b[rR]?[fFtT][rR]?$", text[max(i - 3, 0):i]))
            continue
        depth += (c in _OPENING) - (c in _CLOSING)
        i += 2 if c == "\\" else 1
    return len(text)


def _after_text(text, i, end, has_fields):
    """Returns where a string ends, or the format of a field, whose text begins at i."""
    while i < len(text):
        c = text[i]
        if text.startswith(end, i):
            return i + len(end)
        if c == "\n" and end in "'\"":
            return i  # it has no end
        if has_fields and text.startswith("{{", i):
            i += 2
        elif has_fields and c == "{":
            i = _after_code(text, i + 1, "}")
        else:
            i += 2 if c == "\\" else 1
    return len(text)
