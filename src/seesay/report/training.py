"""Training curves in a report, as SVG with the page's colours: legible on any screen and in print.

Series differ in marker as well as in colour.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from seesay.report.page import Html, Page, tag
from seesay.runs.run import Run
from seesay.runs.summary import Epoch, TrainingSummary, is_finished, read_history

_SIZE = (7.2, 2.7)  # inches; the width of a printed page
_COLOURS = 6  # series-0 to series-5 of the page's style
_MARKERS = "osD^vP"
_CURVES = ("S R@1", "S R@10", "I R@1", "I R@10", "mR", "R@1", "R@10", "mAP")

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
    "text.parse_math": False,  # a name may contain a dollar sign
}


def add_training(page: Page, run: Run) -> None:
    """Add the training curves, or a line that says why there are none."""
    history = read_history(run.folder)
    summary = TrainingSummary.load(run.folder) if is_finished(run.folder) else None
    if len(history) < 2 or history[0].ridge is not None:  # CCA has no epochs
        if summary is not None and summary.members:
            why = f"Composed of {', '.join(summary.members)}, each trained separately."
        else:
            why = "There are no curves, because the run has no record of its epochs."
        page.add(tag("p", why))
        return
    on_val = _val_curves(history)
    # A single line has no legend.
    alone = "" if len(on_val) > 1 else f"{next(iter(on_val), '')} "
    curves = {"loss": {"train": [epoch.loss for epoch in history]}, f"{alone}on val, %": on_val}
    kept = (summary and summary.best_epoch) or history[-1].epoch
    last = "; ".join(f"{name} {line[-1]:.1f}" for name, line in on_val.items())
    alt = f"Curves over epoch. At the end: {last}."
    page.figure(
        f"Training: the mean loss, and metrics on val. The dotted line marks epoch {kept}, which was kept.",
        training_curves([epoch.epoch for epoch in history], curves, kept, alt),
    )


def training_curves(
    x: Sequence[float], panels: Mapping[str, Mapping[str, Sequence[float]]], kept: float, alt: str
) -> Html:
    """Draw panels of named lines, by the label of their y axis, over epochs x, and mark the one kept.

    `alt` describes the figure in words.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    out = io.StringIO()
    with rc_context(_STYLE | {"svg.hashsalt": alt}):  # ids that are unique on the page, and reproducible
        figure = Figure(figsize=_SIZE, layout="constrained")
        every = figure.subplots(1, len(panels), squeeze=False).ravel()
        for axes, (ylabel, lines) in zip(every, panels.items(), strict=True):
            for number, (name, line) in enumerate(lines.items()):
                colour, marker = f"#0300{number % _COLOURS:02x}", _MARKERS[number % len(_MARKERS)]
                axes.plot(x, line, color=colour, marker=marker, label=name)
            axes.axvline(kept, color=_INK, linewidth=0.8, linestyle=":")
            axes.set(xlabel="epoch", ylabel=ylabel)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = every[-1].get_legend_handles_labels()
        if len(labels) > 1:
            figure.legend(handles, labels, loc="outside lower center", ncols=3)
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    # The element scales, and has the page's colours and no ids of its own.
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace("\n", " ")
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # these ids are the same in every figure
    drawn = re.sub(r"> +<", "><", drawn)
    for stand_in, variable in _VARIABLES.items():
        drawn = drawn.replace(stand_in, variable)
    opening = f'<svg role="img" aria-label="{escape(alt)}"'
    return Html(opening + re.sub(r' (?:width|height)="[\d.]+pt"', "", drawn.removeprefix("<svg"), count=2))


def _val_curves(history: Sequence[Epoch]) -> dict[str, list[float]]:
    """Return val metrics, each by epoch, named as in a table."""
    curves: dict[str, list[float]] = {}
    for epoch in history:
        metrics = epoch.val.get("metrics")
        for name, value in metrics.items() if isinstance(metrics, dict) else ():
            if name in _CURVES and isinstance(value, int | float):
                curves.setdefault(name, []).append(value)
    return {name: values for name, values in curves.items() if len(values) == len(history)}
