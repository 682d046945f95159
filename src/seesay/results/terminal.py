"""A result on a terminal, with the published row of the same system beside it.

Any result is shown by its metrics, with what its `details` add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from seesay.protocols.base import Details, PlainTable, Result, ResultPart, RetrievalResult, read_result
from seesay.results.published import PublishedRow, find_published
from seesay.results.tables import Metrics, number

_WAYS = {"S": "sentence", "I": "image"}  # how the metrics of each direction of retrieval begin
_COUNTS = {"images": "images", "sentences": "sentences", "n": "phrases"}

T = TypeVar("T")


def print_result(
    result: Result,
    system: str | None = None,
    corpus: str = "",
    differences: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print a result beside the published row of the same system on the same corpus.

    Args:
        result: the result.
        system: the printed name of the system, or the name of its recipe.
        corpus: the name of the corpus.
        differences: how the measured run differs from the paper, in words.
        console: standard output by default.
    """
    console, more = console or Console(), result.details()
    reranked = isinstance(result, RetrievalResult) and result.shortlist is not None
    published = None
    if system and not reranked:
        published = find_published(system, corpus, result.protocol, any_protocol=True)
    parts: list[RenderableType] = [Text(_title(result), "italic")]
    parts += map(_table, more.tables) if more.tables else [_metrics_table(result, more, system, published)]
    if any(result.interval(name) or result.difference(name) for name in result.metrics):
        parts.append(_uncertainty_table(result))
    lines = [*(result.notes or ()), *more.notes]
    if published is not None:
        lines += what_differs(result, published, differences)
    console.print(Group(*parts, *map(Text, lines)))


def what_differs(result: Result, published: PublishedRow, differences: Sequence[str] = ()) -> list[str]:
    """Describe the known differences between a measured and a published row, as lines."""
    named = list(differences)
    for name, here, there in (
        ("protocol", result.protocol, published.protocol),
        ("split", result.split, "test"),
    ):
        if here != there:
            named.append(f"{name} {here}, published {there}")
    lines = [f"What differs: {'; '.join(named)}." if named else "Nothing known differs."]
    lines += [f"The paper's images: {published.images}."] if published.images else []
    return lines + ([f"The paper's row: {published.note}."] if published.note else [])


def _title(result: Result) -> str:
    values = result.to_dict()
    sizes = ", ".join(f"{values[key]} {name}" for key, name in _COUNTS.items() if key in values)
    title = f"{result.split}: {sizes}, {result.protocol}"
    if without := values.get("images_without_sentences"):
        title += f"; {without} images without sentences are candidates only"
    if result.cut_sentences:
        title += f"; {result.cut_sentences} sentences longer than {result.max_length} words, cut"
    return title


def _metrics_table(result: Result, more: Details, system: str | None, paper: PublishedRow | None) -> Table:
    """Return a table of members and baselines, the result, the published row and further parts."""
    metrics, weights = result.metrics, result.weights or {}
    rows: dict[str, Metrics] = {}
    for name, member in (result.members or {}).items():
        label = f"{name}, weight {weights[name]:.2f}" if name in weights else name
        rows[label] = read_result(member).metrics
    rows |= {name: _metrics_of(row, metrics) for name, row in more.before.items()}
    label = result.combined or more.label
    rows[f"{system}, {label}" if system else label] = metrics
    if paper is not None:
        rows[f"{paper.system}, {paper.source}"] = paper.metrics
    rows |= {name: _metrics_of(row, metrics) for name, row in more.after.items()}
    ways = _by_direction(metrics)
    table = Table()
    for name in ("", *(["retrieval"] if len(ways) > 1 else [])):
        table.add_column(name)
    names = list(dict.fromkeys(name for way in ways.values() for name in way))
    for name in names:
        table.add_column(name, justify="right")
    for label, found in rows.items():
        known = _by_direction({name: found.get(name) for name in metrics})
        for position, (way, values) in enumerate(known.items()):
            cells = (number(values[name]) if name in values else "" for name in names)
            first = label if position == 0 else ""
            last = len(known) > 1 and position == len(known) - 1
            table.add_row(first, *([way] if len(ways) > 1 else []), *cells, end_section=last)
    return table


def _uncertainty_table(result: Result) -> Table:
    """Return a row for each metric: its interval, and its difference from the result compared with."""
    compared = result.against
    title = "95 % intervals, the images drawn with all their queries"
    if compared is not None:
        title = f"Compared with {compared.name} on the same queries; {title}"
    table = Table(title=title, title_justify="left")
    for name in ("", "value", "95 %", *(("theirs", "difference", "95 %", "p") if compared else ())):
        table.add_column(name, justify="right" if name else "left")
    for name, value in result.metrics.items():
        ends, found = result.interval(name), result.difference(name)
        if ends is None and found is None:
            continue
        cells = [_plain(value), _interval(ends, "–")]
        if found is not None:
            p = "–" if found.p is None else f"{found.p:.3f}" if found.p >= 0.001 else "<0.001"
            signed = _plain(found.difference, "+")
            cells += [_plain(found.theirs), signed, _interval(found.interval, " to "), p]
        table.add_row(name, *cells)
    return table


def _metrics_of(row: ResultPart, metrics: Metrics) -> Metrics:
    """Return the metrics of another row that the result has."""
    if isinstance(row, Result):
        return row.metrics
    values = row.model_dump(by_alias=True)
    return {name: values.get(name) for name in metrics}


def _by_direction(metrics: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Split metrics by direction of retrieval; others, such as mR, go with the first."""
    ways: dict[str, dict[str, T]] = {}
    for metric, value in metrics.items():
        way, _, name = metric.partition(" ")
        if way in _WAYS and name:
            ways.setdefault(_WAYS[way], {})[name] = value
        else:
            ways.setdefault(next(iter(ways), ""), {})[metric] = value
    return ways


def _plain(value: float | None, sign: str = "") -> str:
    """Format with one decimal, or two below 1."""
    if value is None:
        return "–"
    return f"{value:{sign}.1f}" if abs(value) >= 1 or value == 0 else f"{value:{sign}.2f}"


def _interval(ends: tuple[float, float] | None, between: str) -> str:
    return between.join(map(_plain, ends)) if ends else "–"


def _table(plain: PlainTable) -> Table:
    table = Table(title=plain.title, title_justify="left")
    for position, name in enumerate(plain.columns):
        table.add_column(name, justify="right" if position else "left")
    for row in plain.rows:
        table.add_row(*(cell if isinstance(cell, str) else number(cell) for cell in row))
    return table
