"""Plots as SVG that takes its colours from the page, so that it is legible on light, on dark and in print."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from seesay.report.html import Html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 7.2  # inches: of a page in print
_COLOURS = 6  # series-0 to series-5 of the page's style
_MARKERS = "osD^vP"

# Stand in for the page's variables until the plot is drawn.
INK, _FAINT = "#010101", "#020202"
_VARIABLES = {INK: "var(--ink)", _FAINT: "var(--line)"} | {
    f"#0300{i:02x}": f"var(--series-{i})" for i in range(_COLOURS)
}
_STYLE: Any = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK) | {
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "font.size": 9,
    "grid.color": _FAINT,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a run's name may hold a dollar
}


def look(number: int) -> dict[str, Any]:
    """Colour and marker of series `number`; they come round again."""
    return {"color": colour(number), "marker": _MARKERS[number % len(_MARKERS)]}


def colour(number: int) -> str:
    """The colour of series `number`, as `look` has it."""
    return f"#0300{number % _COLOURS:02x}"


@contextmanager
def plot(
    height: float, rows: int = 1, columns: int = 1, share: bool = False
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure `height` inches high, and its axes row by row."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as NewFigure

    with rc_context(_STYLE):
        figure = NewFigure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
        yield figure, list(axes.ravel())


def legend(figure: Figure, axes: Axes) -> None:
    """Name the series below the figure, where there are several."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > 1:
        columns = 2 if max(map(len, labels)) > 24 else 3
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def svg(figure: Figure, alt: str) -> Html:
    """The figure as an element of the page; `alt` says in words what is to be seen."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context({"svg.hashsalt": alt}):  # names within it are its own, and the same each time
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("\n", " ")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # of every figure the same
    drawn = re.sub(r"> +<", "><", drawn)
    for stand_in, variable in _VARIABLES.items():
        drawn = drawn.replace(stand_in, variable)
    opening = f'<svg role="img" aria-label="{escape(alt)}"'
    return Html(opening + re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn.removeprefix("<svg"), count=2))
