"""Reads from a figure of matplotlib what it shows, so that it can be drawn again (docs/charts.md has the form).

A chart has its axes and its series; each series says its type and has its values in columns. A figure with several axes is of the type
multiple, and each of them is one of its charts.
"""

import json
import math
import sys

import numpy as np

# Values that are told of one figure, at most: where there are more, each series has every so many-th of its own. The next is taken where the text is too long.
_MOST_VALUES = (20_000, 5_000, 1_000, 200)
# Bytes of the text: job.MaxChart.
_MOST_BYTES = 256 << 10
_MOST_SERIES = 200  # of one of its axes
_MOST_SERIES_OF_ALL = 2_000  # job.MaxChartObjects bounds them with axes and boxes
_MOST_CHARTS = 100
_MOST_LINES = 1_000  # that one artist draws, with gaps between them
_MOST_TICKS = 200
_MOST_TEXT = 200  # characters of a label
# What goes across the axes, and marks something in a chart of another type.
_MARKS = {"hline", "vline", "hspan", "vspan"}


def text(figure, ascii=True):
    """Returns the figure's data as JSON; None where it has no axes."""
    for most in _MOST_VALUES:
        told = of(figure, most)
        if told is None:
            return None
        told = json.dumps(told, ensure_ascii=ascii, separators=(",", ":"))
        if len(told if ascii else told.encode("utf-8", "replace")) <= _MOST_BYTES:
            return told
    return unknown("its data are too long")


def unknown(note):
    return json.dumps({"type": "unknown", "title": "", "note": note})


