"""Saves what is drawn with matplotlib, without being asked.

plt.show() writes every open figure to chart-1.png, chart-2.png… in the directory in
which Python started, and closes it, as closing its window would. A show that waits for
nobody (block=False, plt.pause, Figure.show) leaves it open: it is written once, when it
is closed or the program ends. A figure that is still open when the program ends, and
that it has not saved itself, is written too: by the process that drew it. An image that
a job writes to a file, here or itself, has the data that it shows in its metadata
(glovebox_chartdata.py).

A .pth file imports this module with every start of Python, so until matplotlib is
imported it costs one look at each module's name.
"""

import io
import os
import sys

# Made when the image was built; matplotlib would search for fonts in every job.
_FONTS = "/usr/local/lib/glovebox/matplotlib"
# Have what matplotlib's own lack, from which letter on and up to which: from Chinese to Korean, and emoji, which are black.
_EASTERN = "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc"
_MORE_FONTS = (
    ("\u2e80", "\U0001f000", _EASTERN),
    ("\U0001f000", "\U00020000", "/usr/share/fonts/truetype/ancient-scripts/Symbola_hint.ttf"),
    ("\U00020000", "\U00040000", _EASTERN),
)
# Bytes of a font that is held in memory.
_MOST_FONT = 8 << 20

# Called with the name of each file that a figure was written to, and the figure: a session says so.
written = None

# Set where matplotlib has its backend. save writes a figure to a new file and returns the file's name. close_figures closes all, and shows those
# before that nobody has seen.
save = None
close_figures = None

# Asked for here, and not at matplotlib's import: the program may have gone elsewhere then.
try:
    HOME = os.getcwd()
except OSError:
    HOME = "."  # it was removed: the program has to find another


def in_session(tell):
    """Has each figure told of from here on: tell is called as written."""
    global written
    written = tell


class _Finder:
    """Steps in when matplotlib, and then its Agg backend, are imported."""

    def __init__(self):
        self._hooks = {
            "matplotlib": (_offer_fonts, None),
            "matplotlib.font_manager": (None, _prepare_fonts),
            "matplotlib.text": (None, _look_for_letters),
            "matplotlib.backends.backend_agg": (None, _prepare_agg),
            "matplotlib.axes._axes": (None, _note_what_artists_lose),
        }

    def find_spec(self, name, path=None, target=None):
        if name not in self._hooks:
            return None
        before, after = self._hooks.pop(name)
        if not self._hooks:
            sys.meta_path.remove(self)
        if before:
            before()
        if not after:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec and spec.loader:
                spec.loader = _Loader(spec.loader, after)
                return spec
        return None


class _Loader:
    """A module's own loader, with something to do once the module is there."""

    def __init__(self, loader, after):
        self._loader = loader
        self._after = after

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._after(module)


def _offer_fonts():
    """Puts the list of fonts where matplotlib looks for the one it made itself."""
    directory = os.environ.get("MPLCONFIGDIR")
    if not directory:
        return
    try:
        os.makedirs(directory, exist_ok=True)
        for name in os.listdir(_FONTS):
            os.symlink(os.path.join(_FONTS, name), os.path.join(directory, name))
    except OSError:
        pass  # then matplotlib makes its own


_wanted = []  # of these, for letters that are in a text of the program


def _look_for_letters(module):
    """Notes when a text has letters of another font: one of some MB is read for these alone."""
    from functools import wraps

    set_text = module.Text.set_text

    @wraps(set_text)
    def set_text_and_look(self, s):
        set_text(self, s)
        text = self.get_text()
        if text.isascii() or max(text) < _MORE_FONTS[0][0]:
            return
        for first, end, font in _MORE_FONTS:
            if font not in _wanted and any(first <= letter < end for letter in text) and os.path.exists(font):
                _wanted.append(font)

    module.Text.set_text = set_text_and_look


def _prepare_fonts(module):
    _add_letters(module)
    _read_fonts_at_once(module)


def _add_letters(module):
    """Adds to each choice of fonts the one with more letters, once a text has such: seaborn and programs choose their own, which would lose one that is set."""
    find = getattr(module.FontManager, "_find_fonts_by_props", None)
    if find is None:
        return  # another matplotlib

    def find_with_letters(self, prop, fontext="ttf", *args, **kwargs):
        found = find(self, prop, fontext, *args, **kwargs)
        return [*found, *(font for font in _wanted if font not in found)] if fontext == "ttf" else found

    module.FontManager._find_fonts_by_props = find_with_letters


