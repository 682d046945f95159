"""Words of a text, where they are, and their letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from seesay.data.texts import composed

QUOTED = re.compile(r'"[^"]*"')
_SCRIPTS = (*range(0x300, 0x3100), *range(0xA600, 0xAC00))  # the blocks that have marks
_MARKS = "".join(mark for mark in map(chr, _SCRIPTS) if unicodedata.category(mark)[0] == "M")
_JOINERS = "\u200c\u200d"  # within words of Persian, Sinhala and others
_LETTERS = rf"(?:[^\W_][{_MARKS}]*)+"  # accents and vowel signs may be separate characters
LETTERS = rf"{_LETTERS}(?:[{_JOINERS}]{_LETTERS})*"
"""Letters and digits with their accents and vowel signs."""

_WORD = re.compile(rf"{LETTERS}(?:['’]{LETTERS})?")


def tokenize(text: str) -> list[str]:
    """Split a text into lower-cased words and numbers, without punctuation; accents are composed.

    >>> tokenize("A man's dog, jumping!")
    ['a', "man's", 'dog', 'jumping']
    """
    return _WORD.findall(composed(text).lower().replace("’", "'"))


def replace_words(text: str, others: Mapping[str, str]) -> str:
    """Replace words of a text, given in the form that `tokenize` returns.

    >>> replace_words("A man's Dgo, jumping!", {"dgo": "dog"})
    "A man's dog, jumping!"
    """
    return _WORD.sub(lambda word: others.get(composed(word[0]).lower().replace("’", "'"), word[0]), text)


def without_accents(word: str) -> str:
    """Return a word without its accents.

    >>> without_accents("crème")
    'creme'
    """
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFKD", word)
    return unicodedata.normalize("NFC", "".join(x for x in letters if not unicodedata.combining(x)))
