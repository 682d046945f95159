"""Runs and other models' scores, measured side by side and compared with the first on the same queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import RESAMPLES
from seesay.protocols.evaluate import Entry, evaluate, protocol_for
from seesay.protocols.score_fusion import distinct
from seesay.recipes.table import TableDefinition, TableRow, corpus_title
from seesay.results.paper_table import Line, PaperTable
from seesay.results.published import find_published
from seesay.results.rows import Row, repetitions, row_of


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
        row = measured_row(entry, corpus, split, chosen, resamples)
        if measured:
            row = row.model_copy(update={"against": row.compare(measured[0], names[0])})
        measured.append(row)
    table.lines = _lines(measured, names, corpus.name)
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
