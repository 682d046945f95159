"""Characters that have several spellings, or are none."""

from __future__ import annotations

import re
import unicodedata

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Matches half of a surrogate pair, which a text contains if it was made from bytes that are not UTF-8."""
_MOST_ACCENTS = 30  # in a row, as in Unicode's stream-safe format (UAX 15)


def composed(text: str) -> str:
    """Return a text with its accents composed (NFC), since macOS may write them as separate characters.

    A text with more than 30 accents in a row is returned unchanged, because sorting n of them takes n² steps.

    >>> composed("cafe\N{COMBINING ACUTE ACCENT}") == "caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    True
    """
    in_a_row = 0
    for letter in "" if text.isascii() else text:
        in_a_row = in_a_row + 1 if unicodedata.combining(letter) else 0
        if in_a_row > _MOST_ACCENTS:
            return text
    return unicodedata.normalize("NFC", text)
