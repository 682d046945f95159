"""The rows of a paper's table, beside published ones.

Each run of a paper's table is trained, resumed or reused, and then measured; included weights are only
measured. Runs are in `RUNS/<corpus>/<recipe>-seed<k>`, where several tables share them, and composed matchers
their members.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError, without_folders
from seesay.metrics.bootstrap import RESAMPLES
from seesay.protocols.base import PROTOCOLS
from seesay.protocols.phrase_distance import measure_combined
from seesay.recipes.files import Change
from seesay.recipes.load import reaches_members, settings_line
from seesay.recipes.schema import Recipe
from seesay.recipes.table import TableDefinition, TableRow
from seesay.results.comparison import measured_row
from seesay.results.formats import number
from seesay.results.paper_table import PaperTable
from seesay.results.records import Row, record_row, row_of
from seesay.runs.folder import included_runs
from seesay.runs.run import Run
from seesay.runs.summary import is_finished
from seesay.training.composed import check_tunable_on, combine_members, finished_run, is_combined
from seesay.training.concept_task import with_concept_runs
from seesay.training.loop import has_epochs
from seesay.training.train import check_ours, holding, train
from seesay.training.words import check_begun, with_own_vectors


@dataclass(frozen=True)
class TableRuns:
    """The runs of a table on one corpus.

    Attributes:
        definition: the table, with the requested rows.
        corpus: captioned images, or phrases for a table of grounding.
        folder: the folder of runs.
        split: the split to measure.
        changes: `key=value`, for every recipe.
        may_train: train runs that are missing or unfinished.
        resamples: bootstrap draws of the intervals; 0 for none.
    """

    definition: TableDefinition
    corpus: Corpus
    folder: Path
    split: str = "test"
    changes: Sequence[str] = ()
    may_train: bool = True
    resamples: int = RESAMPLES

    def measured(self, row: TableRow, seed: int) -> Row:
        """Measure one row with one seed.

        Raises:
            SeesayError: it cannot be trained or measured.
        """
        folders = [self.run_of(row, seed), *(self._phrase_run(name, seed) for name in row.recipes[1:])]
        started, runs = time.monotonic(), [Run.load(str(folder)) for folder in folders]
        if row.combine is None:
            protocol = self.definition.protocol_of(row)
            return measured_row(runs[0], self.corpus, self.split, protocol, self.resamples)
        if self.corpus.has_boxes:
            raise SeesayError(f"{self.corpus.root}: holds phrases; '{row.name}' is measured on sentences.")
        combined = measure_combined(runs[0], runs[1], self.corpus, self.split)
        return row_of(combined, runs, time.monotonic() - started, row.name)

    def run_of(self, row: TableRow, seed: int) -> Path:
        """Return the folder of a row's run, the first if it joins two, or of included weights; see `run`."""
        called = row.name if row.changes else None
        return weights_of(row) or self.run(row.recipes[0], seed, row.changes, called)

    def run(self, name: str, seed: int, changes: Sequence[str] = (), called: str | None = None) -> Path:
        """Return the folder of a recipe's finished run; it is trained or resumed if it is not finished.

        The changes precede those of the whole table; the folder begins with `called` or the recipe's name.

        Raises:
            SeesayError: it cannot be trained, or the folder has a run of another recipe or other sentences.
        """
        recipe = self.definition.recipe(name, self.corpus.name, changes, seed, self.changes)
        recipe = with_own_vectors(recipe, self.corpus)
        if not recipe.matcher.predicts_concepts:  # a concept recipe reads no concepts
            recipe = with_concept_runs(recipe, lambda concepts: self.run(concepts, seed))
        folder = self.folder / self.corpus.name / f"{called or recipe.name}-seed{seed}"
        if recipe.matcher.is_composed:
            return self._composed(recipe, folder, changes, called)
        if not self.may_train and not is_finished(folder):
            raise SeesayError(
                f"{folder}: no finished run, and training is switched off; train this run first."
            )
        return finished_run(recipe, self.corpus, folder, train).folder

    def _composed(self, recipe: Recipe, folder: Path, changes: Sequence[str], called: str | None) -> Path:
        """Combine the table's own runs, or those of a variant; again if one of them has changed."""
        check_tunable_on(self.corpus, recipe)
        if not is_finished(folder) and self.may_train:
            with holding(folder):
                check_ours(folder)  # before members are trained for hours
        composed = type(recipe.composition)
        changes, of_all = (
            [text for text in texts if reaches_members(Change.parse(text).key, composed)]
            for texts in (changes, self.changes)
        )
        shared = not changes
        if "encoders" not in {Change.parse(text).key for text in recipe.changes}:
            # A recipe that tunes a CNN takes no arrays; its members then have folders of their own.
            taken = [text for text in of_all if Change.parse(text).key != "encoders"]
            shared, of_all = shared and taken == of_all, taken
        of_members = replace(self, changes=of_all)
        folders = [
            of_members.run(name, recipe.seed, changes, None if shared else f"{called or recipe.name}-{name}")
            for name in recipe.composition.members
        ]
        if has_epochs(folder):
            check_begun(folder, recipe, self.corpus)
        if not is_combined(folder, folders):
            with holding(folder):
                combine_members(recipe, [Run.load(str(each)) for each in folders], self.corpus, folder)
        return folder

    def _phrase_run(self, name: str, seed: int) -> Path:
        """Return the finished run of a grounding recipe, preferably one on the corpus's own phrases."""
        known = sorted(path for path in self.folder.glob(f"*/{name}-seed{seed}") if is_finished(path))
        own = [folder for folder in known if folder.parent.name.startswith(self.corpus.name)]
        if len(own or known) != 1:
            found = ", ".join(map(str, own or known)) or "none"
            raise SeesayError(
                f"{self.folder}: needs one finished run of '{name}', seed {seed}, and found {found}; "
                f"train it with a table of grounding, such as two-branch-1 --rows {name}."
            )
        return (own or known)[0]

    def check(self) -> None:
        """Raise a SeesayError if a protocol does not fit the corpus or split, or a change not the table."""
        corpus, name = self.corpus, self.definition.name
        protocols = [PROTOCOLS[self.definition.protocol_of(row)] for row in self.definition.rows]
        if any(Change.parse(text).key == "seed" for text in self.changes):
            raise SeesayError("changes: seed is not one of them; a table is given its seeds by themselves.")
        images = len(corpus.split(self.split).images)
        for protocol in protocols:
            if corpus.has_boxes != (protocol.needs == "phrases"):
                wanted = "phrases with boxes" if protocol.needs == "phrases" else "captioned images"
                raise SeesayError(f"Table {name}: needs {wanted}, which {corpus.root} does not have.")
            if protocol.images not in (None, images):
                raise SeesayError(
                    f"Table {name}: protocol '{protocol.name}' is for {protocol.images} images; "
                    f"split '{self.split}' of {corpus.root} has {images}."
                )
        self.definition.check_changes(corpus.name, self.changes)


