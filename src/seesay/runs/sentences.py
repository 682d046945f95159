"""Texts as a matcher takes them: word ids of a vocabulary and vectors of a sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.encoders.sentences.base import SentenceEncoder
from seesay.matchers.sentences import Sentences
from seesay.matchers.settings import MatcherSettings
from seesay.text.vocabulary import Vocabulary


def number_words(
    texts: Sequence[str], vocabulary: Vocabulary, vectors: NDArray[np.float32] | None = None
) -> Sentences:
    """Look up the word ids of sentences; `vectors` are those of the sentence encoder, if any."""
    numbers = [vocabulary.encode(text) for text in texts]
    words = np.fromiter((n for sentence in numbers for n in sentence), np.int64)
    lengths = np.fromiter((len(sentence) for sentence in numbers), np.int64, len(numbers))
    rows = np.zeros((len(texts), 0), np.float32) if vectors is None else vectors
    return Sentences(torch.from_numpy(words), torch.from_numpy(lengths), torch.from_numpy(rows))


def prepare_sentences(
    texts: Sequence[str], vocabulary: Vocabulary, encoder: SentenceEncoder | None
) -> Sentences:
    """Look up the word ids, and run the frozen sentence encoder if there is one."""
    return number_words(texts, vocabulary, encoder.encode(texts) if encoder else None)


def count_cut(settings: MatcherSettings, sentences: Sentences) -> dict[str, int]:
    """Return how many sentences are longer than the matcher reads, and that length; empty without a limit."""
    max_length = settings.max_words
    if max_length is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > max_length).sum()), "max_length": max_length}