def _read_fonts_at_once(module):
    """Has the file of a font read once, as a whole.

    FreeType reads some bytes of it for each letter that it draws, and in a sandbox these
    reads take 20 times as long as the drawing.
    """
    load = getattr(module, "_get_font", None)
    if load is None:
        return  # another matplotlib
    builtin = io.open

    class Font(io.BytesIO):
        """A font's file, in memory. name is where it was read from."""

    def get_font(paths, *args, **kwargs):
        if io.open is not builtin:
            return load(paths, *args, **kwargs)  # it is the program's own

        def at_once(file, *args, **kwargs):
            opened = builtin(file, *args, **kwargs)
            if file not in paths or args != ("rb",) or os.fstat(opened.fileno()).st_size > _MOST_FONT:
                return opened
            with opened:
                font = Font(opened.read())
            font.name = file
            return font

        io.open = at_once
        try:
            return load(paths, *args, **kwargs)
        finally:
            io.open = builtin

    get_font.cache_clear, get_font.cache_info = load.cache_clear, load.cache_info
    module._get_font = get_font


def _note_what_artists_lose(module):
    """Keeps, with the first artist of each, what box plots, histograms and pies were made of: what is drawn doesn't say it."""
    from functools import wraps

    draw_boxes, draw_histogram, draw_pie = module.Axes.bxp, module.Axes.hist, module.Axes.pie

    @wraps(draw_boxes)
    def bxp(self, bxpstats, *args, **kwargs):
        bxpstats = list(bxpstats)
        parts = draw_boxes(self, bxpstats, *args, **kwargs)
        if parts["medians"]:
            parts["medians"][0]._glovebox_boxes = bxpstats, parts
        return parts

    @wraps(draw_histogram)
    def hist(self, *args, **kwargs):
        values, bins, drawn = draw_histogram(self, *args, **kwargs)
        several = len(drawn) and not hasattr(drawn[0], "get_path")  # a list for each set of values
        below = None
        for top, one in zip(values if several else [values], drawn if several else [drawn]):
            if hasattr(one, "datavalues"):
                one._glovebox_bins = bins
            elif one:
                one[0]._glovebox_bins = top if below is None else top - below, below, bins, kwargs.get("orientation") == "horizontal"
                below = top if kwargs.get("stacked") else None
        return values, bins, drawn

    @wraps(draw_pie)
    def pie(self, x, *args, **kwargs):
        drawn = draw_pie(self, x, *args, **kwargs)
        if drawn[0]:
            drawn[0][0]._glovebox_pie = drawn[0], kwargs["data"][x] if isinstance(x, str) else x
        return drawn

    module.Axes.bxp, module.Axes.hist, module.Axes.pie = bxp, hist, pie


def _prepare_agg(agg):
    _save_figures(agg)
    _draw_when_looked_at(agg)


def _draw_when_looked_at(agg):
    """Has pyplot.savefig draw a figure once, and not twice.

    With the picture saved it asks for another drawing, for a window that shows the figure as it is. No figure has one here, so the drawing
    waits until somebody looks at the canvas's pixels; mostly nobody does. It is made at once where anything else would tell that it waits.
    """
    canvas_class = getattr(agg, "FigureCanvasAgg", None)
    draw, draw_idle = getattr(canvas_class, "draw", None), getattr(canvas_class, "draw_idle", None)
    if draw is None or draw_idle is None or hasattr(canvas_class, "renderer"):
        return  # another matplotlib

    def draw_now(self):
        vars(self).pop(_DUE, None)
        draw(self)
        vars(self)[_DRAWN] = True

    def draw_later(self, *args, **kwargs):
        own = type(self) is canvas_class and "draw" not in vars(self)  # and not a drawing of the program's
        if args or kwargs or not own or not _is_savefig(sys._getframe(1)) or not _is_as_drawn(self):
            return draw_idle(self, *args, **kwargs)
        vars(self)[_DUE] = True
        self.figure.stale = False  # as a drawing leaves it

    class Renderer:
        """The canvas's attribute, which has the pixels: all that reads them asks for it."""

        def __get__(self, canvas, owner=None):
            if canvas is None:
                raise AttributeError("renderer")
            if _DUE in vars(canvas):
                draw_idle(canvas)
            try:
                return vars(canvas)["renderer"]
            except KeyError:
                raise AttributeError(f"{type(canvas).__name__!r} object has no attribute 'renderer'") from None

        def __set__(self, canvas, renderer):
            vars(canvas)["renderer"] = renderer

        def __delete__(self, canvas):
            vars(canvas).pop("renderer", None)

    draw_now.__doc__, draw_later.__doc__ = draw.__doc__, draw_idle.__doc__
    canvas_class.draw, canvas_class.draw_idle, canvas_class.renderer = draw_now, draw_later, Renderer()


