"""Has what code for notebooks imports from IPython.display, made of a session's own display."""

import builtins

_IMAGES = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


class DisplayObject:
    """Something of one media type: data, or what a file has."""

    _mime = "text/plain"
    _mode = "r"

    def __init__(self, data=None, url=None, filename=None, metadata=None, **_):
        self.data, self.url, self.filename, self.metadata = data, url, filename, metadata or {}
        if filename is not None:
            self.reload()

    def reload(self):
        with open(self.filename, self._mode, encoding=None if "b" in self._mode else "utf-8") as file:
            self.data = file.read()

    def _repr_mimebundle_(self):
        return {self._mime: self.data}

    def __repr__(self):
        return f"<IPython.core.display.{type(self).__name__} object>"


class HTML(DisplayObject):
    _mime = "text/html"

    def __html__(self):
        return self.data


class Markdown(DisplayObject):
    _mime = "text/markdown"


class Latex(DisplayObject):
    _mime = "text/latex"


class Math(Latex):
    def _repr_mimebundle_(self):
        return {self._mime: "$\\displaystyle %s$" % self.data.strip("$")}


class SVG(DisplayObject):
    _mime = "image/svg+xml"

    def __init__(self, data=None, url=None, filename=None, **more):
        if isinstance(data, str) and filename is None and "<" not in data:
            data, filename = None, data
        super().__init__(data, url, filename, **more)


class JSON(DisplayObject):
    _mime = "application/json"


class Javascript(DisplayObject):
    _mime = "application/javascript"


class Pretty(DisplayObject):
    def __repr__(self):
        return str(self.data)


class Code(Pretty):
    pass


class Image(DisplayObject):
    """An image: its bytes, or a file's. One that only an address is known of is shown as HTML."""

    _mode = "rb"

    def __init__(self, data=None, url=None, filename=None, **more):
        if isinstance(data, str) or hasattr(data, "__fspath__"):
            where = str(data)
            data, url, filename = None, *((where, filename) if "://" in where else (url, where))
        super().__init__(data, url, filename, **more)
        if self.data is None and self.url is None:
            raise ValueError("an image needs data, a filename or a url")

    def _repr_mimebundle_(self):
        if self.data is None:
            import html

            return {"text/html": f'<img src="{html.escape(self.url)}"/>'}
        if self.data.lstrip()[:4] in (b"<svg", b"<?xm"):
            return {"image/svg+xml": self.data.decode("utf-8", "replace")}
        mime = next((mime for beginning, mime in _IMAGES if self.data.startswith(beginning)), None)
        if mime is None:
            raise ValueError("neither a PNG, JPEG, GIF, WebP nor SVG")
        return {mime: self.data}


class DisplayHandle:
    """What is displayed with an id. It can't be changed where it is: what it becomes is displayed, too."""

    def __init__(self, display_id=None):
        self.display_id = display_id

    def display(self, value, **more):
        builtins.display(value, **more)

    update = display


def display(*values, display_id=None, **more):
    builtins.display(*values, **more)
    return DisplayHandle(display_id) if display_id else None


def update_display(value, *, display_id, **more):
    builtins.display(value, **more)


def clear_output(wait=False):
    """Does nothing: what was printed was printed."""


def set_matplotlib_formats(*_, **__):
    """Does nothing: figures are shown as PNG."""


def _displays(kind):
    def display_kind(*values, raw=False, **more):
        builtins.display(*(kind(value) if raw else value for value in values), **more)

    return display_kind


display_html, display_markdown, display_latex, display_svg, display_json, display_javascript = map(_displays, (HTML, Markdown, Latex, SVG, JSON, Javascript))
