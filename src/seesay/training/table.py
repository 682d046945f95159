"""The rows of a paper's table: each run trained, resumed or taken as it is, then measured.

Runs lie in `RUNS/<corpus>/<recipe>-seed<k>`, so tables share them, as do composed matchers their members;
what was measured is kept with them (`measured`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from seesay.data.corpus import Corpus
from seesay.data.phrases import PhraseCorpus
from seesay.errors import SeesayError
from seesay.matchers.composed import ComposedSettings
from seesay.protocols.base import PROTOCOLS
from seesay.protocols.evaluate import evaluate
from seesay.protocols.phrase_distance import measure_combined
from seesay.protocols.provenance import provenance
from seesay.recipes.load import is_same, read_recipe
from seesay.recipes.schema import Recipe
from seesay.recipes.table import TableDefinition, TableRow
from seesay.results.paper_table import Outcome, PaperTable
from seesay.results.rows import record_row
from seesay.runs.run import RECIPE, VOCABULARY, Run
from seesay.text.vocabulary import Vocabulary
from seesay.training import checkpoint
from seesay.training.composed import is_put_together, put_together
from seesay.training.measured import data_digest, kept_or_measured
from seesay.training.runs import REPORT
from seesay.training.train import train

_WORDS_ABOUT = ("about", "system", "departures")  # of a recipe; they change no weight


@dataclass(frozen=True)
class TableRuns:
    """The runs of a table on one corpus.

    Attributes:
        definition: the table, with the rows that are wanted.
        corpus: captioned images, or phrases for a table of grounding.
        folder: where runs lie.
        split: what is measured.
        changes: `key=value`, for every recipe.
        may_train: whether runs that are missing or not finished are trained.
        commit: of the source, for the record.
    """

    definition: TableDefinition
    corpus: Corpus | PhraseCorpus
    folder: Path
    split: str = "test"
    changes: Sequence[str] = ()
    may_train: bool = True
    commit: str | None = None

    def outcomes(self, seeds: Sequence[int], tell: Callable[[str], None]) -> Iterator[Outcome]:
        """Every row with every seed, as each is done; a row that fails does not stop the others.

        Args:
            seeds: of the runs, in the order in which they are trained.
            tell: is given a line about each row before it begins.

        Raises:
            SeesayError: the protocol does not go with the corpus or the split, or a change sets the seed.
        """
        self._check()
        rows = self.definition.rows
        for number, row in enumerate(rows, start=1):
            for seed in seeds:
                tell(f"row {number}/{len(rows)} {row.name} seed {seed}")
                try:
                    outcome = Outcome(row.name, seed, self.measured(row, seed))
                except SeesayError as error:
                    outcome = Outcome(row.name, seed, None, str(error))
                yield outcome

    def measured(self, row: TableRow, seed: int) -> dict[str, Any]:
        """The result row of one row and seed: the kept one, or measured now.

        Raises:
            SeesayError: it cannot be trained or measured.
        """
        variant = (row.changes, row.name) if row.changes else ()
        folders = [self.run(row.recipes[0], seed, *variant)]
        folders += [self._phrase_run(name, seed) for name in row.recipes[1:]]
        name = f"{row.name} {self.definition.protocol_of(row)} {self.split}"
        return kept_or_measured(folders, name, self._data_digest, lambda: self._measure(row, folders))

    def run(self, name: str, seed: int, changes: Sequence[str] = (), called: str | None = None) -> Path:
        """The folder of a recipe's finished run, which is trained or resumed where it is not there.

        Args:
            name: the recipe's.
            seed: of the run.
            changes: `key=value`, before those of the whole table.
            called: what its folder is named after; by default the recipe.

        Raises:
            SeesayError: it cannot be trained, or the folder holds a run of something else.
        """
        recipe = self.definition.recipe(name, self.corpus.name, (*changes, *self.changes), seed)
        folder = self.folder / self.corpus.name / f"{called or recipe.name}-seed{seed}"
        if isinstance(recipe.matcher, ComposedSettings):
            return self._composed(recipe, recipe.matcher.members, folder)
        finished = (folder / REPORT).is_file()
        if not finished and not self.may_train:
            raise SeesayError(f"{folder}: no finished run there; leave --no-train away to train it.")
        begun = finished or (folder / checkpoint.FILE).is_file()
        if begun:
            recipe = self._recipe_there(folder, recipe)
        else:
            for file in (RECIPE, VOCABULARY):  # all that a run which learned nothing has left
                (folder / file).unlink(missing_ok=True)
        if not finished:
            train(recipe, self.corpus, folder, resume=begun)
        return folder

    def _composed(self, recipe: Recipe, members: Sequence[str], folder: Path) -> Path:
        """What is composed of the table's own runs, put together anew where one of them has changed."""
        folders = [self.run(name, recipe.seed) for name in members]
        if (folder / REPORT).is_file():
            self._recipe_there(folder, recipe)
        if not is_put_together(folder, folders):
            put_together(recipe, [Run.load(str(each)) for each in folders], self.corpus, folder)
        return folder

    def _phrase_run(self, name: str, seed: int) -> Path:
        """The finished run of a grounding recipe, trained on whichever phrases."""
        there = sorted(path.parent for path in self.folder.glob(f"*/{name}-seed{seed}/{REPORT}"))
        own = [folder for folder in there if folder.parent.name.startswith(self.corpus.name)]
        if len(own or there) != 1:
            found = ", ".join(map(str, own or there)) or "none"
            raise SeesayError(
                f"{self.folder}: one finished run of '{name}', seed {seed}, is wanted, found {found}; "
                f"train it with a table of grounding, such as two-branch-1 --rows {name}."
            )
        return (own or there)[0]

    def _measure(self, row: TableRow, folders: Sequence[Path]) -> dict[str, Any]:
        started = time.monotonic()
        runs = [Run.load(str(folder)) for folder in folders]
        if row.combine is None:
            protocol = self.definition.protocol_of(row)
            measured = evaluate(runs[0], self.corpus, protocol, self.split, resamples=0).to_dict()
        elif isinstance(self.corpus, PhraseCorpus):
            raise SeesayError(f"{self.corpus.root}: holds phrases; '{row.name}' is measured on sentences.")
        else:
            measured = measure_combined(runs[0], runs[1], self.corpus, self.split).to_dict()
        found = measured | provenance(runs[0], time.monotonic() - started, self.commit).to_dict()
        if row.combine is None:
            return found
        departures = dict.fromkeys(line for run in runs for line in run.recipe.departures)
        return found | {"recipe": row.name, "system": row.name, "departures": list(departures)}

    def _check(self) -> None:
        protocol, corpus = self.definition.protocol, self.corpus
        for row in self.definition.rows:
            PROTOCOLS[self.definition.protocol_of(row)]  # an error if there is none
        if any(change.partition("=")[0] == "seed" for change in self.changes):
            raise SeesayError("--set seed: a table's seeds are named with --seeds.")
        grounds = PROTOCOLS[protocol].needs == "phrases"
        if isinstance(corpus, PhraseCorpus) != grounds:
            wanted = "phrases with boxes" if grounds else "captioned images"
            raise SeesayError(f"table {self.definition.name}: wants {wanted}, which {corpus.root} has not.")
        images = len(corpus.split(self.split).images)
        needed = PROTOCOLS[protocol].images
        if needed not in (None, images):
            raise SeesayError(
                f"table {self.definition.name}: protocol '{protocol}' is for {needed} images; "
                f"split '{self.split}' of {corpus.root} has {images}."
            )

    def _recipe_there(self, folder: Path, recipe: Recipe) -> Recipe:
        """The recipe of a run that was begun or finished, which must be this one, on these sentences."""
        there = read_recipe(folder / RECIPE)
        if not is_same(there.model_copy(update=_words_about(recipe)), recipe):
            raise SeesayError(f"{folder}: another recipe was trained there; choose another --runs.")
        if (
            Vocabulary.load(folder / VOCABULARY).words
            != Vocabulary.from_texts(self._texts, recipe.min_count).words
        ):
            raise SeesayError(
                f"{folder}: was trained on other sentences than those of {self.corpus.root}; "
                "choose another --runs."
            )
        return there

    @cached_property
    def _texts(self) -> Sequence[str]:
        return self.corpus.split("train").texts()

    @cached_property
    def _data_digest(self) -> str:
        return data_digest(self.corpus, self.split)


def measure_table(
    runs: TableRuns,
    seeds: Sequence[int],
    tell: Callable[[str], None],
    record: Path | None = None,
) -> PaperTable:
    """The whole table.

    Args:
        runs: its runs, made or yet to be made.
        seeds: of each row.
        tell: is given a line before and after each row.
        record: the folder of results that each row is put into.

    Raises:
        SeesayError: the table does not go with the corpus, or a row cannot be recorded.
    """
    table = PaperTable(runs.definition, runs.corpus.name, runs.split)
    for outcome in runs.outcomes(seeds, tell):
        table.add(outcome)
        tell(f"  {outcome.summary()}")
        if record is not None and outcome.measured is not None:
            record_row(record, runs.corpus.name, outcome.measured)
    return table


def _words_about(recipe: Recipe) -> dict[str, Any]:
    return {key: getattr(recipe, key) for key in _WORDS_ABOUT}