# Attributes of a canvas: a drawing waits; the picture that is being saved, or was saved last, was drawn by this canvas.
_DUE, _DRAWN = "_glovebox_due", "_glovebox_drawn"


def _is_savefig(frame):
    """Whether the frame is pyplot's savefig, which asks for a drawing behind each picture."""
    savefig = getattr(sys.modules.get("matplotlib.pyplot"), "savefig", None)
    while hasattr(savefig, "__wrapped__"):
        savefig = savefig.__wrapped__
    return frame.f_code is getattr(savefig, "__code__", None)


def _is_as_drawn(canvas):
    """Whether another drawing would change nothing but the canvas's pixels.

    The picture has to have the figure's own size and dpi: texts know the renderer that drew them last. A layout may move with each drawing, and
    whoever listens to drawings counts them.
    """
    from matplotlib.figure import Figure

    figure = canvas.figure
    if type(figure).draw is not Figure.draw or "draw" in vars(figure):
        return False
    if _DRAWN not in vars(canvas) or getattr(canvas, "_lastKey", None) != (*figure.bbox.size, figure.dpi):
        return False
    layout = figure.get_layout_engine()
    return (layout is None or type(layout).__name__ == "PlaceHolderLayoutEngine") and not canvas.callbacks.callbacks.get("draw_event")


def _has_other_colours(options):
    """Whether a picture was saved with other colours around it than the figure's."""
    from matplotlib import rcParams

    for name in "facecolor", "edgecolor":
        colour = options.get(name)
        if colour is None:
            colour = rcParams[f"savefig.{name}"]
        if not isinstance(colour, str) or colour != "auto":
            return True
    return False


