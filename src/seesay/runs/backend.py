"""What computes a run's vectors and scores: its matcher in PyTorch, or what was exported of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.runs.sentences import PreparedSentences

Vectors = NDArray[np.float32]
Rows = NDArray[np.int64]

_PAIRS = 1 << 10  # pairs scored at a time: each carries a copy of both sides


class Backend(Protocol):
    """Encodes both sides, and scores encoded pairs.

    What an embedding matcher encodes is its embeddings, as arrays. What a pair matcher encodes, each image
    and sentence once, is for `score_pairs` alone: the backend's own arrays or tensors, a row each.
    """

    def encode_images(self, features: Vectors, query: bool = False) -> Any:
        """Encode n images, at least one, given as joined features (n, d).

        Args:
            features: (n, d).
            query: as queries, if the matcher embeds queries and gallery items differently.
        """
        ...

    def encode_sentences(self, sentences: PreparedSentences, query: bool = False) -> Any:
        """Encode m sentences, at least one; `query` as above."""
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
