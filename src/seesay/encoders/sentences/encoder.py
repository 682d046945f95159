"""Sentence encoders by name: sentences to vectors, by something that is frozen while a matcher trains."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from seesay.encoders.sentences import minilm, word_vectors
from seesay.encoders.sentences.bags import FisherVectors, MeanVectors, Tensors
from seesay.encoders.sentences.pca import Pca, fit_pca
from seesay.encoders.sentences.quick_thought import QuickThought
from seesay.encoders.sentences.tfidf import Tfidf
from seesay.errors import SeesayError
from seesay.paths import replacing

Vectors = NDArray[np.float32]

_BATCH = 1024  # sentences whose features before PCA are held at a time


class SentenceEncoder(Protocol):
    """Sentences to vectors."""

    @property
    def dim(self) -> int:
        """Of the vectors."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes with whatever was fitted."""
        ...

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors of sentences, (m, dim)."""
        ...


class MiniLM:
    """The packaged network; nothing is fitted."""

    dim = minilm.DIM
    fingerprint = minilm.FINGERPRINT

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, (m, 384)."""
        return minilm.minilm_vectors(texts)


class Features(Protocol):
    """Rows of numbers for sentences, before PCA."""

    def rows(self, texts: Sequence[str]) -> Vectors:
        """(m, D)."""
        ...

    def tensors(self) -> Tensors:
        """All that was fitted."""
        ...


_FIT: dict[str, Callable[[Sequence[str]], Features]] = {
    "hglmm": partial(FisherVectors.fit, kinds=["hglmm"]),
    "gmm": partial(FisherVectors.fit, kinds=["gmm"]),
    "lmm": partial(FisherVectors.fit, kinds=["lmm"]),
    "gmm+hglmm": partial(FisherVectors.fit, kinds=["gmm", "hglmm"]),
    "mean": MeanVectors.fit,
    "tfidf": Tfidf.fit,
}
QUICK_THOUGHT = "quick-thought"
SENTENCE_ENCODERS = ("minilm", *_FIT, QUICK_THOUGHT)


@dataclass(frozen=True)
class FittedEncoder:
    """Features fitted to a train split, and their principal components."""

    name: str
    features: Features
    pca: Pca

    @property
    def dim(self) -> int:
        """Principal components kept."""
        return len(self.pca.components.T)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that was fitted, and of which word vectors."""
        digest = hashlib.blake2b(f"{self.name} {word_vectors.FINGERPRINT} v1".encode(), digest_size=16)
        for name, array in sorted(self.tensors().items()):
            digest.update(f"{name} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def tensors(self) -> Tensors:
        """All that was fitted."""
        return self.features.tensors() | {"pca.mean": self.pca.mean, "pca.components": self.pca.components}

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Vectors, (m, dim); zeros, which is the mean sentence, where no word is known."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for start, rows in zip(range(0, len(texts), _BATCH), _batches(self.features, texts), strict=True):
            some = np.flatnonzero(rows.any(axis=1))
            vectors[start + some] = self.pca.project(rows[some])
        return vectors


def fit_sentence_encoder(
    name: str, texts: Sequence[str], dim: int, images: NDArray[np.int64] | None = None
) -> SentenceEncoder:
    """Fit the encoder of that name to training sentences.

    Args:
        name: one of SENTENCE_ENCODERS.
        texts: the train split's sentences.
        dim: principal components to keep; fewer where the sentences have not so many.
        images: for each sentence which image it is of, (m,); without it each is of one of its own.

    Raises:
        SeesayError: no such encoder, or no sentence with a known word.
    """
    _check(name)
    if name == "minilm":
        return MiniLM()
    if name == QUICK_THOUGHT:
        features: Features = QuickThought.fit(texts, np.arange(len(texts)) if images is None else images)
    else:
        features = _FIT[name](texts)
    known = (rows[rows.any(axis=1)] for rows in _batches(features, texts))
    batches = (rows for rows in known if len(rows))
    try:
        return FittedEncoder(name, features, fit_pca(batches, dim))
    except ValueError as none:
        raise SeesayError(
            f"No training sentence has a word that sentence encoder '{name}' knows; is the text English?"
        ) from none


def save_sentence_encoder(encoder: SentenceEncoder, path: Path) -> None:
    """Write all that was fitted as safetensors; nothing for an encoder that is packaged."""
    if not isinstance(encoder, FittedEncoder):
        return
    tensors = {key: np.ascontiguousarray(array) for key, array in encoder.tensors().items()}
    with replacing(path) as beside:
        save_file(tensors, beside, {"encoder": encoder.name})


def load_sentence_encoder(name: str, path: Path) -> SentenceEncoder:
    """Read what `save_sentence_encoder` wrote for the encoder of that name.

    Raises:
        SeesayError: no such encoder, or the file is missing or another's.
    """
    _check(name)
    if name == "minilm":
        return MiniLM()
    try:
        with safe_open(path, framework="numpy") as file:
            found = (file.metadata() or {}).get("encoder")
            tensors: Tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as failure:
        raise SeesayError(f"{path}: no sentence encoder ({failure}); train again.") from failure
    if found != name:
        raise SeesayError(f"{path}: holds sentence encoder '{found}', not '{name}'; train again.")
    try:
        return FittedEncoder(
            name, _features(name, tensors), Pca(tensors["pca.mean"], tensors["pca.components"])
        )
    except KeyError as missing:
        raise SeesayError(f"{path}: {missing} is missing; train again.") from missing


def _features(name: str, tensors: Tensors) -> Features:
    if name == "mean":
        return MeanVectors.of(tensors)
    if name == QUICK_THOUGHT:
        return QuickThought.of(tensors)
    return Tfidf.of(tensors) if name == "tfidf" else FisherVectors.of(tensors)


def _batches(features: Features, texts: Sequence[str]) -> Iterator[Vectors]:
    for start in range(0, len(texts), _BATCH):
        yield features.rows(texts[start : start + _BATCH])


def _check(name: str) -> None:
    if name not in SENTENCE_ENCODERS:
        raise SeesayError(f"No sentence encoder '{name}'. There are {', '.join(SENTENCE_ENCODERS)}.")
