"""The names that shipped tables give to changed recipes."""

from __future__ import annotations

from functools import cache

from seesay.recipes.table import list_tables
from seesay.results.records import Row


def row_name(row: Row) -> str:
    """Return the name that a shipped table gives to a changed recipe, or the recipe's own."""
    return _name_in_tables(row) or row.recipe


def variant(row: Row) -> str:
    """Return the recipe with its changes except for the seed: `RECIPE`, or `RECIPE:KEY=VALUE`."""
    return ":".join((row.recipe, *row.variant))


def is_called(row: Row, name: str) -> bool:
    """Return whether a name is the row's: its recipe with its changes, or its name in a shipped table."""
    return name in (variant(row), _name_in_tables(row))


def _name_in_tables(row: Row) -> str | None:
    return _variants().get((row.recipe, *row.variant))


@cache
def _variants() -> dict[tuple[str, ...], str]:
    """Return the names of changed recipes in shipped tables, by the recipe and its changes."""
    rows = [row for table in list_tables() for row in table.rows if row.changes]
    return {(row.recipes[0], *sorted(row.changes)): row.name for row in rows}
