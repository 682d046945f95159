"""Known words, and corrections of misspelt ones."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from string import ascii_lowercase

from seesay.text.tokens import tokenize, without_accents
from seesay.text.vocabulary import UNKNOWN, Vocabulary
from seesay.text.words import words_or_signs

_WORDS, _DICTIONARY = "words.txt.gz", "dictionary.txt.gz"
_LONGEST = 30  # letters of a word that is corrected: the time grows with the square of the length
_LONG = 5  # letters: a fifth of all sequences of four letters are one slip away from a word
_MOST = 5  # misspelt words: a query with more is in another language


def is_word(word: str) -> bool:
    """Return whether a lower-case word is among 170,000 frequent English words or contains a digit.

    The list has the words of letters and apostrophes in the more frequent half of GloVe's vocabulary
    (Pennington et al. 2014; public domain). It has no accents, so words are looked up without theirs.

    >>> [is_word(word) for word in ("dachshund", "dog's", "4x4", "café", "qwop")]
    [True, True, True, True, False]
    """
    plain = without_accents(word)
    known = plain in _ranks(_WORDS) or plain.split("'")[0] in _ranks(_WORDS)
    is_letter = len(plain) == 1 and plain.isascii() and plain.isalpha()
    return known or is_letter or any(letter.isdigit() for letter in word)


def unknown_words(sentences: Sequence[str], vocabulary: Vocabulary, english: bool) -> list[str]:
    """Return the words of sentences that are not in a vocabulary, each once, in order.

    With `english`, words accepted by `is_word` are also known.

    >>> unknown_words(["a xyzzy dachshund"], Vocabulary(["a"]), english=True)
    ['xyzzy']
    """
    words = dict.fromkeys(word for sentence in sentences for word in words_or_signs(sentence))
    outside = [word for word in words if vocabulary.encode(word) == [UNKNOWN]]
    return [word for word in outside if not (english and is_word(word))]


@cache
def _ranks(file: str) -> dict[str, int]:
    """The words of an included list, one per line, by place; in the dictionary frequent ones come first."""
    lines = gzip.decompress(Path(__file__).with_name(file).read_bytes()).decode().split("\n")
    return {word: rank for rank, word in enumerate(lines)}


def corrections(words: Sequence[str], vocabulary: Vocabulary, english: bool) -> dict[str, str]:
    """Return corrections of misspelt words.

    A misspelt word is neither in the vocabulary nor accepted by `is_word`. It is replaced by a word that
    differs by one slip: two letters swapped, one added, one missing or one wrong. Words with the same set of
    letters are preferred, then words in the vocabulary, then more frequent ones. A word of fewer than five
    letters is only replaced by one with the same letters, a word of more than 30 letters is left unchanged,
    and if more than five words are misspelt, none is corrected.

    Words are in lower case; those of the vocabulary come most frequent first. With `english`, 47,000 words of
    a dictionary can also be corrections.

    >>> corrections(["bicylce", "bicycle", "skatebord", "xyzzy"], Vocabulary(["bicycle"]), english=True)
    {'bicylce': 'bicycle', 'skatebord': 'skateboard'}
    """
    # Punctuation is not a misspelt word, although one more letter would make it one.
    misspelt = [
        word
        for word in words
        if tokenize(word) == [word] and vocabulary.encode(word) == [UNKNOWN] and not is_word(word)
    ]
    ranks = _ranks(_DICTIONARY) if english else {}
    found = {}
    for word in misspelt if len(misspelt) <= _MOST else ():
        candidates = list[tuple[bool, bool, int, str]]()
        for other in _one_slip_away(word) if len(word) <= _LONGEST else ():
            has_others = set(other) != set(word)
            number, *more = vocabulary.encode(other)
            if more:  # two words, because a letter and its accent changed places
                continue
            known = number != UNKNOWN
            if (known or other in ranks) and (len(word) >= _LONG or not has_others):
                candidates.append((has_others, not known, number if known else ranks[other], other))
        if candidates:
            found[word] = min(candidates)[-1]
    return found


def _one_slip_away(word: str) -> Iterator[str]:
    for i in range(len(word) + 1):
        start, end = word[:i], word[i:]
        yield from (f"{start}{letter}{end}" for letter in ascii_lowercase)
        if end:
            yield start + end[1:]
            yield from (f"{start}{letter}{end[1:]}" for letter in ascii_lowercase)
        if len(end) > 1:
            yield start + end[1] + end[0] + end[2:]
