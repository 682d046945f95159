"""Tables as data: which recipes are their rows, and which published rows stand beside.

One YAML a table: a paper's below `tables/<paper>/`, those of several papers below `tables/all/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from seesay.errors import SeesayError
from seesay.recipes.load import load_recipe
from seesay.recipes.schema import Recipe


class TableRow(BaseModel):
    """One row: a recipe, or a combination of two runs.

    Attributes:
        name: the recipe's, or the row's own.
        recipe: the recipe, where that is not the name.
        protocol: what it is measured by, where that is not the table's.
        published: the paper's row beside it, by its printed name; by default the one of that recipe.
        combine: a recipe for sentences and one for phrases, whose distances are weighed against each other.
        changes: `key=value`, for a variant of the recipe; the row's name is then the variant's, and its
            run's.
        group: the heading it stands under.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    recipe: str | None = None
    protocol: str | None = None
    published: str | None = None
    combine: tuple[str, str] | None = None
    changes: tuple[str, ...] = ()
    group: str | None = None

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes that must be trained for it."""
        return self.combine or (self.recipe or self.name,)


class TableDefinition(BaseModel):
    """A table; in YAML a row that is a recipe and no more is its bare name.

    Rows may be a mapping from headings to the rows below them.

    Attributes:
        source: the paper, as the published rows name it; without it, rows of every paper stand beside.
        table: its number there.
        corpus: the paper's, whose published rows stand beside where there are none for the corpus at hand.
        beside: further corpora, in whose published rows a row is looked for that has none on that one.
        protocol: what rows are measured by that name none of their own.
        measures: the columns to show, such as `R@1`; all without it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    source: str | None = None
    table: int | None = Field(None, gt=0)
    corpus: str
    beside: tuple[str, ...] = ()
    protocol: str
    measures: tuple[str, ...] = ()
    rows: tuple[TableRow, ...] = Field(min_length=1)

    @field_validator("rows", mode="before")
    @classmethod
    def _named(cls, rows: Any) -> Any:
        if isinstance(rows, dict):
            return [row for group, below in rows.items() for row in _below(group, below)]
        if not isinstance(rows, list | tuple):
            return rows
        return [{"name": row} if isinstance(row, str) else row for row in rows]

    @model_validator(mode="after")
    def _of_one_paper_or_of_many(self) -> TableDefinition:
        if (self.source is None) != (self.table is None):
            raise ValueError("source and table go together: a paper, and which of its tables")
        return self

    @property
    def of(self) -> tuple[str, int] | None:
        """The paper and its table's number; None for a table of several papers."""
        return (self.source, self.table) if self.source is not None and self.table is not None else None

    def protocol_of(self, row: TableRow) -> str:
        """What that row is measured by."""
        return row.protocol or self.protocol

    @property
    def grounds(self) -> bool:
        """Whether its corpus is one of phrases."""
        return self.protocol == "grounding"

    def only(self, names: Sequence[str]) -> TableDefinition:
        """The table with these of its rows, in its own order; whole when none is named.

        Raises:
            SeesayError: it has no such row.
        """
        there = [row.name for row in self.rows]
        for name in names:
            if name not in there:
                raise SeesayError(f"table {self.name}: no row '{name}'; there are {', '.join(there)}.")
        kept = tuple(row for row in self.rows if not names or row.name in names)
        return self.model_copy(update={"rows": kept})

    def recipe(self, name: str, corpus: str, changes: Sequence[str], seed: int) -> Recipe:
        """A row's recipe for a corpus, with changes and seed; see `load_recipe`.

        Raises:
            SeesayError: the recipe cannot be; says in which table.
        """
        try:
            return load_recipe(name, corpus, changes).model_copy(update={"seed": seed})
        except SeesayError as error:
            raise SeesayError(f"table {self.name}: {error}") from error


def is_table(name: str) -> bool:
    """Whether that is a table's name, or could be its YAML file."""
    return name in _shipped() or Path(name).suffix in (".yaml", ".yml")


def list_tables() -> list[TableDefinition]:
    """Every table that comes with seesay, by name."""
    return [load_table(name) for name in sorted(_shipped())]


def load_table(name: str) -> TableDefinition:
    """The table `name`, or the one in a YAML file.

    Raises:
        SeesayError: there is none, it says what no table may say, or a recipe that it names is missing.
    """
    shipped = _shipped()
    path = shipped.get(name, Path(name))
    if name not in shipped and path.suffix not in (".yaml", ".yml"):
        raise SeesayError(f"No table '{name}'; there are {', '.join(sorted(shipped))}.")
    try:
        definition = TableDefinition.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as failure:
        first = failure.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise SeesayError(f"table {name}: key '{key}': {first['msg'].lower()}.") from failure
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as failure:
        raise SeesayError(f"table {name}: cannot be read ({' '.join(str(failure).split())}).") from failure
    for row in definition.rows:
        for recipe in row.recipes:
            definition.recipe(recipe, definition.corpus, row.changes, seed=1)
    return definition


def parse_seeds(text: str) -> list[int]:
    """Seeds from `1,2,3`.

    Raises:
        SeesayError: they are no whole numbers from 0, or one stands twice.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(map(int, parts))) < len(parts):
        raise SeesayError(f"--seeds {text}: write different whole numbers, such as 1,2,3.")
    return [int(part) for part in parts]


def _below(group: Any, rows: Any) -> list[Any]:
    rows = (
        [{"name": row} if isinstance(row, str) else row for row in rows] if isinstance(rows, list) else [rows]
    )
    return [row | {"group": group} if isinstance(row, dict) else row for row in rows]


def _shipped() -> dict[str, Path]:
    root = Path(str(files("seesay.recipes"))) / "tables"
    return {path.stem: path for path in root.glob("*/*.yaml")}
