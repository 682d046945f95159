"""A result on a terminal, with the published row of the same system beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from seesay.protocols.base import Metrics, Result, Value
from seesay.results.formats import Section, Table
from seesay.results.published import find_published, measured_otherwise

_WAYS = {"S": "sentence", "I": "image"}  # of retrieval, by how their metrics begin
_COUNTS = ("images", "sentences", "phrases")


def print_result(
    result: Result,
    system: str | None = None,
    corpus: str = "",
    differences: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print a result beside the published row of a system, named as printed or by its recipe, on a corpus.

    `differences` say in words how the measured run differs from the paper.
    """
    about, lines = result.about, [*result.notes]
    published = find_published(system, corpus, result.protocol) if system else None
    label = str(about.get("combined") or "measured")
    rows: dict[str, Metrics] = {}
    for part, metrics in result.rows.items():
        if part:
            rows[part] = metrics
            continue
        rows[f"{system}, {label}" if system else label] = {**result.shown, **metrics}  # ordered as in tables
        if published is not None:
            known = {name: value for name, value in published.metrics.items() if name in metrics}
            rows[f"{published.system}, {published.source}"] = known
    sizes = [f"{about[name]} {name}" for name in _COUNTS if name in about]
    title = f"{result.split}: {', '.join((*sizes, result.protocol))}"
    parts: list[RenderableType] = [Text(title, "italic"), _metrics_table(rows).terminal()]
    if result.against is not None or any(result.intervals.get(name) for name in result.shown):
        compared = f"Compared with {result.against.name} on the same queries; " if result.against else ""
        title = f"{compared}95 % intervals, the images drawn with all their queries"
        parts += [Text(title, "italic"), _uncertainty_table(result).terminal()]
    if published is not None:
        named = [*differences, *measured_otherwise(result, published)]
        lines.append(f"What differs: {'; '.join(named)}." if named else "Nothing known differs.")
        lines += [f"The paper's images: {published.images}."] if published.images else []
        lines += [f"The paper's row: {published.note}."] if published.note else []
    if any(name.startswith("S ") for name in result.metrics):
        lines.append("Sentence retrieval is i2t (S), its queries are images; image retrieval is t2i (I).")
    (console or Console()).print(Group(*parts, *map(Text, lines)))


def _metrics_table(rows: Mapping[str, Metrics]) -> Table:
    """Return a table of rows of metrics; rows with both directions of retrieval take two lines."""
    split: dict[str, dict[str, dict[str, Value]]] = {}
    for label, metrics in rows.items():
        ways = split[label] = dict[str, dict[str, Value]]()
        others = dict[str, Value]()
        for metric, value in metrics.items():
            way, _, name = metric.partition(" ")
            if way in _WAYS and name:
                ways.setdefault(_WAYS[way], {})[name] = value
            else:
                others[metric] = value
        ways.setdefault(next(iter(ways), ""), {}).update(others)  # such as mR
    several = any(len(ways) > 1 for ways in split.values())
    names = list(dict.fromkeys(name for ways in split.values() for way in ways.values() for name in way))
    lines: list[Sequence[str] | Section] = []
    for label, ways in split.items():
        for position, (way, values) in enumerate(ways.items()):
            cells = [_plain(values[name]) if name in values else "" for name in names]
            lines.append(["" if position else label, *([way] if several else []), *cells])
        lines += [Section()] if len(ways) > 1 else []
    return Table(["", *(["retrieval"] if several else []), *names], lines, words={0, 1} if several else {0})


def _uncertainty_table(result: Result) -> Table:
    """Return a table with the interval of each metric, and its difference from the other result."""
    compared, lines = result.against, []
    for name, value in result.shown.items():
        ends, found = result.intervals.get(name), compared.metrics.get(name) if compared else None
        if ends is None and found is None:
            continue
        cells = [name, _plain(value), "–".join(map(_plain, ends)) if ends else "–"]
        if found is not None:
            p = "–" if found.p is None else f"{found.p:.3f}" if found.p >= 0.001 else "<0.001"
            between = " to ".join(map(_plain, found.interval)) if found.interval else "–"
            cells += [_plain(found.theirs), _plain(found.difference, "+"), between, p]
        lines.append(cells if found is not None or not compared else [*cells, "", "", "", ""])
    return Table(["", "value", "95 %", *(("theirs", "difference", "95 %", "p") if compared else ())], lines)


def _plain(value: Value, sign: str = "") -> str:
    """Format with one decimal, or two below 1; a count as it is, and a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    places = 1 if abs(value) >= 1 or value == 0 else 2
    return f"{round(value, places) + 0.0:{sign}.{places}f}"  # no -0.00
