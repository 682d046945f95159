"""Figures and what is said of rows, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev

from seesay.protocols.base import Result
from seesay.protocols.grounding import GroundingResult

EVALUATORS = {"plummer": "Plummer et al., 2017", "mdetr": "MDETR (Kamath et al., 2021)"}  # whose IoU

Figures = Mapping[str, float | None]  # by column, as `Result.columns` names these


def number(value: float | None) -> str:
    """One decimal; a dash for None."""
    return "–" if value is None else f"{value:.1f}"


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation, or the value if there is one; a dash for none."""
    if not values:
        return number(None)
    mean = number(fmean(values))
    return f"{mean} ± {stdev(values):.1f}" if len(values) > 1 else mean


def values_of(rows: Iterable[Figures], column: str) -> list[float]:
    """The known values of a column."""
    return [value for row in rows if (value := row.get(column)) is not None]


def conventions(results: Iterable[Result]) -> str:
    """How boxes were compared, as a sentence; empty for results without boxes."""
    used = {
        f"{r.convention}, IoU as in {EVALUATORS[r.iou]}" for r in results if isinstance(r, GroundingResult)
    }
    return f"Right at IoU ≥ 0.5; several boxes: {'; '.join(sorted(used))}." if used else ""


def markdown(columns: Sequence[str], lines: Iterable[Sequence[str]], left: Iterable[str]) -> str:
    """A Markdown table; columns not in `left` are right-aligned."""
    rules = ["---" if column in left else "---:" for column in columns]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, rules, *lines))
