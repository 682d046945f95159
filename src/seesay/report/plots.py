"""The plots of a report, as SVG with the page's colours: legible on light and dark screens and in print.

Series differ in marker or dashes as well as in colour.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.results.html import Html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Series = Mapping[str, NDArray[np.float64]]
Estimate = tuple[float, float, float]  # a value and the ends of its interval

_TICKS = (1, 2, 5, 10, 20, 50, 100)
_BINS = 25
_WIDTH = 7.2  # inches, that of a printed page
_COLOURS = 6  # series-0 to series-5 of the page's style
_MARKERS = "osD^vP"

# Placeholders for the page's variables until the plot is drawn.
_INK, _FAINT = "#010101", "#020202"
_VARIABLES = {_INK: "var(--ink)", _FAINT: "var(--line)"} | {
    f"#0300{i:02x}": f"var(--series-{i})" for i in range(_COLOURS)
}
_STYLE: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("axes.edgecolor", "grid.color"), _FAINT),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "svg.fonttype"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("axes.grid", "axes.axisbelow"), True),
    **dict(zip(("font.size", "grid.linewidth", "lines.markersize"), (9, 0.7, 4.5), strict=True)),
    "axes.grid.axis": "y",
    "text.parse_math": False,  # a run's name may contain a dollar sign
}


def recall_curves(curves: Mapping[str, Series], alt: str) -> Html:
    """Draw recall in percent at K = 1, 2, …, with a line (k,) for each run and direction."""
    with _plot(3.6) as (figure, (axes,)):
        ways = list(dict.fromkeys(way for lines in curves.values() for way in lines))
        for number, (name, lines) in enumerate(curves.items()):
            for way, line in lines.items():
                label = _label(f"{name}, {way}" if len(ways) > 1 else name)
                marked = [k - 1 for k in _TICKS if k <= len(line)]
                style, k = ("-", "--")[ways.index(way)], np.arange(1, len(line) + 1)
                axes.plot(k, line, style, **_look(number, markevery=marked, label=label))
        axes.set_xscale("log")
        axes.set_xticks(_TICKS, map(str, _TICKS))
        axes.minorticks_off()
        axes.set(xlabel="K", ylabel="recall at K, %", ylim=(0, 100), xlim=(0.95, _TICKS[-1] * 1.05))
        return _svg(figure, axes, alt)


def _label(name: str) -> str:
    """Return a name for the legend, from which Matplotlib omits labels that begin with an underscore."""
    return f"\u200b{name}" if name.startswith("_") else name


def estimates_by_bin(
    estimates: Mapping[str, Sequence[Estimate]], bins: Sequence[str], xlabel: str, ylabel: str, alt: str
) -> Html:
    """Draw the value of each run in each bin, with its interval."""
    with _plot(2.9) as (figure, (axes,)):
        for number, (name, values) in enumerate(estimates.items()):
            aside = (number - (len(estimates) - 1) / 2) * min(0.12, 0.7 / len(estimates))
            value, low, high = np.array(values).T
            x, ends = np.arange(len(bins)) + aside, [value - low, high - value]
            look = _look(number, linewidth=1.2, elinewidth=1, capsize=2, label=_label(name))
            axes.errorbar(x, value, ends, **look)
        axes.set_xticks(range(len(bins)), list(bins))
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.5, len(bins) - 0.5))
        axes.set_ylim(bottom=0)
        return _svg(figure, axes, alt)


def training_curves(
    x: Sequence[float], xlabel: str, panels: Mapping[str, Series], kept: float, alt: str
) -> Html:
    """Draw panels of lines over epochs or ridges, and mark the one that was kept."""
    from matplotlib.ticker import MaxNLocator

    with _plot(2.7, columns=len(panels)) as (figure, every):
        for axes, (ylabel, lines) in zip(every, panels.items(), strict=True):
            for number, (name, line) in enumerate(lines.items()):
                axes.plot(x, line, **_look(number, label=name))
            axes.axvline(kept, color=_INK, linewidth=0.8, linestyle=":")
            axes.set(xlabel=xlabel, ylabel=ylabel)
            if xlabel == "epoch":
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            else:
                axes.set_xscale("log")
        return _svg(figure, every[-1], alt)


def histograms(values: Series, alt: str) -> Html:
    """Draw the histograms of values t in 0..1 as outlines, in percent of each series."""
    with _plot(2.5) as (figure, (axes,)):
        for number, (name, numbers) in enumerate(values.items()):
            counts, edges = np.histogram(numbers, _BINS, (0, 1))
            share = 100 * counts / max(len(numbers), 1)
            dashes = ("-", "--")[number % 2]
            axes.stairs(share, edges, color=_colour(number), linewidth=1.6, linestyle=dashes, label=name)
        axes.set(xlabel="t", ylabel="%", xlim=(0, 1))
        axes.set_ylim(bottom=0)
        return _svg(figure, axes, alt)


def _look(number: int, **more: object) -> Mapping[str, Any]:
    return {"color": _colour(number), "marker": _MARKERS[number % len(_MARKERS)], **more}


def _colour(number: int) -> str:
    return f"#0300{number % _COLOURS:02x}"


@contextmanager
def _plot(height: float, columns: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure `height` inches high, and its axes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as NewFigure

    with rc_context(_STYLE):
        figure = NewFigure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)
        yield figure, list(axes.ravel())


def _svg(figure: Figure, axes: Axes, alt: str) -> Html:
    """Return the figure as an element, with a legend of the series of `axes` if there are several.

    `alt` describes the figure in words.
    """
    from matplotlib import rc_context

    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        columns = 2 if max(map(len, labels)) > 24 else 3
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    out = io.StringIO()
    with rc_context({"svg.hashsalt": alt}):  # ids that are unique on the page, and reproducible
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("\n", " ")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # these ids are the same in every figure
    drawn = re.sub(r"> +<", "><", drawn)
    for stand_in, variable in _VARIABLES.items():
        drawn = drawn.replace(stand_in, variable)
    opening = f'<svg role="img" aria-label="{escape(alt)}"'
    return Html(opening + re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn.removeprefix("<svg"), count=2))