def of(figure, most=_MOST_VALUES[0]):
    """Returns the figure's data as a dict, with so many values at most; None where it has no axes."""
    axes = _axes(figure)
    if not axes:
        return None
    shown = axes[:_MOST_CHARTS]
    most_series = min(_MOST_SERIES, _MOST_SERIES_OF_ALL // len(shown))
    charts = [_chart(one, most_series) for one in shown]
    every = max(1, math.ceil(sum(_size(series) for chart in charts for series in chart.get("series", ())) / most))
    for chart in charts:
        if "series" in chart:
            chart["series"] = [_converted(series, every) for series in chart["series"]]
    if len(axes) == 1:
        return charts[0]
    for n, (one, chart) in enumerate(zip(axes, charts)):
        place = one.get_subplotspec()
        if place is not None:
            chart["row"], chart["column"] = place.rowspan.start, place.colspan.start
        below = next((i for i in range(n) if one._twinned_axes.joined(one, axes[i])), None)
        if below is not None:
            chart["twin"] = below
    told = {"type": "multiple", "title": _short(figure.get_suptitle()), "charts": charts}
    if len(axes) > _MOST_CHARTS:
        told["note"] = f"the first {_MOST_CHARTS} of {len(axes)} axes"
    return told


def _axes(figure):
    """The axes that show something, with those that lie within others; color bars belong to what they explain."""
    from matplotlib.axes import Axes

    found = [a for a in figure.get_axes() if a.get_label() != "<colorbar>" and a.get_visible()]
    return found + [child for a in found for child in a.child_axes if isinstance(child, Axes) and child.get_visible()]


class _Column:
    """Values of a series that are not converted yet. axis is the one that they lie on; None for plain numbers."""

    def __init__(self, values, axis=None, ends=False):
        self.values, self.axis, self.ends = np.ma.asarray(values), axis, ends

    def converted(self, every):
        values = self.values[::every]
        if self.ends and every > 1:  # each kept bin begins where it did
            values = np.ma.append(self.values[:-1][::every], self.values[-1:])
        return _values(self.axis, values)


class _Grid:
    """Rows of numbers."""

    def __init__(self, rows):
        self.values = np.ma.asarray(rows)

    def converted(self, every):
        return [[_number(value) for value in row] for row in self.values[::every, ::every]]


def _size(series):
    columns = [value.values.size for value in series.values() if isinstance(value, (_Column, _Grid))]
    return sum(columns) + sum(8 + box["outliers"].values.size for box in series.get("boxes", ()))


def _converted(series, every):
    lengths = [value.values.size for value in series.values() if isinstance(value, (_Column, _Grid))]
    lengths += [box["outliers"].values.size for box in series.get("boxes", ())]
    told = {}
    for name, value in series.items():
        if name == "boxes":
            value = [box | {"outliers": box["outliers"].converted(every)} for box in value]
        elif isinstance(value, _Grid):
            value = value.converted(math.isqrt(every - 1) + 1)  # of rows and of columns
        elif isinstance(value, _Column):
            value = value.converted(math.isqrt(every - 1) + 1 if "z" in series else every)
        elif name == "labels":
            value = value[::every]
        told[name] = value
    if every > 1 and max(lengths, default=0) > 1:
        told["every"], told["total"] = (math.isqrt(every - 1) + 1 if "z" in series else every), max(lengths)
    return told


def _chart(axes, most_series):
    chart = {"type": "empty", "title": _short(axes.get_title())}
    if axes.name == "3d":
        return chart | {"type": "unknown", "series": [{"type": "unknown", "label": "", "class": type(axes).__name__}]}
    if axes.name != "rectilinear":
        chart["projection"] = axes.name
    series = list(_series(axes))
    kinds = {one["type"] for one in series}
    plain = kinds - _MARKS or kinds
    if series:
        chart["type"] = "mixed" if len(plain) > 1 else plain.pop()
    if chart["type"] not in ("pie", "empty"):
        chart["x"], chart["y"] = _axis(axes.xaxis), _axis(axes.yaxis)
    if series:
        chart["series"] = series[:most_series]
    if len(series) > most_series:
        chart["note"] = f"the first {most_series} of {len(series)} series"
    return chart


def _series(axes):
    """Yields what is drawn on the axes: first what several artists were made for, which are then left out."""
    from matplotlib.container import BarContainer, ErrorbarContainer, StemContainer

    seen = set()
    noted = ("_glovebox_boxes", "_glovebox_pie")
    for artist in [*axes.lines, *axes.patches]:
        boxes, pie = (getattr(artist, name, None) for name in noted)
        if boxes:
            stats, parts = boxes
            seen.update(id(part) for some in parts.values() for part in some)
            yield _boxes(axes, stats, parts)
        if pie:
            wedges, values = pie
            seen.update(id(wedge) for wedge in wedges)
            yield _pie(wedges, values)
    for container in axes.containers:
        parts = [part for part in container.get_children() if part is not None]
        if id(container) in seen or not any(part.axes is axes and part.get_visible() and id(part) not in seen for part in parts):
            continue
        seen.update(id(part) for part in parts)
        if isinstance(container, BarContainer):
            if container.errorbar:
                seen.add(id(container.errorbar))
            yield _bars(axes, container)
        elif isinstance(container, ErrorbarContainer):
            if not any(isinstance(other, BarContainer) and other.errorbar is container for other in axes.containers):
                yield _errors(axes, container)
        elif isinstance(container, StemContainer):
            line = container.markerline
            yield {"type": "stem", "label": _label(container), **_columns(axes, line.get_xdata(orig=False), line.get_ydata(orig=False))}
        else:
            yield _unknown(container)
    for artist in [*axes.lines, *axes.patches, *axes.collections, *axes.images, *axes.tables]:
        if id(artist) not in seen and artist.get_visible():
            yield from _drawn(axes, artist)


def _drawn(axes, artist):
    """Yields the series of an artist that stands for itself."""
    from matplotlib.collections import FillBetweenPolyCollection, LineCollection, PathCollection, QuadMesh
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon, Rectangle, Shadow, StepPatch, Wedge

    if isinstance(artist, Line2D):
        yield from _line(axes, artist)
    elif isinstance(artist, Rectangle) and artist.get_data_transform() != axes.transData:
        on_x, on_y = artist.get_data_transform().contains_branch_seperately(axes.transData)
        if on_x:
            yield {"type": "vspan", "label": _label(artist), "x": _Column([artist.get_x(), artist.get_x() + artist.get_width()], axes.xaxis)}
        elif on_y:
            yield {"type": "hspan", "label": _label(artist), "y": _Column([artist.get_y(), artist.get_y() + artist.get_height()], axes.yaxis)}
    elif isinstance(artist, Shadow):
        return
    elif isinstance(artist, Wedge):
        yield _pie([artist], None)
    elif isinstance(artist, StepPatch):
        yield _stairs(axes, artist)
    elif hasattr(artist, "_glovebox_bins"):
        yield _outline(axes, artist)
    elif isinstance(artist, Polygon) and artist.get_data_transform() == axes.transData:
        yield {"type": "polygon", "label": _label(artist), **_columns(axes, *artist.get_xy().T)}
    elif isinstance(artist, PathCollection):
        yield from _scatter(axes, artist)
    elif isinstance(artist, FillBetweenPolyCollection):
        yield _area(axes, artist)
    elif isinstance(artist, LineCollection) and artist.get_transform() == axes.transData:
        lines = [path.vertices for path in artist.get_paths()]
        if not lines:
            return
        every = math.ceil(len(lines) / _MOST_LINES)
        told = {"type": "line", "label": _label(artist), **_columns(axes, *_joined(lines[::every]))}
        yield told | ({"every": every, "total": len(lines)} if every > 1 else {})
    elif isinstance(artist, QuadMesh) and artist.get_array() is not None:
        yield from _mesh(artist)
    elif isinstance(artist, AxesImage) and artist.get_array() is not None and artist.get_array().ndim == 2:
        rows, columns = artist.get_array().shape
        left, right, bottom, top = artist.get_extent()
        begin, end = (top, bottom) if artist.origin == "upper" else (bottom, top)
        yield _heatmap(artist, np.linspace(left, right, columns + 1), np.linspace(begin, end, rows + 1), artist.get_array())
    else:
        yield _unknown(artist)


def _unknown(artist):
    return {"type": "unknown", "label": _label(artist), "class": type(artist).__name__}


def _columns(axes, x, y):
    return {"x": _Column(x, axes.xaxis), "y": _Column(y, axes.yaxis)}


def _joined(parts):
    """The columns of several lines, with a gap after each but the last."""
    gap = np.full((1, 2), np.nan)
    lines = [line for part in parts for line in (part, gap)][:-1]
    return np.concatenate(lines).T if lines else ([], [])


def _line(axes, line):
    if not len(line.get_xdata(orig=False)):
        return
    label = _label(line)
    on_x, on_y = line.get_transform().contains_branch_seperately(axes.transData)
    if not (on_x and on_y):
        if on_y:
            yield {"type": "hline", "label": label, "y": _Column(line.get_ydata(orig=False)[:1], axes.yaxis)}
        elif on_x:
            yield {"type": "vline", "label": label, "x": _Column(line.get_xdata(orig=False)[:1], axes.xaxis)}
        return  # anything else is decoration
    told = {"type": "line", "label": label, **_columns(axes, line.get_xdata(orig=False), line.get_ydata(orig=False))}
    if line.get_drawstyle().startswith("steps"):
        told["type"], told["where"] = "step", line.get_drawstyle()[6:] or "pre"
    elif line.get_linestyle() in ("None", " ", ""):
        told["type"] = "scatter"
    yield told


def _scatter(axes, points):
    places = points.get_offsets()
    if not len(places):
        return
    told = {"type": "scatter", "label": _label(points), **_columns(axes, places[:, 0], places[:, 1])}
    shades, sizes = points.get_array(), points.get_sizes()
    if shades is not None and shades.shape == (len(places),):
        told["values"] = _Column(shades)
    if len(sizes) == len(places) > 1:
        told["sizes"] = _Column(sizes)
    yield told


def _bars(axes, container):
    bins = getattr(container, "_glovebox_bins", None)
    lying = container.orientation == "horizontal"
    boxes = np.array([(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in container.patches], float).reshape(-1, 4)
    if lying:
        boxes = boxes[:, [1, 0, 3, 2]]
    begin, base, width, value = boxes.T
    value_axis, other = (axes.xaxis, axes.yaxis) if lying else (axes.yaxis, axes.xaxis)
    along, across = ("x", "y") if lying else ("y", "x")
    told = {"type": "bar", "label": _label(container), across: _Column(begin + width / 2, other), along: _Column(value, None if base.any() else value_axis)}
    if bins is not None:
        told = {"type": "histogram", "label": told["label"] or _label(container.patches[0]), along: told[along], "edges": _Column(bins, other, ends=True)}
    else:
        told["width"] = _Column(width)
    if base.any():
        told["base"] = _Column(base, value_axis)
    if lying:
        told["orientation"] = "horizontal"
    if container.errorbar:
        spans = _spans(container.errorbar)
        for name, column in ((f"{along}_low", 0), (f"{along}_high", 1)):
            if along in spans and len(spans[along][column]) == len(value):
                told[name] = _Column(spans[along][column], value_axis)
    return told


def _spans(container):
    """What the bars of errors reach over: by the name of their axis, where they begin and where they end."""
    spans = {}
    wanted = [name for name, has in (("x", container.has_xerr), ("y", container.has_yerr)) if has]
    for name, lines in zip(wanted, container.lines[2]):
        ends = np.array([path.vertices[:2, "xy".index(name)] for path in lines.get_paths() if len(path.vertices) > 1], float).reshape(-1, 2)
        spans[name] = ends.T
    return spans


def _errors(axes, container):
    line, _, bars = container.lines
    told = {"type": "errorbar", "label": _label(container)}
    spans = _spans(container)
    if line is not None:
        told |= _columns(axes, line.get_xdata(orig=False), line.get_ydata(orig=False))
    for name, (low, high) in spans.items():
        axis = axes.xaxis if name == "x" else axes.yaxis
        if "x" not in told:  # without a line, the bars say where they stand
            places = np.array([path.vertices[0] for path in bars[0].get_paths() if len(path.vertices) > 1], float).reshape(-1, 2)
            middle = {"x": places[:, 0], "y": places[:, 1], name: (low + high) / 2}
            told |= _columns(axes, middle["x"], middle["y"])
        if len(low) == told["x"].values.size:
            told[f"{name}_low"], told[f"{name}_high"] = _Column(low, axis), _Column(high, axis)
    return told


def _stairs(axes, patch):
    values, edges, base = patch.get_data()
    lying = patch.orientation == "horizontal"
    value_axis, other = (axes.xaxis, axes.yaxis) if lying else (axes.yaxis, axes.xaxis)
    told = {"type": "stairs", "label": _label(patch), "x" if lying else "y": _Column(values, value_axis), "edges": _Column(edges, other, ends=True)}
    if base is not None and np.any(base):
        told["base"] = _Column(np.broadcast_to(base, np.shape(values)), value_axis)
    return told | ({"orientation": "horizontal"} if lying else {})


def _outline(axes, polygon):
    """A histogram of which only the outline is drawn."""
    values, base, bins, lying = polygon._glovebox_bins
    value_axis, other = (axes.xaxis, axes.yaxis) if lying else (axes.yaxis, axes.xaxis)
    told = {"type": "histogram", "label": _label(polygon), "x" if lying else "y": _Column(values), "edges": _Column(bins, other, ends=True)}
    if base is not None:
        told["base"] = _Column(base, value_axis)
    return told | ({"orientation": "horizontal"} if lying else {})


def _area(axes, filled):
    """What lies between two curves: matplotlib goes along the first from its begin, and back along the second."""
    first, second = [], []
    for path in filled.get_paths():
        points = path.vertices[:-1] if path.codes is not None and path.codes[-1] == path.CLOSEPOLY else path.vertices
        half = (len(points) - 2) // 2
        first.append(points[1 : half + 1])
        second.append(points[half + 2 :][::-1])
    first, second = np.array(_joined(first)), np.array(_joined(second))
    lying = filled.t_direction == "y"
    across = 0 if lying else 1
    if np.all((first <= second) | np.isnan(first)) and np.unique(second[across][~np.isnan(second[across])]).size > 1:
        first, second = second, first  # of areas that are stacked, the base is the one below
    told = {"type": "area", "label": _label(filled), **_columns(axes, *first), "base": _Column(second[across], axes.xaxis if lying else axes.yaxis)}
    return told | ({"orientation": "horizontal"} if lying else {})


def _mesh(mesh):
    places, values = mesh.get_coordinates(), mesh.get_array()
    shaded = values.size == places.shape[0] * places.shape[1]  # "gouraud": values are at the places, and fade into each other
    if values.ndim == 1:
        values = values.reshape(places.shape[:2] if shaded else (places.shape[0] - 1, places.shape[1] - 1))
    x, y = places[0, :, 0], places[:, 0, 1]
    if values.ndim != 2 or not (np.array_equal(places[:, :, 0], np.broadcast_to(x, places.shape[:2])) and np.array_equal(places[:, :, 1].T, np.broadcast_to(y, places.shape[1::-1]))):
        yield _unknown(mesh)  # its cells are no rectangles
        return
    if shaded:
        x, y = _between(x), _between(y)
    yield _heatmap(mesh, x, y, values)


def _between(places):
    """Edges midway between places, and at both ends."""
    return np.concatenate([places[:1], (places[:-1] + places[1:]) / 2, places[-1:]])


def _heatmap(artist, x, y, values):
    return {"type": "heatmap", "label": _label(artist), "x_edges": _Column(x, artist.axes.xaxis, ends=True), "y_edges": _Column(y, artist.axes.yaxis, ends=True), "z": _Grid(values)}


def _pie(wedges, values):
    angles = np.array([abs(wedge.theta2 - wedge.theta1) for wedge in wedges], float)
    try:
        values = np.asarray(values, float).ravel()
    except (TypeError, ValueError):
        values = angles
    if len(values) != len(wedges):
        values = angles / 360
    return {
        "type": "pie", "label": "", "labels": [_label(wedge) for wedge in wedges], "values": _Column(values), "angles": _Column(angles),
        "radius": _number(wedges[0].r),
    }


def _boxes(axes, stats, parts):
    names = {"min": "whislo", "first_quartile": "q1", "median": "med", "third_quartile": "q3", "max": "whishi"}
    if parts["means"]:
        names["mean"] = "mean"
    # The median of no values is NaN, which is not below itself.
    lying = not any(min(x) < max(x) for x in (line.get_xdata(orig=False) for line in parts["medians"]))
    axis = axes.yaxis if lying else axes.xaxis
    ticks = {float(place): label.get_text() for place, label in zip(axis.get_majorticklocs(), axis.get_ticklabels())}
    boxes = []
    for one, line in zip(stats, parts["medians"]):
        place = float(np.mean(line.get_ydata(orig=False) if lying else line.get_xdata(orig=False)))
        told = {ours: _number(one[theirs]) for ours, theirs in names.items() if theirs in one}
        told["outliers"] = _Column(one.get("fliers", ()))
        near = min(ticks, key=lambda tick: abs(tick - place), default=place)
        label = ticks.get(near, "") if abs(near - place) < 0.5 else ""
        boxes.append({"label": _short(str(one.get("label") or label)), "position": _number(place), **told})
    return {"type": "box", "label": "", "boxes": boxes} | ({"orientation": "horizontal"} if lying else {})


def _label(artist):
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else _short(label)


def _short(text):
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def _axis(axis):
    label = axis.get_label_text()
    told = {"label": _short(label), "scale": _scale(axis), "range": _values(axis, axis.get_view_interval())}
    if unit := _unit(label):
        told["unit"] = _short(unit)
    ticks = axis.get_majorticklocs()
    if len(ticks) <= _MOST_TICKS:
        told["ticks"] = _values(axis, ticks)
        told["tick_labels"] = [_short(tick.get_text()) for tick in axis.get_ticklabels()]
        if type(axis.get_major_locator()).__name__ == "FixedLocator":
            told["named"] = True
    return told


def _unit(label):
    """Returns what a label has at its end in brackets, the unit by custom; None if there is nothing."""
    for begin, end in ("()", "[]"):
        if label.endswith(end) and begin in label:
            return label[label.rindex(begin) + 1 : -1] or None
    return None


def _scale(axis):
    from matplotlib.category import UnitData
    from matplotlib.dates import DateConverter, _SwitchableDateConverter

    if isinstance(axis.units, UnitData):
        return "categorical"
    if hasattr(axis, "freq") or isinstance(axis.get_converter(), (DateConverter, _SwitchableDateConverter)):
        return "datetime"
    return axis.get_scale()


def _values(axis, values):
    """Returns what an axis has at these places: numbers, dates as ISO 8601 has them, or categories. What is none is None."""
    scale = _scale(axis) if axis is not None else ""
    if scale == "categorical":
        names = {place: _short(str(name)) for name, place in axis.units._mapping.items()}
        return [names.get(number, number) for number in map(_number, values)]
    if scale == "datetime":
        return [_date(axis, value) for value in values]
    return [_number(value) for value in values]


def _date(axis, value):
    value = _number(value)
    if value is None:
        return None
    if hasattr(axis, "freq"):  # of pandas, which draws periods by their ordinal numbers
        return sys.modules["pandas"].Period(ordinal=round(value), freq=axis.freq).to_timestamp().isoformat()
    from matplotlib.dates import num2date

    return num2date(value).isoformat()


def _number(value):
    if value is np.ma.masked:
        return None
    value = float(value)
    if value - value != 0:
        return None  # infinite, or NaN
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
