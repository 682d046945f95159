"""Results beside others: a table of runs and other models' scores, and one result beside its published row.

In a table, each is compared with the first on the same queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import RESAMPLES
from seesay.protocols.base import Metrics, Result, Value
from seesay.protocols.evaluate import Entry, evaluate, protocol_for
from seesay.protocols.score_fusion import distinct
from seesay.recipes.table import TableDefinition, TableRow, corpus_title
from seesay.results.formats import WAYS, Section, Table
from seesay.results.paper_table import Line, PaperTable
from seesay.results.published import find_published, measured_otherwise
from seesay.results.records import Row, repetitions, row_of

_COUNTS = ("images", "sentences", "phrases")


def compare_entries(
    entries: Sequence[Entry],
    corpus: Corpus,
    split: str,
    protocol: str | None,
    tell: Callable[[str], None],
    metrics: Sequence[str] = (),
    resamples: int = RESAMPLES,
) -> PaperTable:
    """Measure runs and external scores by a protocol, by default that of the first, and tell of each.

    Runs that differ only in their seed share a row, and published rows of the same corpus are shown beside
    them. Each result is compared with the first one on the same queries.

    Raises:
        SeesayError: the protocol does not fit an entry or the corpus.
    """
    chosen = protocol_for(entries[:1], protocol).name
    names = distinct([entry.title for entry in entries])
    definition = TableDefinition(
        name="runs",
        title=f"{chosen} on {corpus_title(corpus.name)}, {split}",
        corpus=corpus.name,
        protocol=chosen,
        rows=tuple(TableRow(name=name) for name in names),
    )
    table = PaperTable(definition, corpus.name, split, metrics)
    measured: list[Row] = []
    for entry, name in zip(entries, names, strict=True):
        tell(f"row {len(measured) + 1}/{len(entries)} {name}")
        measured.append(measured_row(entry, corpus, split, chosen, resamples))
    table.lines, first = _lines(measured, names, corpus.name), measured[0]
    called = next(line.name_of(first) for line in table.lines if any(row is first for row in line.rows))
    for line in table.lines:
        line.rows = [
            row if row is first else row.model_copy(update={"against": row.compare(first, called)})
            for row in line.rows
        ]
    return table


def measured_row(entry: Entry, corpus: Corpus, split: str, protocol: str, resamples: int = RESAMPLES) -> Row:
    """Measure a run or external scores, and say where the result comes from."""
    started = time.monotonic()
    result = evaluate(entry, corpus, protocol, split, resamples=resamples)
    return row_of(result, [entry], time.monotonic() - started)


def _lines(measured: Sequence[Row], names: Sequence[str], corpus: str) -> list[Line]:
    """Return the lines of measured rows, in their order. Repetitions share one, named after the recipe.

    A row has its own line and name if its seed repeats, or if rows of that recipe and those changes are no
    repetitions of it: they differ in settings, corpus, or departures such as the run that one started from.
    """
    place = {id(row): at for at, row in enumerate(measured)}
    groups = repetitions(measured)
    labels = [" ".join((rows[0].recipe, *rows[0].variant)) for rows in groups]
    lines = []
    for label, rows in zip(labels, groups, strict=True):
        first, alone = rows[0], [(names[place[id(row)]], [row]) for row in rows]
        known = (
            find_published(each, corpus, first.protocol) for each in (first.system, first.recipe) if each
        )
        published = next(filter(None, known), None)
        shared = labels.count(label) == 1 and len({row.seed for row in rows}) == len(rows)
        for name, some in [(label, rows)] if shared else alone:
            lines.append(Line(TableRow(name=name, recipe=first.recipe), published, some))
    return sorted(lines, key=lambda line: place[id(line.rows[0])])


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
            if way in WAYS and name:
                ways.setdefault(WAYS[way], {})[name] = value
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
