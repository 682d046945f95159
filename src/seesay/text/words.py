"""English words; other words have no meaning to any run."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from seesay.text.vocabulary import UNKNOWN, Vocabulary, tokenize, without_accents

_FILE = Path(__file__).with_name("words.txt.gz")


def is_word(word: str) -> bool:
    """Return whether a lower-case word is among 170,000 frequent English words or contains a digit.

    The list is that of the GloVe vectors (Pennington et al. 2014; public domain), without its rarer half. It
    has no accents, so words are also looked up without theirs.

    >>> [is_word(word) for word in ("dachshund", "dog's", "4x4", "café", "qwop")]
    [True, True, True, True, False]
    """
    plain = without_accents(word)
    known = plain in _words() or plain.split("'")[0] in _words()
    is_letter = len(plain) == 1 and plain.isascii() and plain.isalpha()
    return known or is_letter or any(letter.isdigit() for letter in word)


def words_or_signs(sentence: str) -> list[str]:
    """Return the words of a sentence, in lower case; its other characters if it has no words.

    >>> words_or_signs("Two dogs!"), words_or_signs(" ?! "), words_or_signs(" ")
    (['two', 'dogs'], ['?!'], [])
    """
    return tokenize(sentence) or sentence.split()


def unknown_words(sentences: Sequence[str], vocabulary: Vocabulary, english: bool) -> list[str]:
    """Return the words of sentences that are not in a vocabulary, each once, in order.

    Args:
        sentences: of any words.
        vocabulary: of known words.
        english: whether words accepted by `is_word` are known, too.

    >>> unknown_words(["a xyzzy dachshund"], Vocabulary(["a"]), english=True)
    ['xyzzy']
    """
    words = dict.fromkeys(word for sentence in sentences for word in words_or_signs(sentence))
    outside = [word for word in words if vocabulary.encode(word) == [UNKNOWN]]
    return [word for word in outside if not (english and is_word(word))]


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    return frozenset(read_words(_FILE))


def read_words(file: Path) -> list[str]:
    """Read an included list of words, one per line."""
    return gzip.decompress(file.read_bytes()).decode().split("\n")
