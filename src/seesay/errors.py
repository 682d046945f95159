"""Errors that a user can cause. The command line prints their message as one line and exits with 2."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class SeesayError(Exception):
    """What was wrong, where (file, line, key, shape) and what to do, in one sentence or two."""


class ImageError(SeesayError):
    """One image cannot be used. Commands over many images skip it, count it and list it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name nearest to a misspelt one; empty if none is near.

    >>> did_you_mean("irmatch", ["irmatch-s", "vse++"])
    "; did you mean 'irmatch-s'?"
    >>> did_you_mean("x", ["irmatch-s"])
    ''
    """
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
