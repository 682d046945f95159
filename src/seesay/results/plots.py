"""Plots of results: the rows of a table beside the papers', and recall by word frequency."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from seesay.errors import SeesayError
from seesay.paths import replacing
from seesay.protocols.base import Result
from seesay.protocols.k_shot import BANDS, FREQUENCY, KShot
from seesay.recipes.table import corpus_title
from seesay.results.tables import PaperTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PLOTTED = ("R@1", "%")  # how the headings of the columns end that a plot of a table shows


def plot_table(table: PaperTable, path: Path) -> None:
    """Draw R@1, or how often the true order wins, of every row as a PNG file: ours and the paper's.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    columns = [column for column in table.columns if column.endswith(_PLOTTED)]
    size = (1.5 + 4 * len(columns), 1.5 + 0.35 * len(table.lines))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0] if columns else []
    for axes, column in zip(panels, columns, strict=True):
        _draw_column(table, axes, column)
    if columns:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    _save(figure, path)


def check_plot(path: Path, protocol: str | None) -> None:
    """Check that the plot of `plot_by_frequency` can be drawn and written, before anything is measured.

    Raises:
        SeesayError: the protocol is not K-shot, or the file is not a PNG.
    """
    if protocol != KShot.name:
        raise SeesayError(f"--plot {path}: draws the result of --protocol {KShot.name}; add it.")
    if path.suffix.lower() != ".png":
        raise SeesayError(f"{path}: the plot is a PNG file; choose a name that ends in .png.")


def plot_by_frequency(results: Mapping[str, Result], path: Path) -> None:
    """Draw mR by how often a sentence's rarest word occurs in training as a PNG file, a curve a result.

    Raises:
        SeesayError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, result in results.items():
        means = [result.metrics.get(f"{FREQUENCY} {band}: mR") for band in BANDS]
        known = [(x, mean) for x, mean in enumerate(means) if mean is not None]
        axes.plot([x for x, _ in known], [mean for _, mean in known], marker="o", label=name)
    axes.set_xticks(range(len(BANDS)), list(BANDS))
    axes.set(xlabel="occurrences of the rarest word in training", ylabel="mR, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _save(figure, path)
    except OSError as error:
        raise SeesayError(f"{path}: cannot be written ({error.strerror}).") from error


def _save(figure: Figure, path: Path) -> None:
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=110)


def _draw_column(table: PaperTable, axes: Axes, column: str) -> None:
    ours = [(y, values) for y, line in enumerate(table.lines) if (values := line.measured(column))]
    spreads = [stdev(values) if len(values) > 1 else 0.0 for _, values in ours]
    means = [fmean(values) for _, values in ours]
    label = f"ours, {corpus_title(table.corpus)}"
    axes.errorbar(means, [y for y, _ in ours], xerr=spreads, fmt="o", capsize=3, label=label)
    theirs = [(y, value) for y, line in enumerate(table.lines) if (value := line.printed.get(column))]
    label = f"paper, {' and '.join(map(corpus_title, table.paper_corpora))}"
    if theirs:
        axes.plot([v for _, v in theirs], [y for y, _ in theirs], "D", mfc="none", label=label)
    axes.set_yticks(range(len(table.lines)), [line.name for line in table.lines])
    axes.set(xlabel=column if column.endswith("%") else f"{column}, %", ylim=(len(table.lines) - 0.5, -0.5))
    axes.grid(alpha=0.3)
