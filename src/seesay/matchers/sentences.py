"""Sentences as the matchers take them: word numbers without padding, and sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from seesay.encoders.sentences.base import SentenceEncoder
from seesay.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sentences:
    """m sentences.

    Attributes:
        words: all their word numbers, one sentence behind the other, (total,) int64.
        lengths: words in each, (m,) int64, at least 1.
        vectors: what the frozen sentence encoder makes of each, (m, d) float32; (m, 0) without one.
    """

    words: Tensor
    lengths: Tensor
    vectors: Tensor

    def __len__(self) -> int:
        """How many sentences."""
        return len(self.lengths)

    def to(self, device: str) -> Sentences:
        """The same on another device."""
        return Sentences(self.words.to(device), self.lengths.to(device), self.vectors.to(device))

    def packed(self, vectors: Tensor) -> PackedSequence:
        """Vectors of the words, (total, d), as a recurrent layer reads them, no sentence padded.

        One gather, whose gradient is one scatter: `pack_sequence` of the split vectors gives the same, but
        its gradient goes through a view a sentence, each as large as all words (25 s for 1,000 sentences).
        """
        order = torch.argsort(self.lengths, descending=True, stable=True)
        starts = (self.lengths.cumsum(0) - self.lengths)[order]
        places = torch.arange(int(self.lengths.max()), device=vectors.device)
        there = self.lengths[order][None, :] > places[:, None]
        words = (starts[None, :] + places[:, None])[there]
        return PackedSequence(vectors[words], there.sum(dim=1).cpu(), order, torch.argsort(order))

    def take(self, chosen: Tensor) -> Sentences:
        """The chosen sentences, in that order; `chosen` is (k,) int64."""
        lengths = self.lengths[chosen]
        starts = (self.lengths.cumsum(0) - self.lengths)[chosen]
        # Word j of the result is word j - (its sentence's first place) of that sentence.
        shift = torch.repeat_interleave(starts - (lengths.cumsum(0) - lengths), lengths)
        places = torch.arange(int(lengths.sum()), device=lengths.device) + shift
        return Sentences(self.words[places], lengths, self.vectors[chosen])


def number_words(
    texts: Sequence[str], vocabulary: Vocabulary, vectors: NDArray[np.float32] | None = None
) -> Sentences:
    """Number the words of sentences whose vectors, if any, are at hand."""
    numbers = [vocabulary.encode(text) for text in texts]
    words = np.fromiter((n for sentence in numbers for n in sentence), np.int64)
    lengths = np.fromiter((len(sentence) for sentence in numbers), np.int64, len(numbers))
    rows = np.zeros((len(texts), 0), np.float32) if vectors is None else vectors
    return Sentences(torch.from_numpy(words), torch.from_numpy(lengths), torch.from_numpy(rows))


def prepare_sentences(
    texts: Sequence[str], vocabulary: Vocabulary, encoder: SentenceEncoder | None
) -> Sentences:
    """Number the words, and run the frozen sentence encoder where there is one."""
    return number_words(texts, vocabulary, encoder.encode(texts) if encoder else None)
