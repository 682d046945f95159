"""Texts as inputs of a matcher: word ids and vectors of a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seesay.matchers.sentences import Sentences


@dataclass(frozen=True, eq=False)
class PreparedSentences:
    """m sentences, the NumPy counterpart of `seesay.matchers.Sentences`."""

    words: NDArray[np.int64]  # all their word ids, one sentence after the other, (total,)
    lengths: NDArray[np.int64]  # words in each, (m,), at least 1
    vectors: NDArray[np.float32]  # of the sentence encoder, (m, d); (m, 0) without one

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    def take(self, rows: NDArray[np.int64]) -> PreparedSentences:
        """Return the sentences with those row numbers, in that order."""
        lengths = self.lengths[rows]
        # Word j of the result is at j, less its sentence's start there, plus the start in `self.words`.
        starts = (np.cumsum(self.lengths) - self.lengths)[rows] - (np.cumsum(lengths) - lengths)
        places = np.repeat(starts, lengths) + np.arange(lengths.sum())
        return PreparedSentences(self.words[places], lengths, self.vectors[rows])

    def split(self, size: int) -> list[PreparedSentences]:
        """Return the sentences in parts of at most `size`."""
        return [self.take(np.arange(i, min(i + size, len(self)))) for i in range(0, len(self), size)]

    def to_tensors(self, device: str = "cpu") -> Sentences:
        """Return the same sentences for a matcher in PyTorch."""
        import torch

        from seesay.matchers.sentences import Sentences

        parts = (torch.from_numpy(part) for part in (self.words, self.lengths, self.vectors))
        return Sentences(*parts).to(device)


def number_words(
    texts: Sequence[str], vocabulary: Vocabulary, vectors: NDArray[np.float32] | None = None
) -> PreparedSentences:
    """Look up the word ids of sentences; `vectors` are those of the sentence encoder, if any."""
    numbers = [vocabulary.encode(text) for text in texts]
    words = np.fromiter((n for sentence in numbers for n in sentence), np.int64)
    lengths = np.fromiter((len(sentence) for sentence in numbers), np.int64, len(numbers))
    return PreparedSentences(
        words, lengths, np.zeros((len(texts), 0), np.float32) if vectors is None else vectors
    )


def rows_of_each(owners: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Return, for each of `count` images or other owners, the rows that are its own, in order.

    >>> [rows.tolist() for rows in rows_of_each(np.array([2, 0, 2]), 3)]
    [[1], [], [0, 2]]
    """
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.searchsorted(owners[order], np.arange(count + 1)))[1:-1]


def count_cut(max_words: int | None, sentences: PreparedSentences) -> dict[str, int]:
    """Return the number of truncated sentences and the maximum length; empty without a limit."""
    if max_words is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > max_words).sum()), "max_length": max_words}
