"""Reads from a figure of matplotlib what it shows, for a session's results.

The form is one that clients of code interpreters know: type, title, axes and elements.
A figure with several charts is of the type superchart, and they are its elements.
"""

# As many points, bars and slices are told of one figure. More are not looked at: nobody reads them.
_MOST = 10_000


def of(figure):
    """Returns the figure's data as a dict; None where it has no axes, or too much to tell.

    Figures that matplotlib draws something else with are of the type unknown.
    """
    axes = [a for a in figure.get_axes() if a.get_label() != "<colorbar>"]
    charts = [_chart(a) for a in axes]
    if not charts or sum(_size(chart) for chart in charts) > _MOST:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure.get_suptitle() if hasattr(figure, "get_suptitle") else ""
    return {"type": "superchart", "title": title, "elements": charts}


def _size(chart):
    return sum(len(one.get("points", ())) + len(one.get("outliers", ())) + 1 for one in chart["elements"])


def _chart(axes):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge

    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    if wedges:
        return {"type": "pie", "title": axes.get_title(), "elements": [
            {"label": _label(wedge, ""), "angle": float(abs(wedge.theta2 - wedge.theta1)), "radius": float(wedge.r)} for wedge in wedges
        ]}
    chart = {"type": "unknown", "title": axes.get_title()}
    for name in ("x", "y"):
        label = getattr(axes, f"get_{name}label")()
        chart[f"{name}_label"], chart[f"{name}_unit"] = label, _unit(label)
    boxes = getattr(axes, "_glovebox_boxes", None)
    bars = [c for c in axes.containers if isinstance(c, BarContainer)]
    scatters = [c for c in axes.collections if isinstance(c, PathCollection)]
    if boxes:
        return chart | {"type": "box_and_whisker", "elements": [_box(stats, _tick_labels(axes, i)) for i, stats in enumerate(boxes)]}
    if bars:
        return chart | {"type": "bar", "elements": [bar for n, container in enumerate(bars) for bar in _bars(axes, container, n)]}
    if axes.lines:
        elements = [_series(_label(line, f"Line {n + 1}"), axes, line.get_xdata(orig=False), line.get_ydata(orig=False), line) for n, line in enumerate(axes.lines)]
        return chart | _scales(axes) | {"type": "line", "elements": elements}
    if scatters:
        elements = []
        for n, scatter in enumerate(scatters):
            points = scatter.get_offsets()
            elements.append(_series(_label(scatter, f"Dataset {n + 1}"), axes, points[:, 0], points[:, 1]))
        return chart | _scales(axes) | {"type": "scatter", "elements": elements}
    return chart | {"elements": []}


def _label(artist, otherwise):
    label = str(artist.get_label())
    return otherwise if label.startswith("_") or not label else label


def _unit(label):
    """Returns what a label has at its end in brackets, the unit by custom; None if there is nothing."""
    for begin, end in ("()", "[]"):
        if label.endswith(end) and begin in label:
            return label[label.rindex(begin) + 1 : -1] or None
    return None


def _scales(axes):
    told = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        ticks = axis.get_majorticklocs()
        told[f"{name}_scale"] = _scale(axis)
        told[f"{name}_ticks"] = _values(axis, ticks)
        told[f"{name}_tick_labels"] = [tick.get_text() for tick in axis.get_ticklabels()]
    return told


def _scale(axis):
    from matplotlib.category import UnitData
    from matplotlib.dates import DateConverter, _SwitchableDateConverter

    if isinstance(axis.units, UnitData):
        return "categorical"
    if isinstance(axis.get_converter(), (DateConverter, _SwitchableDateConverter)):
        return "datetime"
    return axis.get_scale()


def _values(axis, values):
    """Returns what an axis has at these places: numbers, dates as ISO 8601 has them, or categories. What is none is None."""
    scale = _scale(axis)
    if scale == "categorical":
        names = {place: name for name, place in axis.units._mapping.items()}
        return [names.get(value, _number(value)) for value in values]
    if scale == "datetime":
        from matplotlib.dates import num2date

        return [num2date(value).isoformat() if _number(value) is not None else None for value in values]
    return [_number(value) for value in values]


def _number(value):
    value = float(value)
    return value if value - value == 0 else None  # neither infinite nor NaN


def _series(label, axes, x, y, line=None):
    if len(x) > _MOST:
        return {"label": label, "points": range(len(x))}  # too many: the figure is not told
    x, y = _values(axes.xaxis, x), _values(axes.yaxis, y)
    if line is not None:  # of pandas, which draws periods by their ordinal numbers
        original = line.get_xdata(orig=True)
        if len(original) == len(x) and hasattr(original, "to_timestamp"):
            x = [when.isoformat() for when in original.to_timestamp()]
    return {"label": label, "points": [list(point) for point in zip(x, y)]}


def _tick_labels(axes, i):
    labels = [label.get_text() for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()]
    return labels[i] if i < len(labels) else ""


def _box(stats, label):
    named = {"min": "whislo", "first_quartile": "q1", "median": "med", "third_quartile": "q3", "max": "whishi"}
    told = {ours: _number(stats[theirs]) for ours, theirs in named.items()}
    return {"label": str(stats.get("label") or label), **told, "outliers": [_number(value) for value in stats.get("fliers", ())][: _MOST + 1]}


def _bars(axes, container, n):
    lying = container.orientation == "horizontal"
    axis = axes.yaxis if lying else axes.xaxis
    labels = {}
    for tick, label in zip(axis.get_majorticklocs(), axis.get_ticklabels()):
        labels[float(tick)] = label.get_text()
    fixed = type(axis.get_major_locator()).__name__ in ("FixedLocator", "StrCategoryLocator")  # whoever draws has named the bars
    group = _label(container, "")
    bars = []
    for patch in container.patches[: _MOST + 1]:
        begin, width = (patch.get_y(), patch.get_height()) if lying else (patch.get_x(), patch.get_width())
        value = patch.get_width() if lying else patch.get_height()
        middle = begin + width / 2
        label = str(_values(axis, [middle])[0])
        if fixed and labels:
            near = min(labels, key=lambda tick: abs(tick - middle))
            label = labels[near] or label
        bars.append({"label": label, "group": group, "value": _number(value)})
    return bars
