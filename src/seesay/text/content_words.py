"""The words of a sentence that say what is to be seen: nouns, adjectives, verbs and numbers, as lemmas.

A word's part of speech follows from what the dictionary says it may be and from whether it stands in a noun
phrase; its lemma from the dictionary, so that the tenses of a verb are one word, and so are the singular and
plural of a noun.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from typing import Literal, NamedTuple

from lemminflect import getLemma  # type: ignore[import-untyped]

from seesay.text._word_classes import ADVERBIAL, COLOURS, listed, word_class
from seesay.text.chunker import Chunk, noun_phrases

Part = Literal["noun", "adjective", "verb", "number"]
PARTS: tuple[Part, ...] = ("noun", "adjective", "verb", "number")

# Compounds stay whole ("t-shirt"); what stands behind an apostrophe is no word of its own.
_WORD = re.compile(r"(?<!['’])\b[^\W_]+(?:-[^\W_]+)*")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_UPOS = {"noun": "NOUN", "adjective": "ADJ", "verb": "VERB"}
# Plurals that are another word than their singular: a man in shorts is not short.
_PLURAL_ONLY = listed("""
    pants shorts jeans trousers overalls tights clothes leggings pajamas glasses sunglasses goggles binoculars
    headphones stairs woods sports
""")
_LEMMAS = {"leaves": "leaf"}  # nouns of which the dictionary knows a rarer singular first
# The same word written otherwise; descriptions say "lays on the grass" as often as "lies".
_SAME = {"gray": "grey", "tshirt": "t-shirt", "tee-shirt": "t-shirt", "colour": "color", "blonde": "blond"}
_SAME |= {"coloured": "colored", "colourful": "colorful", "lay": "lie"}
_SAYS_NOTHING = listed("""
    be have do let very other such own something someone somebody anything everyone nothing
""")


class ContentWord(NamedTuple):
    """A lemma, in lower case, and what it is in its sentence."""

    lemma: str
    part: Part


def content_words(sentence: str) -> list[ContentWord]:
    """The nouns, adjectives, verbs and numbers of an English sentence, in order.

    >>> [f"{word.lemma} {word.part}" for word in content_words("Two men are riding brown horses")]
    ['two number', 'man noun', 'ride verb', 'brown adjective', 'horse noun']
    """
    phrases = noun_phrases(sentence)
    starts = [phrase.start for phrase in phrases]
    found = []
    for match in _WORD.finditer(sentence):
        before = bisect_right(starts, match.start()) - 1
        phrase = phrases[before] if before >= 0 and match.start() < phrases[before].end else None
        word = _content_word(match[0].lower(), _place(match, phrase))
        if word is not None:
            found.append(word)
    return found


_Place = Literal["outside", "within", "last"]  # of a noun phrase, or of the part of it before "of"


def _place(match: re.Match[str], phrase: Chunk | None) -> _Place:
    if phrase is None:
        return "outside"
    last = match.end() >= phrase.end or match.string.startswith(" of ", match.end())
    return "last" if last and match.start() > phrase.start else "within"


@lru_cache(1 << 16)
def _content_word(word: str, place: _Place) -> ContentWord | None:
    """What the word is there; None where it is none of the four."""
    if number := _number(word):
        return ContentWord(number, "number")
    known = word_class(word)
    if len(word) == 1 or known.classes & {"closed", "determiner", "mark"}:
        return None
    if word in ADVERBIAL and place == "outside":  # "in front of", "runs back"
        return None
    part = _part(word, place)
    if part is None:
        return None
    lemma = _lemma(word, part)
    return None if lemma in _SAYS_NOTHING else ContentWord(lemma, part)


def _number(word: str) -> str:
    if word.isdecimal():
        return _NUMBERS[int(word) - 1] if len(word) < 3 and 1 <= int(word) <= len(_NUMBERS) else ""
    return word if word in _NUMBERS or word == "dozen" else ""


def _part(word: str, place: _Place) -> Part | None:
    known = word_class(word)
    may = known.classes
    if word in COLOURS:
        return "adjective"
    participle = known.form in ("ing", "past")
    plain = known.form == "base" and not known.common  # "is ready": seldom a verb
    if place == "last" and "noun" in may:
        return "noun"
    if place == "outside" and "verb" in may and not ("adj" in may and plain):
        return "verb"
    if "adj" in may:
        return "adjective"
    if participle and "verb" in may and (known.common or "noun" not in may):  # "a running dog"
        return "verb"
    if "noun" in may:
        return "noun"
    return "verb" if "verb" in may else None


def _lemma(word: str, part: Part) -> str:
    if word in _PLURAL_ONLY:
        return word
    if part == "noun" and word in _LEMMAS:
        return _LEMMAS[word]
    lemmas: tuple[str, ...] = getLemma(word, _UPOS[part])  # by rules where the dictionary lacks it
    lemma = lemmas[0] if lemmas else word
    return _SAME.get(lemma, lemma)
