"""A result on a terminal, with the published row of the same system beside it.

Generic over `Result.columns`; `terminal_details` holds what single protocols add.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from seesay.protocols.base import Part, Result, RetrievalResult, read_result
from seesay.results.figures import Figures, number
from seesay.results.published import PublishedRow, find_published
from seesay.results.terminal_details import Details, details

_WAYS = {"S": "sentence", "I": "image"}  # how the columns of each direction of retrieval begin
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
    console, more = console or Console(), details(result)
    reranked = isinstance(result, RetrievalResult) and result.shortlist is not None
    published = None
    if system and not reranked:
        published = find_published(system, corpus, result.protocol, any_protocol=True)
    parts: list[RenderableType] = [Text(_title(result), "italic")]
    parts += more.tables or [_figures_table(result, more, system, published)]
    if any(result.interval(column) or result.difference(column) for column in result.columns()):
        parts.append(_uncertainty_table(result))
    lines = [*(result.notes or ()), *more.notes]
    if published is not None:
        lines += what_differs(result, published, differences)
    console.print(Group(*parts, *map(Text, lines)))


def what_differs(result: Result, published: PublishedRow, differences: Sequence[str] = ()) -> list[str]:
    """Return what is known to differ between a measured and a published row, as lines."""
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


def _figures_table(
    result: Result, more: Details, system: str | None, published: PublishedRow | None
) -> Table:
    """Rows of members and baselines, of the result, of the published row and of what else it holds."""
    columns, weights = result.columns(), result.weights or {}
    rows: dict[str, Figures] = {}
    for name, member in (result.members or {}).items():
        label = f"{name}, weight {weights[name]:.2f}" if name in weights else name
        rows[label] = read_result(member).columns()
    rows |= {name: _figures_of(row, columns) for name, row in more.before.items()}
    label = result.combined or more.label
    rows[f"{system}, {label}" if system else label] = columns
    if published is not None:
        rows[f"{published.system}, {published.source}"] = published.figures
    rows |= {name: _figures_of(row, columns) for name, row in more.after.items()}
    ways = _by_direction(columns)
    table = Table()
    for name in ("", *(["retrieval"] if len(ways) > 1 else [])):
        table.add_column(name)
    measures = list(dict.fromkeys(name for way in ways.values() for name in way))
    for name in measures:
        table.add_column(name, justify="right")
    for label, figures in rows.items():
        known = _by_direction({column: figures.get(column) for column in columns})
        for position, (way, values) in enumerate(known.items()):
            cells = (number(values[name]) if name in values else "" for name in measures)
            first = label if position == 0 else ""
            last = len(known) > 1 and position == len(known) - 1
            table.add_row(first, *([way] if len(ways) > 1 else []), *cells, end_section=last)
    return table


def _uncertainty_table(result: Result) -> Table:
    """A row for each column: its interval, and how it differs from the result compared with."""
    compared = result.against
    title = "95 % intervals, the images drawn with all their queries"
    if compared is not None:
        title = f"Compared with {compared.name} on the same queries; {title}"
    table = Table(title=title, title_justify="left")
    for name in ("", "figure", "95 %", *(("theirs", "difference", "95 %", "p") if compared else ())):
        table.add_column(name, justify="right" if name else "left")
    for column, value in result.columns().items():
        ends, found = result.interval(column), result.difference(column)
        if ends is None and found is None:
            continue
        cells = [_plain(value), _interval(ends, "–")]
        if found is not None:
            p = "–" if found.p is None else f"{found.p:.3f}" if found.p >= 0.001 else "<0.001"
            signed = _plain(found.difference, "+")
            cells += [_plain(found.theirs), signed, _interval(found.interval, " to "), p]
        table.add_row(column, *cells)
    return table


def _figures_of(row: Part, columns: Figures) -> Figures:
    """The figures of another row, under the columns of the result."""
    if isinstance(row, Result):
        return row.columns()
    values = row.model_dump(by_alias=True)
    return {column: values.get(column) for column in columns}


def _by_direction(columns: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Split columns into those of sentence and of image retrieval; others, such as mR, go with the first."""
    ways: dict[str, dict[str, T]] = {}
    for column, value in columns.items():
        way, _, name = column.partition(" ")
        if way in _WAYS and name:
            ways.setdefault(_WAYS[way], {})[name] = value
        else:
            ways.setdefault(next(iter(ways), ""), {})[column] = value
    return ways


def _plain(value: float | None, sign: str = "") -> str:
    """One decimal, or two for figures that are not percentages."""
    if value is None:
        return "–"
    return f"{value:{sign}.1f}" if abs(value) >= 1 or value == 0 else f"{value:{sign}.2f}"


def _interval(ends: tuple[float, float] | None, between: str) -> str:
    return between.join(map(_plain, ends)) if ends else "–"
