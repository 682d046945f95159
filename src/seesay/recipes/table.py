"""Definitions of tables: the recipes of their rows, and the published rows for comparison.

Each paper has a YAML file in `tables/`; the tables of several papers share one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import capwords
from typing import Any

from pydantic import Field, field_validator

from seesay.errors import SeesayError, did_you_mean
from seesay.recipes.files import Change, changes_of, included_recipes, read_yaml
from seesay.recipes.load import changes_by_role, corpora_of, load_recipe, settings_digest, validated
from seesay.recipes.schema import Recipe
from seesay.settings import Settings


class TableRow(Settings):
    """One row: a recipe, or two runs combined.

    Attributes:
        name: the name of the recipe, unless `recipe` is set.
        recipe: the recipe of a row that has its own name.
        protocol: overrides the protocol of the table.
        published: the printed name of the published row; by default that of the recipe.
        combine: a recipe for sentences and one for phrases, whose distances are combined.
        changes: `key=value` changes to `recipe`; the row is then a variant with its own name and run. In
            YAML, a nested list, such as one that rows share, is replaced by its items.
        group: the heading above the row.
        measured: False for a row that has no recipe and only shows the published row.
    """

    name: str
    recipe: str | None = None
    protocol: str | None = None
    published: str | None = None
    combine: tuple[str, str] | None = None
    changes: tuple[str, ...] = ()
    group: str | None = None
    measured: bool = True

    @field_validator("changes", mode="before")
    @classmethod
    def _flat(cls, changes: object) -> object:
        if not isinstance(changes, list):
            return changes
        flat = [each for change in changes for each in (change if isinstance(change, list) else [change])]
        return [str(Change.parse(each)) if isinstance(each, str) else each for each in flat]

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes of the required runs."""
        return self.combine or ((self.recipe or self.name,) if self.measured else ())


class TableDefinition(Settings):
    """A table. In YAML a row may be the bare name of a recipe, and `rows` a mapping from headings to rows.

    Attributes:
        source: the paper; None for a table of several papers.
        table: its number in that paper.
        corpus: the paper's corpus; its published rows are shown if there are none for the corpus measured.
        settings_of: a corpus whose settings the recipes take if they list it, instead of those for the corpus
            measured.
        beside: further corpora whose published rows are shown.
        protocol: the protocol of rows without their own.
        metrics: the metrics to show, such as `R@1`; all if empty.
    """

    name: str
    title: str
    source: str | None = None
    table: int | None = Field(None, gt=0)
    corpus: str
    settings_of: str | None = None
    beside: tuple[str, ...] = ()
    protocol: str
    metrics: tuple[str, ...] = ()
    rows: tuple[TableRow, ...] = Field(min_length=1)

    @field_validator("rows", mode="before")
    @classmethod
    def _flat(cls, rows: Any) -> object:
        if not isinstance(rows, dict):
            rows = {None: rows}
        named = [
            ({"name": row} if isinstance(row, str) else row, group) for group in rows for row in rows[group]
        ]
        return [row | {"group": group} if isinstance(row, dict) else row for row, group in named]

    @property
    def paper(self) -> tuple[str, int] | None:
        """The paper and the number of its table; None for a table of several papers."""
        return (self.source, self.table) if self.source is not None and self.table is not None else None

    @property
    def grounds(self) -> bool:
        """True if it is measured on a corpus of phrases with boxes."""
        return self.protocol == "grounding"

    def protocol_of(self, row: TableRow) -> str:
        """Return the protocol of a row."""
        return row.protocol or self.protocol

    def only(self, names: Sequence[str]) -> TableDefinition:
        """Return the table with only these rows, in its own order; all of them if `names` is empty.

        Raises:
            SeesayError: a row does not exist.
        """
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                near = did_you_mean(name, known) or "."
                raise SeesayError(f"Table {self.name}: no row '{name}'{near} There are: {', '.join(known)}.")
        return self.model_copy(update={"rows": tuple(r for r in self.rows if not names or r.name in names)})

    def recipes_for(self, corpus: str) -> list[Recipe]:
        """Load the recipes of all rows for a corpus; see `recipe`."""
        return [self.recipe(name, corpus, row.changes, seed=1) for row in self.rows for name in row.recipes]

    def check_changes(self, corpus: str, changes: Sequence[str]) -> None:
        """Check changes for all rows: they must not remove what the rows compare.

        Raises:
            SeesayError: other encoders lack a role that a row reads, or two rows become one model.
        """
        before = {
            row.name: self.recipe(row.recipes[0], corpus, row.changes, 1) for row in self.rows if row.recipes
        }
        if "sentence_encoder" in {change.key for change in changes_of(changes)} and not any(
            recipe.sentence_encoder for recipe in before.values()
        ):
            raise SeesayError(
                f"Table {self.name}: no row reads vectors of sentences; leave out the sentence_encoder."
            )
        for recipe in before.values():
            changes_by_role(changes_of(changes), recipe.name, recipe.encoders)
        models: dict[tuple[object, ...], str] = {}
        for row in self.rows:
            try:
                after = _model_of(self.recipe(row.recipes[0], corpus, row.changes, 1, changes))
            except (SeesayError, IndexError):  # the row fails alone; a row without a recipe
                continue
            other = models.setdefault(after, row.name)
            if _model_of(before[other]) != _model_of(before[row.name]):
                raise SeesayError(
                    f"Table {self.name}: with {' '.join(changes)}, {other} and {row.name} are one model; "
                    "leave one of them out by --rows."
                )

    def recipe(
        self, name: str, corpus: str, changes: Sequence[str], seed: int, of_all: Sequence[str] = ()
    ) -> Recipe:
        """Load a row's recipe for a corpus, with its changes, those of all rows, and a seed.

        Encoders that are named for all rows replace those of the same role in each; see `changes_by_role`.

        Raises:
            SeesayError: the recipe is invalid; the message names the table.
        """
        try:
            return load_recipe(name, corpus, changes, self.settings_of, seed, changes_of(of_all))
        except SeesayError as error:
            raise SeesayError(f"Table {self.name}: {error}") from error


