"""Any runs beside the published rows of their systems."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.protocols.evaluate import evaluate, protocol_for
from seesay.recipes.load import canonical_changes
from seesay.recipes.table import TableDefinition, TableRow, corpus_title
from seesay.results.published import corpora, find_published
from seesay.results.rows import Row, provenance, record_row
from seesay.results.tables import Outcome, PaperTable
from seesay.runs.run import Run
from seesay.training.measured import data_digest, kept_or_measured


def load_runs(names: Sequence[str]) -> list[Run]:
    """Load the runs in those folders, or the shipped ones of those names.

    Raises:
        SeesayError: one does not exist, or is named twice.
    """
    runs = [Run.load(name) for name in names]
    folders = [run.folder.resolve() for run in runs]
    if twice := [str(folder) for folder in folders if folders.count(folder) > 1]:
        raise SeesayError(f"{twice[0]}: named twice.")
    return runs


def measure_runs(
    runs: Sequence[Run],
    corpus: Corpus,
    split: str,
    protocol: str | None,
    tell: Callable[[str], None],
    record: Path | None = None,
    commit: str | None = None,
) -> PaperTable:
    """Return a table of runs; those that differ only in their seed share a row.

    Args:
        runs: in the order of the rows.
        corpus: the corpus to measure on.
        split: the split to measure.
        protocol: the protocol; by default that of the first run.
        tell: called with a line before each run.
        record: the folder of results that rows are recorded in.
        commit: of the source, for the record.

    Raises:
        SeesayError: the protocol does not fit a run or the corpus.
    """
    chosen = protocol_for(runs[:1], protocol).name
    data = data_digest(corpus, split)
    rows = _rows(runs, corpus.name, chosen)
    definition = TableDefinition(
        name="runs",
        title=f"Runs on {corpus_title(corpus.name)}",
        corpus=corpus.name,
        beside=tuple(corpora()),
        protocol=chosen,
        rows=tuple(dict.fromkeys(rows)),
    )
    table = PaperTable(definition, corpus.name, split)
    for number, (run, row) in enumerate(zip(runs, rows, strict=True), start=1):
        tell(f"run {number}/{len(runs)} {run.name}")
        name = f"{run.recipe.name} {chosen} {split}"
        measure = partial(_measure, run, corpus, split, chosen, commit)
        keep = not run.pretrained  # whose folder is not ours to write to
        measured = kept_or_measured([run.folder], name, data, measure) if keep else measure()
        table.add(Outcome(row.name, run.recipe.seed, measured))
        if record is not None:
            record_row(record, corpus.name, measured)
    return table


def _measure(run: Run, corpus: Corpus, split: str, protocol: str, commit: str | None) -> Row:
    started = time.monotonic()
    result = evaluate(run, corpus, protocol, split, resamples=0)
    return Row(provenance(run, time.monotonic() - started, commit), result)


def _rows(runs: Sequence[Run], corpus: str, protocol: str) -> list[TableRow]:
    """Each run's row, named after its recipe and the changes to it, or after its folder if seeds repeat."""
    kinds = [
        (run.recipe.name, *canonical_changes(c for c in run.recipe.changes if not c.startswith("seed=")))
        for run in runs
    ]
    seeds = [(kind, run.recipe.seed) for kind, run in zip(kinds, runs, strict=True)]
    repeated = {kind for kind, seed in seeds if seeds.count((kind, seed)) > 1}
    rows = []
    for run, kind in zip(runs, kinds, strict=True):
        name = run.name if kind in repeated else " ".join(kind)
        rows.append(TableRow(name=name, recipe=run.recipe.name, published=_published(run, corpus, protocol)))
    return rows


def _published(run: Run, corpus: str, protocol: str) -> str | None:
    """The printed name of the run's system, if a paper has a row of it."""
    for name in filter(None, (run.recipe.system, run.recipe.name)):
        for where in dict.fromkeys((corpus, *corpora())):
            if found := find_published(name, where, protocol):
                return found.system
    return None
