"""English names of everyday things that people ask for in German, Spanish, French or Chinese."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


def english_for(text: str) -> str | None:
    """Return the English name of a thing that a text names in another language; None if it is not known.

    >>> english_for("Hund"), english_for("árboles"), english_for("狗"), english_for("dog")
    ('dog', 'tree', 'dog', None)
    """
    return _words().get(text.strip().casefold())


@cache
def _words() -> dict[str, str]:
    lines = files("seesay.text").joinpath("translations.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    return {word.casefold(): name for name, words in pairs for word in words.split()}
