"""Runs and other models' scores, measured side by side and compared with the first on the same queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from seesay.data.corpus import Corpus
from seesay.metrics.bootstrap import RESAMPLES
from seesay.protocols.evaluate import Entry, evaluate, protocol_for
from seesay.protocols.score_fusion import distinct
from seesay.recipes.load import settings_digest
from seesay.recipes.table import TableDefinition, TableRow, corpus_title
from seesay.results.paper_table import PaperTable
from seesay.results.published import find_published
from seesay.results.rows import Row, recorded_changes, row_of
from seesay.runs.run import Run


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
    rows = _rows(entries, names, corpus.name, chosen)
    definition = TableDefinition(
        name="runs",
        title=f"{chosen} on {corpus_title(corpus.name)}, {split}",
        corpus=corpus.name,
        protocol=chosen,
        rows=tuple(dict.fromkeys(rows)),
    )
    table = PaperTable(definition, corpus.name, split, metrics)
    first: Row | None = None
    for at, (entry, row) in enumerate(zip(entries, rows, strict=True), start=1):
        tell(f"row {at}/{len(entries)} {names[at - 1]}")
        measured = measured_row(entry, corpus, split, chosen, resamples)
        if first is not None:
            measured = measured.model_copy(update={"against": measured.compare(first, names[0])})
        first = first or measured
        table.line(row.name).rows.append(measured)
    return table


def measured_row(entry: Entry, corpus: Corpus, split: str, protocol: str, resamples: int = RESAMPLES) -> Row:
    """Measure a run or external scores, and say where the result comes from."""
    started = time.monotonic()
    result = evaluate(entry, corpus, protocol, split, resamples=resamples)
    return row_of(result, [entry], time.monotonic() - started)


def _rows(entries: Sequence[Entry], names: Sequence[str], corpus: str, protocol: str) -> list[TableRow]:
    """Return each entry's row. Runs that differ only in their seed share one, named after the recipe.

    A run has the name of its folder if a seed repeats, or if runs of that recipe differ in something else
    than its changes: settings, corpus, and departures such as the run that one started from.
    """
    rows: list[TableRow] = []
    seen: dict[str, list[tuple[object, object]]] = {}  # of each name: the seeds, and what else may differ
    for entry, own in zip(entries, names, strict=True):
        if not isinstance(entry, Run) or not entry.has_recipe:
            rows.append(TableRow(name=own, recipe=own))
            continue
        recipe = entry.recipe
        name = " ".join(
            (recipe.name, *(each for each in recorded_changes(recipe) if not each.startswith("seed=")))
        )
        how = (settings_digest(recipe), recipe.corpus, *recipe.departures)
        seen.setdefault(name, []).append((recipe.seed, how))
        known = (find_published(each, corpus, protocol) for each in (recipe.system, recipe.name) if each)
        published = next((row.system for row in known if row is not None), None)
        rows.append(TableRow(name=name, recipe=recipe.name, published=published))
    mixed = {
        name
        for name, runs in seen.items()
        if len({seed for seed, _ in runs}) < len(runs) or len({how for _, how in runs}) > 1
    }
    return [
        row.model_copy(update={"name": own}) if row.name in mixed else row
        for row, own in zip(rows, names, strict=True)
    ]
