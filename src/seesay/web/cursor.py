"""Cursors: where a page of results ended, as text that a client sends back with the same query."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

from seesay.errors import QueryError
from seesay.search.hits import Place


def write(*values: str | float) -> str:
    """Return values as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def _read(cursor: str, kinds: tuple[type, ...]) -> list[Any]:
    try:
        values: Any = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        values = None
    found: list[Any] = values if isinstance(values, list) else []
    is_sound = all(
        math.isfinite(value) if type(value) is float else str(value).isascii()  # as times are
        for value in found
    )
    if [type(value) for value in found] != list(kinds) or not is_sound:
        raise QueryError("This is no cursor of such a page; take `next` from the page before.")
    return found


def place_of(cursor: str) -> Place:
    """Read the place in a ranking.

    Raises:
        QueryError: it is no such cursor.
    """
    score, id_, seen = _read(cursor, (float, int, int))
    return Place(score, min(max(id_, 0), 2**62), min(max(seen, 0), 2**31))


def time_of(cursor: str) -> tuple[str, int]:
    """Read the time and id of an image.

    Raises:
        QueryError: it is no such cursor.
    """
    time, id_ = _read(cursor, (str, int))
    return time, min(max(id_, 0), 2**62)


def rank_of(cursor: str) -> int | None:
    """Read the rank within a re-ranked shortlist; None for a place behind it."""
    try:
        rank = int(_read(cursor, (int,))[0])
    except QueryError:
        return None
    return min(max(rank, 0), 2**31)
