"""ROUGE-L of sentences against the sentences of images.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004), with several references as the
captioning literature defines it (Chen et al., arXiv 1504.00325): the best precision and the best recall over
the references, and their F-measure with β = 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.inputs import as_places

_BETA = 1.2
_WIDTHS = ((32, np.uint32), (64, np.uint64))  # by bits; longer sentences need Python's integers


Words = Sequence[str]  # of a sentence


def rouge_l(
    candidates: Sequence[Words], references: Sequence[Words], image_of_reference: ArrayLike, n_images: int
) -> NDArray[np.float32]:
    """Compute ROUGE-L of every candidate against the references of every image.

    Args:
        candidates: m sentences, each a list of words.
        references: k sentences, each a list of words.
        image_of_reference: (k,), for each reference the number of its image.
        n_images: the number of images; those without references score 0, as do candidates without words.

    Returns:
        (n_images, m), from 0 to 1.

    Raises:
        SeesayError: a shape is wrong, an image is not in 0..n_images-1, or a sentence is a string.

    >>> rouge_l([["a", "dog", "runs"]], [["a", "dog", "sits"], ["two", "men"]], [0, 1], 2).round(3).tolist()
    [[0.6669999957084656], [0.0]]
    """
    for name, given in (("candidates", candidates), ("references", references)):
        if (text := next((each for each in (given, *given) if isinstance(each, str)), None)) is not None:
            raise SeesayError(f"{name}: expected lists of words, got the string {text!r}.")
    image_of_reference = as_places(image_of_reference, "image_of_reference", n_images, len(references))
    scores = np.zeros((n_images, len(candidates)), np.float32)
    order = np.argsort(image_of_reference, kind="stable")
    texts = _References([references[i] for i in order])
    images, starts = np.unique(image_of_reference[order], return_index=True)
    for column, candidate in enumerate(candidates):
        words = texts.numbers(candidate)
        if not words or not len(images):
            continue
        common = texts.common(words)
        precision = np.maximum.reduceat(common, starts) / len(words)
        recall = np.maximum.reduceat(common / texts.lengths, starts)
        below = recall + _BETA**2 * precision
        scores[images, column] = (1 + _BETA**2) * precision * recall / np.where(below > 0, below, 1)
    return scores


class _References:
    """Sentences stored by word position, so that one sentence is compared with all at once.

    Attributes:
        lengths: in words, (k,); 1 for a sentence without words, to divide by.
    """

    def __init__(self, texts: Sequence[Words]) -> None:
        self._numbers: dict[str, int] = {}
        sentences = [[self._numbers.setdefault(word, len(self._numbers)) for word in text] for text in texts]
        counts = np.array([len(sentence) for sentence in sentences], np.int64)
        self.lengths = np.maximum(counts, 1)
        self._order = np.argsort(-counts, kind="stable")  # the longest first; shorter ones end earlier
        longest = int(counts.max(initial=0))
        self._words = [
            np.array([sentences[i][at] for i in self._order[: int((counts > at).sum())]], np.int64)
            for at in range(longest)
        ]

    def numbers(self, text: Words) -> list[int]:
        """Number the words of a sentence; -1 for words that no reference has."""
        return [self._numbers.get(word, -1) for word in text]

    def common(self, words: Sequence[int]) -> NDArray[np.int64]:
        """Compute the length of the longest common subsequence with each reference, (k,).

        Each bit stands for a word, so a row of the dynamic programme is one number (Hyyrö, "Bit-parallel
        LCS-length computation revisited", 2004): row = (row + met) | (row - met) with met = row & matches.
        """
        dtype = next((each for bits, each in _WIDTHS if len(words) <= bits), object)
        matches = np.zeros(len(self._numbers) + 1, dtype)
        for at, word in enumerate(words):
            matches[word] = int(matches[word]) | 1 << at  # the last is for words that no reference has
        full = (1 << len(words)) - 1
        rows = np.full(len(self._order), full, dtype)
        for column in self._words:
            row = rows[: len(column)]
            met = matches[column]
            met &= row
            rest = row - met
            row += met
            row |= rest
        found = np.empty(len(rows), np.int64)
        found[self._order] = len(words) - np.bitwise_count(rows & full).astype(np.int64)
        return found
