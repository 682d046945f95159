"""The plots of a report. Series differ in their marker or their dashes as well as in their colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from seesay.report.html import Html
from seesay.report.svg import INK, colour, legend, look, plot, svg

Series = Mapping[str, NDArray[np.float64]]
Sure = tuple[float, float, float]  # a figure and the ends of its interval

_TICKS = (1, 2, 5, 10, 20, 50, 100)
_BINS = 25


def recall_curves(curves: Mapping[str, Series], alt: str) -> Html:
    """Recall in percent at K = 1, 2, …: of each run a line a direction, (k,)."""
    with plot(3.6) as (figure, (axes,)):
        ways = list(dict.fromkeys(way for lines in curves.values() for way in lines))
        for number, (name, lines) in enumerate(curves.items()):
            for way, line in lines.items():
                label = f"{name}, {way}" if len(ways) > 1 else name
                marked = [k - 1 for k in _TICKS if k <= len(line)]
                style = ("-", "--")[ways.index(way)]
                k = np.arange(1, len(line) + 1)
                axes.plot(k, line, style, **look(number), markevery=marked, label=label)
        axes.set_xscale("log")
        axes.set_xticks(_TICKS, map(str, _TICKS))
        axes.minorticks_off()
        axes.set(xlabel="K", ylabel="recall at K, %", ylim=(0, 100), xlim=(0.95, _TICKS[-1] * 1.05))
        legend(figure, axes)
        return svg(figure, alt)


def rank_histograms(shares: Mapping[str, Series], bins: Sequence[str], alt: str) -> Html:
    """The percentage of queries in each bin of ranks: a row a run, a column a direction."""
    ways = list(next(iter(shares.values())))
    with plot(0.6 + 1.3 * len(shares), len(shares), len(ways), share=True) as (figure, every):
        places = iter(every)
        for number, (name, lines) in enumerate(shares.items()):
            for way in ways:
                axes = next(places)
                axes.bar(range(len(bins)), lines[way], width=0.86, color=colour(number))
                axes.set_xticks(range(len(bins)), list(bins), rotation=60, ha="right", fontsize=8)
                axes.set_title(f"{name}, {way}", fontsize=9, loc="left")
        figure.supxlabel("rank of the right answer", fontsize=9)
        figure.supylabel("queries, %", fontsize=9)
        return svg(figure, alt)


def by_bin(
    found: Mapping[str, Sequence[Sure]], bins: Sequence[str], xlabel: str, ylabel: str, alt: str
) -> Html:
    """A figure of each run in each bin, and its interval."""
    with plot(2.9) as (figure, (axes,)):
        for number, (name, values) in enumerate(found.items()):
            aside = (number - (len(found) - 1) / 2) * min(0.12, 0.7 / len(found))
            value, low, high = np.array(values).T
            x, ends = np.arange(len(bins)) + aside, [value - low, high - value]
            axes.errorbar(x, value, ends, **look(number), linewidth=1.2, elinewidth=1, capsize=2, label=name)
        axes.set_xticks(range(len(bins)), list(bins))
        axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.5, len(bins) - 0.5))
        axes.set_ylim(bottom=0)
        legend(figure, axes)
        return svg(figure, alt)


def training_curves(
    rows: Sequence[float], of: str, panels: Mapping[str, Series], kept: float, alt: str
) -> Html:
    """Panels side by side, of lines over `rows`: epochs, or what `of` names; `kept` is marked."""
    from matplotlib.ticker import MaxNLocator

    with plot(2.7, columns=len(panels)) as (figure, every):
        for axes, (ylabel, lines) in zip(every, panels.items(), strict=True):
            for number, (name, line) in enumerate(lines.items()):
                axes.plot(rows, line, **look(number), label=name)
            axes.axvline(kept, color=INK, linewidth=0.8, linestyle=":")
            axes.set(xlabel=of, ylabel=ylabel)
            if of == "epoch":
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            else:
                axes.set_xscale("log")
        legend(figure, every[-1])
        return svg(figure, alt)


def shares_of(values: Series, xlabel: str, alt: str) -> Html:
    """How values of 0..1 are spread: outlines of histograms, in percent of each series."""
    with plot(2.5) as (figure, (axes,)):
        for number, (name, numbers) in enumerate(values.items()):
            counts, edges = np.histogram(numbers, _BINS, (0, 1))
            share = 100 * counts / max(len(numbers), 1)
            dashes = ("-", "--")[number % 2]
            axes.stairs(share, edges, color=colour(number), linewidth=1.6, linestyle=dashes, label=name)
        axes.set(xlabel=xlabel, ylabel="%", xlim=(0, 1))
        axes.set_ylim(bottom=0)
        legend(figure, axes)
        return svg(figure, alt)
