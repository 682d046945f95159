"""Lemmas of English words."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from lemminflect import getLemma  # type: ignore[import-untyped]

from seesay.text.chunker import listed, word_class
from seesay.text.tokens import without_accents

PartOfSpeech = Literal["noun", "adjective", "verb", "number"]

_UPOS = {"noun": "NOUN", "adjective": "ADJ", "verb": "VERB"}
# Plurals whose meaning differs from the singular's: a man in shorts is not short.
_PLURAL_ONLY = listed("""
    pants shorts jeans trousers overalls tights clothes leggings pajamas glasses sunglasses goggles binoculars
    headphones stairs woods sports
""")
_LEMMAS = {"leaves": "leaf"}  # nouns whose first singular in the dictionary is a rarer one
# Other spellings of the same word; descriptions say "lays on the grass" as often as "lies".
_SAME = {"gray": "grey", "tshirt": "t-shirt", "tee-shirt": "t-shirt", "colour": "color", "blonde": "blond"}
_SAME |= {"coloured": "colored", "colourful": "colorful", "lay": "lie"}


def lemma(word: str, part: PartOfSpeech) -> str:
    """Return the lemma of a lower-case word, given its part of speech.

    >>> lemma("leaves", "noun"), lemma("leaves", "verb"), lemma("shorts", "noun")
    ('leaf', 'leave', 'shorts')
    """
    if word in _PLURAL_ONLY:
        return word
    if part == "noun" and word in _LEMMAS:
        return _LEMMAS[word]
    word = plain if (plain := without_accents(word)).isascii() else word
    # The rules for words that the dictionary lacks are for English letters; "café" would become "caf".
    lemmas: tuple[str, ...] = getLemma(word, _UPOS[part]) if word.isascii() else ()
    found = lemmas[0] if lemmas else word
    return _SAME.get(found, found)


@lru_cache(1 << 16)
def base_form(word: str) -> str:
    """Return the base form of a lower-case word, independently of its part of speech in a sentence.

    A word with the ending of a verb form is a verb; other words are nouns if possible. Function words are
    unchanged.

    >>> [base_form(word) for word in "three men are sitting in front of painted buildings".split()]
    ['three', 'man', 'are', 'sit', 'in', 'front', 'of', 'paint', 'building']
    """
    known = word_class(word)
    if known.classes & {"closed", "determiner", "mark", "possessive"}:
        return word
    if "verb" in known.classes and (known.form in ("ing", "past") or "noun" not in known.classes):
        return lemma(word, "verb")
    if "noun" in known.classes:
        return lemma(word, "noun")
    return lemma(word, "adjective") if "adj" in known.classes else word
