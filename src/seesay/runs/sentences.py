"""Sentences for a matcher, from texts: word numbers of a vocabulary and vectors of a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.encoders.sentences.base import SentenceEncoder
from seesay.matchers.sentences import Sentences
from seesay.text.vocabulary import Vocabulary


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
