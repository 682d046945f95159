"""Content words of sentences, and the semantic concepts formed from them (SCO, section 3.2).

Content words are nouns, adjectives, verbs and numbers, as lemmas from a dictionary: all tenses of a verb are
one word, and so are the singular and plural of a noun. The part of speech of a word depends on what the
dictionary allows and on whether the word is in a noun phrase.

Concepts are the content words that occur most often in the train split. A concept is a lemma regardless of
its part of speech in a sentence: "a skateboard" and "skateboarding" are one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from lemminflect import getLemma  # type: ignore[import-untyped]
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import read_small_json, replace_text, unusable
from seesay.text.chunker import ADVERBIAL, COLOURS, listed, noun_phrases, word_class
from seesay.text.tokens import without_accents

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus

PartOfSpeech = Literal["noun", "adjective", "verb", "number"]
PARTS_OF_SPEECH: tuple[PartOfSpeech, ...] = get_args(PartOfSpeech)

FILE = "concepts.json"  # in a run's folder
MAX_CONCEPTS = 256  # the paper's K
MIN_COUNT = 5  # sentences; a rarer word is not a concept

# Compounds are one word ("t-shirt"); what follows an apostrophe is not a separate word.
_WORD = re.compile(r"(?<!['’])\b[^\W_]+(?:-[^\W_]+)*")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_SAYS_NOTHING = listed("""
    be have do let very other such own something someone somebody anything everyone nothing
""")
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


class ContentWord(NamedTuple):
    """A lemma, in lower case, and its part of speech in its sentence."""

    lemma: str
    part_of_speech: PartOfSpeech


def content_words(sentence: str) -> list[ContentWord]:
    """Find the nouns, adjectives, verbs and numbers of an English sentence, in order.

    >>> [f"{word.lemma} {word.part_of_speech}" for word in content_words("Two men are riding brown horses")]
    ['two number', 'man noun', 'ride verb', 'brown adjective', 'horse noun']
    """
    phrases = noun_phrases(sentence)
    starts = [phrase.start for phrase in phrases]
    found = []
    for match in _WORD.finditer(sentence):
        before = bisect_right(starts, match.start()) - 1
        place: _Place = "outside"
        if before >= 0 and match.start() < (phrase := phrases[before]).end:
            last = match.end() >= phrase.end or sentence.startswith(" of ", match.end())
            place = "last" if last and match.start() > phrase.start else "within"
        if word := _content_word(match[0].lower(), place):
            found.append(word)
    return found


def nouns(sentence: str) -> frozenset[str]:
    """Return the nouns of an English sentence as lemmas.

    >>> sorted(nouns("Two men are riding brown horses"))
    ['horse', 'man']
    """
    return frozenset(word.lemma for word in content_words(sentence) if word.part_of_speech == "noun")


_Place = Literal["outside", "within", "last"]  # of a noun phrase, or of the part of it before "of"


@lru_cache(1 << 16)
def _content_word(word: str, place: _Place) -> ContentWord | None:
    """Return the content word for a word in that position; None if it is not one."""
    if word.isdecimal():
        small = len(word) < 3 and 1 <= int(word) <= len(_NUMBERS)
        return ContentWord(_NUMBERS[int(word) - 1], "number") if small else None
    if word in _NUMBERS or word == "dozen":
        return ContentWord(word, "number")
    if len(word) == 1 or word_class(word).classes & {"closed", "determiner", "mark"}:
        return None
    if word in ADVERBIAL and place == "outside":  # "in front of", "runs back"
        return None
    if (part := _part(word, place)) is None:
        return None
    found = lemma(word, part)
    return None if found in _SAYS_NOTHING else ContentWord(found, part)


def _part(word: str, place: _Place) -> PartOfSpeech | None:
    known = word_class(word)
    may = known.classes
    if word in COLOURS:
        return "adjective"
    if place == "last" and "noun" in may:
        return "noun"
    plain = known.form == "base" and not known.common  # "is ready": seldom a verb
    if place == "outside" and "verb" in may and not ("adj" in may and plain):
        return "verb"
    if "adj" in may:
        return "adjective"
    if "verb" in may and known.form in ("ing", "past") and (known.common or "noun" not in may):
        return "verb"  # "a running dog"
    return "noun" if "noun" in may else "verb" if "verb" in may else None


@dataclass(frozen=True, slots=True)
class Concept:
    """A lemma, its most frequent part of speech, and the number of training sentences that contain it."""

    word: str
    part_of_speech: PartOfSpeech
    count: int


def frequent_concepts(
    sentences: Sequence[str], max_size: int = MAX_CONCEPTS, min_count: int = MIN_COUNT
) -> list[Concept]:
    """Take the `max_size` most frequent content words that occur in at least `min_count` sentences.

    They are ordered by frequency; ties are broken alphabetically.

    Raises:
        SeesayError: there are no such words.
    """
    parts: defaultdict[str, Counter[PartOfSpeech]] = defaultdict(Counter)
    counts: Counter[str] = Counter()
    for text in sentences:
        found = set(content_words(text))
        counts.update({word.lemma for word in found})
        for word in found:
            parts[word.lemma][word.part_of_speech] += 1
    frequent = sorted((-n, word) for word, n in counts.items() if n >= min_count)[:max_size]
    if not frequent:
        raise SeesayError(
            f"No content word occurs in {min_count} of the {len(sentences)} training sentences, so there are "
            "no concepts. Are the sentences in English? If there are few, set `min_count` to 1."
        )
    return [Concept(word, max(PARTS_OF_SPEECH, key=parts[word].__getitem__), -n) for n, word in frequent]


def save_concepts(concepts: Sequence[Concept], path: Path) -> None:
    """Write concepts as JSON."""
    whole = {"concepts": [asdict(concept) for concept in concepts]}
    replace_text(path, json.dumps(whole, ensure_ascii=False, indent=1) + "\n")


def load_concepts(path: Path) -> list[Concept]:
    """Read what `save_concepts` wrote; raise SeesayError if the file is missing or malformed."""
    try:
        rows = read_small_json(path)["concepts"]
        return [Concept(str(c["word"]), c["part_of_speech"], int(c["count"])) for c in rows]
    except (OSError, ValueError, TypeError, KeyError) as failure:
        raise unusable(path, failure, f"not a list of concepts ({failure}); train again.") from failure


def concept_targets(words: Sequence[str], corpus: Corpus) -> NDArray[np.bool_]:
    """Mark for each image the concepts that its sentences mention, (n_images, K); a row may be empty."""
    number = {word: c for c, word in enumerate(words)}
    targets = np.zeros((len(corpus.images), len(words)), bool)
    for sentence in corpus.sentences:
        named = [number[word.lemma] for word in content_words(sentence.text) if word.lemma in number]
        targets[sentence.image, named] = True
    return targets
