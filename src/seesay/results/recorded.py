"""Tables of recorded rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition
from seesay.results.rows import INCLUDED_CORPUS, read_rows, recorded_rows, repetitions
from seesay.results.tables import PaperTable


def recorded_table(
    definition: TableDefinition, path: Path | None = None, split: str = "test", metrics: Sequence[str] = ()
) -> PaperTable:
    """Return a table of recorded rows; by default those of the definition's corpus, see `recorded_rows`.

    Raises:
        SeesayError: the file has no rows, or a row names a published row that the paper does not have.
    """
    path = path or recorded_rows(definition.corpus)
    rows = read_rows(path)
    if not rows:
        raise SeesayError(
            f"{path}: no recorded rows; name a corpus with --data to train and measure the rows of the "
            f"table, or see those of another corpus: --results {INCLUDED_CORPUS}."
        )
    table = PaperTable(definition, path.stem, split, metrics)
    counts = Counter(row.result.content for row in rows if row.result.split == split)
    usual = [content for content, _ in counts.most_common(1)]
    for row in (each for each in definition.rows if each.measured):
        recipe = row.name if row.combine else row.recipes[0]
        wanted = (recipe, definition.protocol_of(row), split, sorted(row.changes))
        of_row = [
            each
            for each in rows
            if (each.provenance.recipe, each.result.protocol, each.result.split, each.changes) == wanted
        ]
        found = repetitions(of_row)
        on_usual = [each for each in found if each[0].result.content in usual]
        for each in max(on_usual or found, key=len, default=[]):
            table.add(row.name, each)
    return table
