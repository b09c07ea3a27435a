"""Saves what is drawn with matplotlib, without being asked.

plt.show() writes every open figure to chart-1.png, chart-2.png… in the directory in
which Python started, and closes it, as closing its window would. A figure that is
still open when the program ends, and that it has not saved itself, is written too: by
the process that drew it.

A .pth file imports this module with every start of Python, so until matplotlib is
imported it costs one look at each module's name.
"""

import os
import sys

# Made when the image was built; matplotlib would search for fonts in every job.
_FONTS = "/usr/local/lib/glovebox/matplotlib"

# Called with the name of each file that a figure is written to, and the figure: a session says so.
written = None

# Asked for here, and not at matplotlib's import: the program may have gone elsewhere then.
try:
    _HOME = os.getcwd()
except OSError:
    _HOME = "."  # it was removed: the program has to find another


class _Finder:
    """Steps in when matplotlib, and then its Agg backend, are imported."""

    def __init__(self):
        self._hooks = {
            "matplotlib": (_offer_fonts, None),
            "matplotlib.backends.backend_agg": (None, _save_figures),
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


def _save_figures(agg):
    """Gives figures of the Agg backend a window whose opening is a file."""
    import atexit

    from matplotlib._pylab_helpers import Gcf
    from matplotlib.backend_bases import FigureManagerBase

    number = 0

    def save(figure):
        nonlocal number
        while True:
            number += 1
            name = f"chart-{number}.png"
            try:
                with open(os.path.join(_HOME, name), "xb") as file:
                    print_figure(figure.canvas, file, format="png")
            except FileExistsError:
                continue
            if written:
                written(name, figure)
            return

    class Manager(FigureManagerBase):
        def show(self):
            save(self.canvas.figure)
            Gcf.destroy(self)

        @classmethod
        def pyplot_show(cls, *args, **kwargs):
            for manager in Gcf.get_all_fig_managers():
                manager.show()

    print_figure = agg.FigureCanvasAgg.print_figure

    def print_figure_and_remember(self, *args, **kwargs):
        result = print_figure(self, *args, **kwargs)
        self.figure._glovebox_saved = True
        return result

    agg.FigureCanvasAgg.print_figure = print_figure_and_remember
    agg.FigureCanvasAgg.manager_class = Manager
    agg.FigureManager = Manager

    def save_what_is_open():
        for manager in Gcf.get_all_fig_managers():
            if not getattr(manager.canvas.figure, "_glovebox_saved", False):
                save(manager.canvas.figure)

    def leave_to_parent():
        for manager in Gcf.get_all_fig_managers():
            manager.canvas.figure._glovebox_saved = True

    atexit.register(save_what_is_open)
    os.register_at_fork(after_in_child=leave_to_parent)


sys.meta_path.insert(0, _Finder())
