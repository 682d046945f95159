"""How sure the figures of an evaluation are, and what they differ by from another's, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from seesay.metrics.bootstrap import DIRECTIONS, MEAN_RECALL
from seesay.metrics.recall import MEASURES
from seesay.results.columns import SENTENCE

_WAYS = ("sentence", "image")


def uncertainty_tables(result: Mapping[str, Any]) -> list[Table]:
    """The intervals of a result, and its comparison with another, where it has such."""
    tables = []
    if SENTENCE in (told := result.get("intervals", {})):
        drawn = f"the images drawn {told['resamples']} times, each with its sentences"
        tables.append(_table(f"{told['level']} % intervals: {drawn}", told, {"": interval}))
    if against := result.get("against"):
        parts: dict[str, Callable[[Any], str]] = {
            "theirs": lambda cell: f"{cell['theirs']:.1f}",
            "difference": lambda cell: f"{cell['difference']:+.1f}",
            f"{against['level']} %": lambda cell: interval(cell["interval"], " to "),
            "p": lambda cell: f"{cell['p']:.3f}" if cell["p"] >= 0.001 else "<0.001",
        }
        tables.append(_table(f"Compared with {against['name']}, on the same queries", against, parts))
    return tables


def interval(ends: Sequence[float], between: str = "–", digits: int = 1) -> str:
    """Low to high: 33.0–38.4."""
    return between.join(f"{end:.{digits}f}" for end in ends)


def interval_row(
    told: Mapping[str, Any], ends: Mapping[str, Sequence[float] | None], columns: Iterable[str]
) -> list[str]:
    """The cells of a row of intervals, below that of the figures: `told` says of which level."""
    cells = (interval(pair) if (pair := ends.get(name)) else "" for name in columns)
    return [f"{told['level']} %", *cells]


def drawn(result: Mapping[str, Any]) -> str:
    """What a row of intervals needs said below it; empty without one."""
    if not (told := result.get("intervals")):
        return ""
    return f"{told['level']} %: the images drawn {told['resamples']} times, each with all its queries."


def _table(title: str, told: Mapping[str, Any], parts: Mapping[str, Callable[[Any], str]]) -> Table:
    """A row for each direction and part of its cells; mR, which is of both, stands with the first."""
    table = Table(title=title, title_justify="left")
    table.add_column("retrieval")
    if several := len(parts) > 1:
        table.add_column("")
    for name in (*MEASURES, MEAN_RECALL):
        table.add_column(name, justify="right")
    for way, direction in zip(_WAYS, DIRECTIONS, strict=True):
        for number, (label, said) in enumerate(parts.items()):
            named = (way if number == 0 else "", *([label] if several else []))
            mean = said(told[MEAN_RECALL]) if way == _WAYS[0] else ""
            last = several and number == len(parts) - 1
            table.add_row(*named, *(said(told[direction][name]) for name in MEASURES), mean, end_section=last)
    return table
