"""Inverted lists of fewer bytes: the smallest ones that still find what comparing all vectors finds.

A quantiser keeps a code of each vector. The best by their codes are compared once more by the vectors that
the store has, so that scores stay exact; what a code can lose is that an item is not among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError

VECTORS = "SQfp16"  # what the store keeps: half precision, nothing is lost
REFINED = 10  # times as many items as asked for are compared once more by their vectors
_AT = 10  # recall@10
_SAMPLE = 200  # of the items' own vectors, asked for beside the queries that are given
_DIVISORS = (64, 32, 16, 8, 4, 2, 1)  # one list in so many is searched
_TRAINING_VECTORS_A_LIST = 64
_ROWS = 65_536  # vectors that become single precision at a time


@dataclass(frozen=True)
class Lists:
    """Inverted lists that are filled.

    Attributes:
        index: of FAISS.
        quantiser: in FAISS's terms, such as "PQ64" or "SQfp16".
        recall: measured recall@10; None if nothing was chosen by it.
    """

    index: Any
    quantiser: str
    recall: float | None = None

    @property
    def coded(self) -> bool:
        """Whether they have codes in place of vectors."""
        return self.quantiser != VECTORS


def check_recall(recall: float) -> float:
    """Return a recall that can be asked for, or raise SeesayError."""
    if not 0.5 <= recall <= 1:
        raise SeesayError(f"recall {recall:g}: wanted a share of the ten best items, from 0.5 to 1.")
    return recall


def _quantisers(dim: int) -> list[str]:
    """Return quantisers in FAISS's terms, those of the fewest bytes a vector first."""
    products = [f"PQ{dim // part}" for part in (8, 4) if dim % part == 0]  # a byte for so many numbers
    return [*products, "SQ4", "SQ8", VECTORS]


def make_lists(
    vectors: NDArray[np.float16], ids: NDArray[np.int64], quantiser: str = VECTORS, divisor: int = 8
) -> Lists:
    """Train and fill lists with vectors (n, dim) and their ids (n,); one list in `divisor` is searched."""
    import faiss

    count, dim = vectors.shape
    lists = round(2 * math.sqrt(count))
    index: Any = faiss.index_factory(dim, f"IVF{lists},{quantiser}", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = max(lists // divisor, 1)
    if quantiser == VECTORS:
        index.by_residual = False  # the stored vectors themselves, so that scores are exact
    index.cp.niter = 10
    sample = np.random.default_rng(0).permutation(count)[: lists * _TRAINING_VECTORS_A_LIST]
    index.train(vectors[np.sort(sample)].astype(np.float32))
    for start in range(0, count, _ROWS):  # no whole copy in single precision
        part = slice(start, start + _ROWS)
        index.add_with_ids(vectors[part].astype(np.float32), ids[part])
    return Lists(index, quantiser)


def lists_of_recall(
    vectors: NDArray[np.float16], ids: NDArray[np.int64], queries: NDArray[np.float32], recall: float
) -> Lists:
    """Make the smallest lists, searched in the smallest part, whose recall@10 is at least `recall`.

    Args:
        vectors: (n, dim).
        ids: (n,), ascending.
        queries: (q, dim), for which recall is measured, and for vectors that are drawn from the items'.
        recall: from 0.5 to 1; lists of the vectors themselves reach any.
    """
    own = np.random.default_rng(0).permutation(len(vectors))[:_SAMPLE]
    asked = [vectors[own].astype(np.float32), *([queries] if len(queries) else [])]
    truths = [_exact(vectors, some) for some in asked]
    for quantiser in _quantisers(vectors.shape[1]):
        made = make_lists(vectors, ids, quantiser)
        for divisor in _DIVISORS:
            made.index.nprobe = max(made.index.nlist // divisor, 1)
            # Sentences are harder than images: each kind of queries has to reach the target.
            found = min(
                _recall(made, vectors, ids, some, truth) for some, truth in zip(asked, truths, strict=True)
            )
            if found >= recall:
                return Lists(made.index, quantiser, found)
    raise AssertionError("lists of the vectors themselves, all searched, find everything")


def refined(
    ids: NDArray[np.int64], vectors: NDArray[np.floating], query: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return ids and scores of the `k` best of some items by their vectors (c, dim); ties by the lower id."""
    scores = np.vecdot(vectors.astype(np.float32), query)
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]


def _exact(vectors: NDArray[np.float16], queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """The score of the tenth best item for each query, (q,): whoever reaches it is among the ten best."""
    best = np.full((len(queries), _AT), -np.inf, np.float32)
    for start in range(0, len(vectors), _ROWS):
        scores = queries @ vectors[start : start + _ROWS].astype(np.float32).T
        both = np.concatenate([best, scores], axis=1)
        best = -np.partition(-both, _AT - 1, axis=1)[:, :_AT]
    return np.asarray(best.min(axis=1), np.float32)


def _recall(
    made: Lists,
    vectors: NDArray[np.float16],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    tenth: NDArray[np.float32],
) -> float:
    """The share of the ten best that a search of the lists finds, its codes refined."""
    wanted = min(_AT, len(vectors))
    _, candidates = made.index.search(queries, wanted * (REFINED if made.coded else 1))
    hits = 0
    for query, found, least in zip(queries, candidates, tenth, strict=True):
        rows = np.searchsorted(ids, found[found >= 0])
        _, scores = refined(found[found >= 0], vectors[rows], query, wanted)
        hits += int((scores >= least - 1e-6 * abs(least)).sum())
    return hits / (wanted * len(queries))
