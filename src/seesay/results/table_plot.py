"""R@1 of a table's rows, ours and the papers', as a picture."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from seesay.paths import replacing
from seesay.results.columns import corpus_title, is_plotted
from seesay.results.paper_table import PaperTable


def plot(table: PaperTable, path: Path) -> None:
    """R@1, or the true order's share, of every row: ours, its deviation, and the paper's, as a PNG."""
    from matplotlib.figure import Figure

    recalls = [column for column in table.columns if is_plotted(column)]
    size = (1.5 + 4 * len(recalls), 1.5 + 0.35 * len(table.lines))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(recalls), sharey=True, squeeze=False)[0] if recalls else []
    for axes, column in zip(panels, recalls, strict=True):
        _draw(table, axes, column)
    if recalls:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=110)


def _draw(table: PaperTable, axes: Any, column: str) -> None:
    ours = [(y, values) for y, line in enumerate(table.lines) if (values := line.measured(column))]
    spreads = [stdev(values) if len(values) > 1 else 0.0 for _, values in ours]
    means = [fmean(values) for _, values in ours]
    label = f"ours, {corpus_title(table.corpus)}"
    axes.errorbar(means, [y for y, _ in ours], xerr=spreads, fmt="o", capsize=3, label=label)
    theirs = [(y, value) for y, line in enumerate(table.lines) if (value := line.printed().get(column))]
    label = f"paper, {' and '.join(map(corpus_title, table.paper_corpora))}"
    if theirs:
        axes.plot([v for _, v in theirs], [y for y, _ in theirs], "D", mfc="none", label=label)
    axes.set_yticks(range(len(table.lines)), [line.name for line in table.lines])
    axes.set(xlabel=column if column.endswith("%") else f"{column}, %", ylim=(len(table.lines) - 0.5, -0.5))
    axes.grid(alpha=0.3)
