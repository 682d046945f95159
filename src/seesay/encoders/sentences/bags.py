"""Sentences as bags of known words, and features of them that do not see the order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.encoders.sentences.fisher import Vectors, fisher_vectors, normalise, sentence_means
from seesay.encoders.sentences.ica import Ica, fit_ica
from seesay.encoders.sentences.mixture import Kind, Mixture, fit_mixture
from seesay.encoders.sentences.word_vectors import word_vectors
from seesay.errors import SeesayError
from seesay.text.tokenizer import tokenize

Tensors = dict[str, NDArray[Any]]
T = TypeVar("T", Ica, Mixture)


@dataclass(frozen=True)
class Bags:
    """m sentences by their known words.

    Attributes:
        vectors: the distinct words' vectors, (v, d).
        numbers: rows of `vectors`, one sentence behind the other, (total,).
        lengths: known words in each sentence, (m,).
    """

    vectors: Vectors
    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]


def bags_of_words(texts: Sequence[str]) -> Bags:
    """Tokenise, and keep the words that have a vector."""
    number: dict[str, int] = {}
    sentences = [[number.setdefault(word, len(number)) for word in tokenize(text)] for text in texts]
    vectors, known = word_vectors(list(number))
    flat = np.fromiter((n for sentence in sentences for n in sentence), np.int64)
    owner = np.repeat(np.arange(len(texts)), [len(sentence) for sentence in sentences])
    kept = known[flat]
    row = np.cumsum(known) - 1
    lengths = np.bincount(owner[kept], minlength=len(texts))
    return Bags(vectors[known], row[flat[kept]], lengths)


class MeanVectors:
    """The mean of a sentence's word vectors."""

    @classmethod
    def fit(cls, texts: Sequence[str]) -> MeanVectors:
        """Nothing is fitted."""
        del texts
        return cls()

    @classmethod
    def of(cls, tensors: Tensors) -> MeanVectors:
        """What `tensors` gave."""
        del tensors
        return cls()

    def tensors(self) -> Tensors:
        """Nothing."""
        return {}

    def rows(self, texts: Sequence[str]) -> Vectors:
        """(m, 50)."""
        bags = bags_of_words(texts)
        return sentence_means(bags.vectors, bags.numbers, bags.lengths)


@dataclass(frozen=True)
class FisherVectors:
    """Fisher vectors of a sentence's words after ICA, one behind the other for several mixtures."""

    ica: Ica
    mixtures: tuple[Mixture, ...]

    @classmethod
    def fit(cls, texts: Sequence[str], kinds: Sequence[Kind]) -> FisherVectors:
        """Fit ICA and mixtures to the distinct words of sentences.

        Raises:
            SeesayError: too few words have a vector.
        """
        vectors = bags_of_words(texts).vectors
        if len(vectors) < 2:
            raise SeesayError(
                f"Fisher vectors need words with a GloVe vector; the {len(texts)} training sentences have "
                f"{len(vectors)}. Are they in English? If not: --set sentence_encoder=tfidf."
            )
        ica = fit_ica(vectors)
        sources = ica.sources(vectors)
        return cls(ica, tuple(fit_mixture(sources, kind) for kind in kinds))

    @classmethod
    def of(cls, tensors: Tensors) -> FisherVectors:
        """What `tensors` gave."""
        count = sum(name.endswith(".weights") for name in tensors)
        mixtures = (_unpack(Mixture, f"mixture{i}", tensors) for i in range(count))
        return cls(_unpack(Ica, "ica", tensors), tuple(mixtures))

    def tensors(self) -> Tensors:
        """All that was fitted."""
        packed = _pack("ica", self.ica)
        for i, mixture in enumerate(self.mixtures):
            packed |= _pack(f"mixture{i}", mixture)
        return packed

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Power- and L2-normalised Fisher vectors, (m, sum of k · 2 · d)."""
        bags = bags_of_words(texts)
        sources = self.ica.sources(bags.vectors)
        parts = [normalise(fisher_vectors(sources, bags.numbers, bags.lengths, m)) for m in self.mixtures]
        return parts[0] if len(parts) == 1 else np.hstack(parts)


def _pack(prefix: str, part: Ica | Mixture) -> Tensors:
    return {f"{prefix}.{field.name}": getattr(part, field.name) for field in fields(part)}


def _unpack(kind: type[T], prefix: str, tensors: Tensors) -> T:
    return kind(**{field.name: tensors[f"{prefix}.{field.name}"] for field in fields(kind)})