def weights_of(row: TableRow) -> Path | None:
    """Return the included weights that a row is named after: it measures them, and trains nothing."""
    if row.changes or row.recipes != (row.name,):
        return None
    return next((folder for folder in included_runs() if folder.name == row.name), None)


def without_other_weights(runs: TableRuns, tell: Callable[[str], None]) -> TableRuns:
    """Leave out rows of included weights if these were trained on another corpus, or recipes are changed."""
    kept = []
    for row in runs.definition.rows:
        if (weights := weights_of(row)) is not None:
            own = Run.load(str(weights)).recipe.corpus
            if runs.changes or own != runs.corpus.name:
                why = "which --set does not change" if runs.changes else f"trained on {own}"
                tell(f"{row.name}: left out; included weights, {why}")
                continue
        kept.append(row.name)
    if not kept:
        raise SeesayError(f"Table {runs.definition.name}: no row is left.")
    return replace(runs, definition=runs.definition.only(kept))


def measure_table(
    runs: TableRuns,
    seeds: Sequence[int],
    tell: Callable[[str], None],
    record: Path | None = None,
    metrics: Sequence[str] = (),
) -> PaperTable:
    """Measure a whole table; a row that fails does not stop the others.

    Args:
        runs: its runs, trained or not.
        seeds: of each row, in the order in which they are trained; included weights are measured once.
        tell: called with a line about the settings, and before, after or instead of each row.
        record: the folder of results that rows are recorded in.
        metrics: the columns to show, see `PaperTable`.

    Raises:
        SeesayError: the table does not fit the corpus, has no such column, or a row cannot be recorded.
    """
    runs = without_other_weights(runs, tell)
    runs.check()
    definition, corpus = runs.definition, runs.corpus.name
    table = PaperTable(definition, corpus, runs.split, metrics)
    rows = [row for row in definition.rows if row.measured]
    if line := settings_line(definition.name, definition.recipes_for(corpus)):
        tell(line)
    for at, (row, seed) in enumerate(product(rows, seeds)):
        called = f"{row.name} seed {seed}"
        if weights_of(row) is not None:  # which have a single seed
            if seed != seeds[0]:
                continue
            called = row.name
        tell(f"row {at // len(seeds) + 1}/{len(rows)} {called}")
        try:
            measured = runs.measured(row, seed)
        except SeesayError as error:
            failure = f"{called} failed: {error}"
            table.line(row.name).failures.append(without_folders(failure))
            tell(f"  failed: {error}")
            continue
        table.line(row.name).rows.append(measured)
        tell("  " + ", ".join(f"{name} {number(value)}" for name, value in measured.shown.items()))
        if record is not None:
            record_row(record, corpus, measured)
    return table
