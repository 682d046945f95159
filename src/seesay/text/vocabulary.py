"""Vocabularies, and word frequencies (of few-shot matching: Huang, Long, Wang, AAAI 2019)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.arrays import Vectors
from seesay.paths import read_small_json, replace_text, unusable
from seesay.text.tokens import tokenize, without_accents

if TYPE_CHECKING:
    from seesay.data.corpus import Corpus

UNKNOWN = 0


class Vocabulary:
    """Word numbers from 1; 0 stands for a word that is not in the vocabulary.

    Args:
        words: the words, from number 1.
        lemmas: whether these are base forms; words of a text are then looked up by their base form.
    """

    def __init__(self, words: Iterable[str], lemmas: bool = False) -> None:
        self.words, self.lemmas = tuple(words), lemmas
        self._number = {word: i for i, word in enumerate(self.words, start=1)}

    def __len__(self) -> int:
        """Return the number of words, including the unknown word: the number of rows of an embedding."""
        return len(self.words) + 1

    @classmethod
    def from_texts(cls, texts: Iterable[str], min_count: int, lemmas: bool = False) -> Vocabulary:
        """Take the words that occur at least `min_count` times, most frequent first, ties alphabetically."""
        counts = Counter(word for text in texts for word in _words_of(text, lemmas))
        kept = [(-n, word) for word, n in counts.items() if n >= min_count]
        return cls((word for _, word in sorted(kept)), lemmas)

    def encode(self, text: str) -> list[int]:
        """Look up the word numbers of a sentence; a sentence without words counts as one unknown word.

        A word with accents that is unknown is looked up without them.

        >>> Vocabulary(["dog", "a", "cafe"]).encode("A dog, a xylophone, a café")
        [2, 1, 2, 0, 2, 3]
        """
        number = self._number.get
        words = _words_of(text, self.lemmas)
        return [number(word) or number(without_accents(word), UNKNOWN) for word in words] or [UNKNOWN]

    def save(self, path: Path) -> None:
        """Write the words as JSON: a list, or an object if they are base forms."""
        whole = {"lemmas": True, "words": self.words} if self.lemmas else self.words
        replace_text(path, json.dumps(whole, ensure_ascii=False))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote; raise SeesayError if the file is missing or malformed."""
        try:
            found = read_small_json(path)
            lemmas = isinstance(found, dict) and found["lemmas"] is True
            words = found["words"] if isinstance(found, dict) else found
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError("not a list of words")
        except (OSError, ValueError, KeyError) as failure:
            raise unusable(path, failure, f"not a vocabulary ({failure}); train again.") from failure
        return cls(words, lemmas)


def _words_of(text: str, lemmas: bool) -> list[str]:
    if not lemmas:
        return tokenize(text)
    from seesay.text.concepts import base_form  # its dictionary takes a moment to load

    return [base_form(word) for word in tokenize(text)]


SHOTS = (0, 1, 2, 3)  # K of the paper's K-shot test sets
NO_WORDS = np.iinfo(np.int64).max  # the frequency of the rarest word of a sentence that has none


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Count the words of some sentences."""
    return Counter(word for text in texts for word in tokenize(text))


def rarest_words(texts: Iterable[str], counts: Mapping[str, int]) -> NDArray[np.int64]:
    """Look up the count of the rarest word of each sentence, (m,); NO_WORDS if it has none.

    >>> rarest_words(["a dog", "a xylophone", "?"], {"a": 9, "dog": 4}).tolist()[:2]
    [4, 0]
    """
    found = [min((counts.get(word, 0) for word in tokenize(text)), default=NO_WORDS) for text in texts]
    return np.array(found, np.int64)


def uncommon_words(texts: Iterable[str], counts: Mapping[str, int], k: int) -> set[str]:
    """Collect the words of some sentences whose count is at most `k`."""
    return {word for text in texts for word in tokenize(text) if counts.get(word, 0) <= k}


def rare_word_summary(train: Sequence[str], test: Sequence[str]) -> dict[str, Any]:
    """Compute the paper's Figure 1 from the sentences of both splits.

    Returns `words`, the number of distinct test words, the percentages that occur `below 10` times and `at
    most 1` in training, and the `frequencies` of all there, most frequent first.
    """
    counts = word_counts(train)
    words = sorted(word_counts(test), key=lambda word: (-counts[word], word))
    found = np.array([counts[word] for word in words], np.int64)
    return {
        "words": len(words),
        "below 10": round(100 * float((found < 10).mean()), 2) if words else 0.0,
        "at most 1": round(100 * float((found <= 1).mean()), 2) if words else 0.0,
        "frequencies": dict(zip(words, found.tolist(), strict=True)),
    }


SIMILAR = 0.65  # the cosine with which as many images of COCO have ten similar pairs as in the paper
_OF_IMAGE = 5  # sentences of an image; further ones do not count


def similar_summary(
    corpus: Corpus, encode: Callable[[Sequence[str]], Vectors], threshold: float = SIMILAR
) -> dict[str, int | float | list[float]]:
    """Compute the percentage of `images` with 0, 1, … 10 similar pairs of sentences (`by_pairs`).

    This is Figure 1 of Ke, Li, Wang and Li (2017), who take the pairs among an image's five sentences that a
    network calls similar (Mueller and Thyagarajan 2016), by an unpublished threshold. Here a pair is similar
    if the cosine of its vectors reaches a threshold. Images with fewer than five sentences do not count.
    """
    texts: dict[int, list[str]] = {}
    for sentence in corpus.sentences:
        texts.setdefault(sentence.image, []).append(sentence.text)
    chosen = [some[:_OF_IMAGE] for some in texts.values() if len(some) >= _OF_IMAGE]
    vectors = encode([text for some in chosen for text in some])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = (vectors / np.maximum(lengths, 1e-12)).reshape(len(chosen), _OF_IMAGE, vectors.shape[1])
    left, right = np.array(list(combinations(range(_OF_IMAGE), 2))).T
    pairs = (np.einsum("npd,npd->np", vectors[:, left], vectors[:, right]) >= threshold).sum(axis=1)
    shares = np.bincount(pairs, minlength=len(left) + 1) / max(len(pairs), 1)
    by_pairs = [round(100 * float(share), 2) for share in shares]
    return {"images": len(pairs), "threshold": threshold, "by_pairs": by_pairs}
