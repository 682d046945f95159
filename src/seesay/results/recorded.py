"""A table of recorded rows: what was measured before, with nothing trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seesay.errors import SeesayError
from seesay.recipes.table import TableDefinition, TableRow
from seesay.results.columns import changes_of
from seesay.results.paper_table import Outcome, PaperTable
from seesay.results.rows import kind, read_rows


def recorded_table(
    definition: TableDefinition,
    path: Path | None = None,
    split: str = "test",
    measures: Sequence[str] = (),
) -> PaperTable:
    """A table of recorded rows, of which those that are not there are not measured.

    Args:
        definition: the table.
        path: a results file, named after its corpus; without it, that of the definition's corpus in
            `results`.
        split: to show.
        measures: see `PaperTable`.

    Raises:
        SeesayError: there are no such rows, or a row names a published row that is not in the paper's table.
    """
    path = path or Path("results", f"{definition.corpus}.jsonl")
    rows = read_rows(path)
    if not rows:
        raise SeesayError(
            f"{path}: no recorded rows there; name the corpus with --data to train and measure the table's."
        )
    table = PaperTable(definition, path.stem, split, measures)
    for row in definition.rows:
        for found in _recorded(row, definition.protocol_of(row), rows, split):
            table.add(Outcome(row.name, found["seed"], dict(found)))
    return table


def _recorded(
    row: TableRow, protocol: str, rows: Sequence[Mapping[str, Any]], split: str
) -> list[Mapping[str, Any]]:
    """The recorded rows of a row, which differ in their seed alone."""
    recipe = row.name if row.combine else row.recipes[0]
    wanted = (recipe, protocol, split, sorted(row.changes))
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for each in rows:
        of = (each["recipe"], each["protocol"], each["split"], sorted(changes_of(each)))
        if of == wanted and each.get("shortlist") is None:
            found.setdefault(kind(each), []).append(each)
    return max(found.values(), key=len, default=[])