def list_tables() -> list[TableDefinition]:
    """Return the included tables, sorted by name."""
    return [table for _, table in sorted(_included().items())]


def load_table(name: str) -> TableDefinition:
    """Return the included table `name`.

    Recipes of the table `corpus/name` have the settings for that corpus, whatever they are trained on.

    Raises:
        SeesayError: the table does not exist, or has no settings for the corpus in its name.
    """
    corpus, slash, table = name.partition("/")
    if not slash or all(corpus not in values["corpora"] for values in included_recipes().values()):
        corpus, table = "", name
    if table not in _included():
        near = did_you_mean(name, _included()) or "."
        raise SeesayError(f"No table '{name}'{near} There are: {', '.join(sorted(_included()))}.")
    definition = _included()[table]
    known = corpora_of(definition.recipes_for(definition.corpus)) if corpus else ()
    if corpus and corpus not in known:
        raise SeesayError(f"Table {table} has settings for {', '.join(known)}, not for '{corpus}'.")
    return definition.model_copy(update={"settings_of": corpus or None})


def parse_numbers(text: str, option: str) -> list[int]:
    """Parse the numbers of an option, such as the seeds `1,2,3`.

    Raises:
        SeesayError: a number is not an integer from 0 to 2**32 - 1, or is repeated.
    """
    numbers = [int(part) for part in text.split(",") if re.fullmatch(r"\s*[0-9]{1,10}\s*", part)]
    distinct = len(set(numbers)) == len(text.split(","))
    if not distinct or max(numbers) >= 1 << 32:
        raise SeesayError(f"{option} {text[:80]}: write different numbers below 4294967296, as 1,2,3.")
    return numbers


def corpus_title(name: str) -> str:
    """Return the display name of a corpus.

    >>> corpus_title("flickr30k-entities"), corpus_title("coco")
    ('Flickr30k Entities', 'COCO')
    """
    return capwords(name.replace("-", " ")).replace("Coco", "COCO")


def _model_of(recipe: Recipe) -> tuple[object, ...]:
    """Return what tells the models of a table's recipes apart."""
    return settings_digest(recipe), recipe.encoders, getattr(recipe.loss, "teacher", None)


@cache
def _included() -> dict[str, TableDefinition]:
    """Return the tables by name: of each that a file defines, one for each of its corpora with a protocol."""
    found = {}
    for path in Path(str(files("seesay.recipes"))).glob("tables/*.yaml"):
        content = read_yaml(path, path.name)
        for shared in content["tables"]:
            for number, (corpus, protocol) in enumerate(shared["corpora"].items()):
                own = {"source": content.get("source"), "corpus": corpus, "protocol": protocol}
                own["name"] = name = f"{shared['name']}-{corpus}" if number else shared["name"]
                own["title"] = shared["title"].format(corpus=corpus_title(corpus))
                values = {key: value for key, value in (shared | own).items() if key != "corpora"}
                found[name] = validated(TableDefinition, values, f"Table {name}")
    return found