def _save_figures(agg):
    """Gives figures of the Agg backend a window whose opening is a file."""
    import atexit

    from matplotlib import is_interactive
    from matplotlib._pylab_helpers import Gcf
    from matplotlib.backend_bases import FigureManagerBase

    global save, close_figures
    number = 0

    def save(figure):
        nonlocal number
        while True:
            number += 1
            name = f"chart-{number}.png"
            path = os.path.join(HOME, name)
            try:
                file = open(path, "xb")
            except FileExistsError:
                continue
            try:
                options = {"format": "png"}
                if not written:
                    _add_data(figure, options, "png")
                with file:
                    print_figure(figure.canvas, file, **options)
            except BaseException:
                os.unlink(path)
                raise
            note(figure, saved=True, told=True, due=False)
            return name

    def note(figure, saved, told, due):
        """Notes of a figure where it was saved since it was shown, whether a session has told of it, and whether it is to be written before it is closed."""
        figure._glovebox_saved, figure._glovebox_told, figure._glovebox_due = saved, told, due

    def is_due(figure):
        return getattr(figure, "_glovebox_due", False)

    def save_and_tell(figure):
        name = save(figure)
        if written:
            written(name, figure)

    def finish(figure):
        """Saves a figure unless the program has; a session tells of it in both cases."""
        saved = getattr(figure, "_glovebox_saved", None)
        name = _name_of(saved) if saved and written else None
        if name:
            note(figure, saved, told=True, due=False)
            written(name, figure)
        elif not saved or written and is_due(figure):
            save_and_tell(figure)

    def finish_or_say(manager):
        """One that can't be drawn keeps no other from being saved."""
        figure = manager.canvas.figure
        try:
            finish(figure)
        except Exception as e:
            note(figure, saved=True, told=True, due=False)
            print(f"figure {manager.num} can't be saved: {type(e).__name__}:", *str(e).split(), file=sys.stderr)

    class Manager(FigureManagerBase):
        def show(self):
            """Is Figure.show, which waits for nobody: the program may go on with the figure, and show it again for each frame."""
            if self in Gcf.get_all_fig_managers():
                note(self.canvas.figure, saved=None, told=False, due=True)
            else:
                save_and_tell(self.canvas.figure)  # it is closed already

        def destroy(self):
            if is_due(self.canvas.figure):
                finish_or_say(self)

        @classmethod
        def pyplot_show(cls, block=None, **_):
            if block is None:
                block = bool(written) or not is_interactive()  # in a session it shows there and then, as in a notebook
            for manager in Gcf.get_all_fig_managers():
                if block:
                    save_and_tell(manager.canvas.figure)
                    Gcf.destroy(manager)
                else:
                    manager.show()

    print_figure = agg.FigureCanvasAgg.print_figure

    def print_figure_and_remember(self, filename, *args, **kwargs):
        name, form = _named(self, filename, args[4] if len(args) > 4 else kwargs.get("format"))
        if not written and isinstance(name, str):
            _add_data(self.figure, kwargs, form)
        vars(self).pop(_DRAWN, None)
        result = print_figure(self, filename, *args, **kwargs)
        if args or _has_other_colours(kwargs):
            vars(self).pop(_DRAWN, None)  # the canvas has the picture's colours now, and not the figure's
        self.figure._glovebox_saved = name
        return result

    agg.FigureCanvasAgg.print_figure = print_figure_and_remember
    agg.FigureCanvasAgg.manager_class = Manager
    agg.FigureManager = Manager

    def save_what_is_open():
        for manager in Gcf.get_all_fig_managers():
            if not getattr(manager.canvas.figure, "_glovebox_saved", None):
                finish_or_say(manager)

    def close_figures(show):
        failure = None
        try:
            for manager in Gcf.get_all_fig_managers():
                figure = manager.canvas.figure
                if not isinstance(manager, Manager) or not (show or is_due(figure)) or getattr(figure, "_glovebox_told", False):
                    continue
                try:
                    finish(figure)
                except Exception as e:
                    failure = failure or e
        finally:
            disown()
            Gcf.destroy_all()
        if failure:
            raise failure

    def disown():
        """What is open is neither saved nor told of any more."""
        for manager in Gcf.get_all_fig_managers():
            note(manager.canvas.figure, saved=True, told=True, due=False)

    atexit.register(save_what_is_open)
    os.register_at_fork(after_in_child=disown)  # they are the parent's


def _named(canvas, filename, form):
    """The name of the file that print_figure writes, where it is one, and its format: the default one is added to a name without."""
    if isinstance(filename, os.PathLike):
        filename = os.fspath(filename)
    if not form and isinstance(filename, str):
        form = os.path.splitext(filename)[1][1:]
        if not form:
            form = canvas.get_default_filetype()
            filename = f"{filename.rstrip('.')}.{form}"
    return filename, form


def _add_data(figure, options, format):
    """Adds the figure's data to the metadata with which it will be written, where the format has a place for them. A session's results have them otherwise."""
    name, mark = {"png": ("glovebox:chart", ""), "svg": ("Description", "glovebox:chart ")}.get(str(format).lower(), ("", ""))
    metadata = options.get("metadata") or {}
    if not name or name in metadata or "pnginfo" in (options.get("pil_kwargs") or {}):
        return
    import glovebox_chartdata

    try:
        data = glovebox_chartdata.text(figure)
    except Exception as e:  # of a class of the program's, say
        data = glovebox_chartdata.unknown(f"its data can't be read: {type(e).__name__}")
    if data:
        options["metadata"] = {**metadata, name: mark + data}


def _name_of(saved):
    """The name, below the first directory, of an image that the program has saved there itself; None of any other."""
    try:
        name = os.path.relpath(os.path.realpath(saved), HOME)
    except (TypeError, ValueError, OSError):
        return None  # not to a file
    return name if name.endswith((".png", ".svg", ".jpg", ".pdf")) and not name.startswith("..") else None


sys.meta_path.insert(0, _Finder())
