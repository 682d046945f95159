"""What computes a run's vectors and scores: its matcher in PyTorch, or what was exported of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.runs.sentences import PreparedSentences

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

_PAIRS = 1 << 10  # pairs scored at a time: each carries a copy of both sides


class RunFacts(Protocol):
    """What a run says of its matcher and inputs; its recipe and its export have the same attributes."""

    @property
    def name(self) -> str: ...
    @property
    def encoders(self) -> tuple[str, ...]: ...
    @property
    def arrays(self) -> Sequence[str]: ...
    @property
    def sentence_encoder(self) -> str | None: ...
    @property
    def regions(self) -> object | None: ...


class Backend(Protocol):
    """Computes vectors if the matcher embeds, and scores in any case.

    Encoded images and sentences are what the scores of pairs are computed from: each is encoded once. They
    are the backend's own arrays or tensors, a row each.

    Attributes:
        embeds: True if the score of a pair is the inner product of two vectors.
        asymmetric: True if queries and gallery items are embedded differently.
        dim: length of a vector; None without any.
    """

    @property
    def embeds(self) -> bool: ...

    @property
    def asymmetric(self) -> bool: ...

    @property
    def dim(self) -> int | None: ...

    def embed_images(self, features: Vectors, query: bool = False) -> Vectors:
        """Embed images given as joined features (n, d), as (n, dim)."""
        ...

    def embed_sentences(self, sentences: PreparedSentences, query: bool = False) -> Vectors:
        """Embed m sentences, as (m, dim)."""
        ...

    def encode_images(self, features: Vectors) -> Any:
        """Encode n images, at least one, for `score_pairs`."""
        ...

    def encode_sentences(self, sentences: PreparedSentences) -> Any:
        """Encode m sentences, at least one, for `score_pairs`."""
        ...

    def score_pairs(self, images: Any, sentences: Any, rows: Rows, columns: Rows) -> NDArray[np.floating]:
        """Score the pairs (p,) of those rows of encoded images and of encoded sentences."""
        ...

    def score_all(self, features: Vectors, sentences: PreparedSentences, keep: bool = False) -> Vectors:
        """Score all pairs, (n, m); with `keep` those of a pair matcher are cached, and a stop resumes."""
        ...


def in_parts(rows: Rows, columns: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Split pairs (p,) into parts that are scored at a time."""
    count = max(1, -(-len(rows) // _PAIRS))
    return zip(np.array_split(rows, count), np.array_split(columns, count), strict=True)


def inner_products(
    images: NDArray[Any], sentences: NDArray[Any], rows: Rows, columns: Rows
) -> NDArray[np.float64]:
    """Compute the inner products (p,) of those rows of two sets of vectors, in double precision."""
    parts = [
        np.einsum("pd,pd->p", images[i].astype(np.float64), sentences[j].astype(np.float64))
        for i, j in in_parts(rows, columns)
    ]
    return np.concatenate(parts)
