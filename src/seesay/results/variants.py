"""Changed recipes: when two changes say the same, and the names that shipped tables give to them."""

from __future__ import annotations

import json
from functools import cache

import yaml

from seesay.recipes.table import list_tables
from seesay.results.rows import Row


@cache
def canonical(change: str) -> str:
    """Write a change to a recipe in the one way in which two that say the same are equal.

    >>> canonical('encoders=["a", "b"]') == canonical("encoders=['a','b']")
    True
    """
    key, _, value = change.partition("=")
    try:
        return f"{key}={json.dumps(yaml.safe_load(value), sort_keys=True)}"
    except (yaml.YAMLError, TypeError):  # a date, which JSON lacks
        return change


def row_name(row: Row) -> str:
    """The name that a shipped table gives a changed recipe, or the recipe's own."""
    recipe = row.provenance.recipe
    return _variants().get((recipe, *sorted(map(canonical, row.changes))), recipe)


@cache
def _variants() -> dict[tuple[str, ...], str]:
    """Return the names that shipped tables give changed recipes, by the recipe and its changes."""
    rows = [row for table in list_tables() for row in table.rows if row.changes]
    return {(row.recipe or row.name, *sorted(map(canonical, row.changes))): row.name for row in rows}
