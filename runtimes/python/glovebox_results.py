"""Says what a value is by media type, for a session that shows it (runtimes/README.md, "Sessions").

A session imports this with the first value that is more than its repr. Texts are told as
they are; images, and texts that are too long, are written to files of their own in the
directory in which Python started, which are collected as artifacts.
"""

import _json
import base64
import json
import os
import sys

import glovebox_charts

CHART = "application/vnd.glovebox.chart+json"
TABLE = "application/vnd.glovebox.table+json"

# Bytes of a text, or of an image, that is kept in a file.
_MOST = 8 << 20
# Cells of a table that is told as values.
_MOST_CELLS = 10_000
# As many media types has a result: job.MaxMediaTypes.
_MOST_TYPES = 16

_METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}
_ENDINGS = {
    "text/html": "html", "text/markdown": "md", "text/latex": "tex", "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
    "image/webp": "webp", "application/pdf": "pdf", "application/json": "json", "application/javascript": "js", CHART: "json", TABLE: "json",
}
_BINARY = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")


_number = 0  # of the file that was written last


class _File(str):
    """The name of a file that holds what is shown."""


def data(value, text, file, room, most, notes):
    """Returns the JSON object of what the value is by media type, in UTF-8.

    text is the value's repr, file the name of the image that it was written to if it is
    a figure. It takes up room bytes at most, and each text in it most bytes. What is
    missing is noted.
    """
    shown = {}
    try:
        if file is not None or _is(value, "matplotlib.figure", "Figure"):
            _figure(value, file, shown, notes)
        else:
            _by_methods(value, text, shown, notes)
        if _is(value, "pandas", "DataFrame"):
            _table(value, shown, notes)
    except Exception as e:
        notes.append(f"the value can't be shown: {type(e).__name__}")
        shown.setdefault("text/plain", text)
    parts = []
    room -= 2
    for mime in sorted(shown, key=lambda mime: mime != "text/plain")[:_MOST_TYPES]:
        key = _quoted(mime) + b":"
        told = _told(mime, shown[mime], min(room - len(key) - 1, most), notes)
        if told is not None:
            parts.append(key + told)
            room -= len(key) + len(told) + 1
    return b"{%s}" % b",".join(parts)


def _is(value, module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _quoted(text):
    return _json.encode_basestring(str.__str__(text)).encode("utf-8", "replace")


def _by_methods(value, text, shown, notes):
    """Asks the methods that notebooks ask. They are looked up on the type: an object that has every attribute that it is asked for has none of them."""
    kind = type(value)
    if hasattr(kind, "_repr_mimebundle_"):
        told = _called(value, "_repr_mimebundle_", "what is shown", notes)
        if isinstance(told, dict):
            shown.update((mime, content) for mime, content in told.items() if isinstance(mime, str) and content is not None)
    for mime, method in _METHODS.items():
        if mime in shown or mime == "image/jpeg" and "image/png" in shown or not hasattr(kind, method):
            continue
        told = _called(value, method, mime, notes)
        if told is not None:
            shown[mime] = told
    if text:
        shown.setdefault("text/plain", text)


def _called(value, method, what, notes):
    try:
        told = getattr(type(value), method)(value)
    except Exception as e:
        notes.append(f"{what}: {type(e).__name__}")
        return None
    return told[0] if isinstance(told, tuple) and told else told  # with metadata


def _figure(figure, file, shown, notes):
    shown["text/plain"] = repr(figure)
    if file is None:
        file = glovebox_charts.save(figure)
    shown[next(mime for mime, ending in _ENDINGS.items() if file.endswith("." + ending))] = _File(file)
    try:
        import glovebox_chartdata

        chart = glovebox_chartdata.text(figure, ascii=False)
    except Exception as e:
        notes.append(f"{CHART}: {type(e).__name__}")
        return
    if chart:
        shown[CHART] = chart


def _table(frame, shown, notes):
    if frame.size > _MOST_CELLS:
        notes.append(f"{TABLE}: it has more than {_MOST_CELLS} cells")
        return
    shown[TABLE] = {str(name): frame.iloc[:, i].tolist() for i, name in enumerate(frame.columns)}


def _told(mime, content, room, notes):
    """Returns the JSON of what is shown in one media type; None of what is left out."""
    if isinstance(content, _File):
        return b'{"artifact":%s}' % _quoted(content)
    if isinstance(content, str) and mime in _BINARY:
        try:
            content = base64.b64decode(content)
        except ValueError:
            notes.append(f"{mime}: it is neither bytes nor base64")
            return None
    if isinstance(content, (bytes, bytearray, memoryview)):
        return _written(mime, bytes(content), notes)
    if not isinstance(content, str):
        try:
            content = json.dumps(_plain(content), ensure_ascii=False, separators=(",", ":"))
        except Exception as e:
            notes.append(f"{mime}: {type(e).__name__}")
            return None
    if mime == "text/plain":
        return _beginning(content, room, notes)
    if len(content) < room:
        told = _quoted(content)
        if len(told) <= room:
            return told
    most = room if mime == TABLE else _MOST
    if len(content) >= most:
        notes.append(f"{mime}: it is longer than {max(most, 0)} characters")
        return None
    return _written(mime, content.encode("utf-8", "replace"), notes)


def _beginning(text, room, notes):
    told, length = _quoted(text[:room]) if room > 2 else b"", min(len(text), room)
    while room > 2 and len(told) > room:
        length = length * 3 // 4
        told = _quoted(text[:length])
    if length < len(text) or not told:
        notes.append(f"text/plain: the first {max(length, 0)} of {len(text)} characters")
    return told or None


def _written(mime, content, notes):
    if len(content) > _MOST:
        notes.append(f"{mime}: it is longer than {_MOST} bytes")
        return None
    global _number
    while True:
        _number += 1
        name = f"result-{_number}.{_ENDINGS.get(mime, 'bin')}"
        try:
            with open(os.path.join(glovebox_charts.HOME, name), "xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        except OSError as e:
            notes.append(f"{mime}: its file can't be written: {e.strerror}")
            return None
        return b'{"artifact":%s}' % _quoted(name)


def _plain(value, depth=0):
    """Returns the value as JSON can have it: what is not a number is null, and what is none of JSON's types its text."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None
    if depth > 32:
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, depth + 1) for one in value]
    if _is(value, "numpy", "generic"):
        return _plain(value.item(), depth + 1)
    if _is(value, "numpy", "ndarray"):
        return _plain(value.tolist(), depth + 1)
    if hasattr(value, "isoformat"):
        return None if value != value else value.isoformat()  # NaT is no time
    return None if type(value).__name__ == "NAType" else str(value)
