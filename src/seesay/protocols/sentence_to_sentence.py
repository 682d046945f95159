"""Sentence-to-sentence retrieval: which sentences describe the same image as this one?

Table 4 of the two-branch paper (Wang, Li, Huang, Lazebnik 2019).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import rank_intervals
from seesay.metrics.ranks import NO_ANSWER, owners_of
from seesay.metrics.recall import retrieval

PROTOCOL = "sentence-to-sentence"

_CELLS = 1 << 22  # scores held at a time; 16 MiB of float32


def sentence_to_sentence(
    vectors: ArrayLike, image_of_sentence: ArrayLike, resamples: int = 0
) -> dict[str, Any]:
    """R@K and Med r of every sentence as a query for its image's other sentences, by inner product.

    A query is answered at the rank of the best of those. It is no candidate itself: the authors' own code
    leaves it in, first in its own ranking, and counts the top 2, 6 and 11. A foreign sentence that
    scores as high stands before, as in `ranks`. The only sentence of an image is a candidate, but no query.

    Args:
        vectors: (m, d), unit ones for cosine; reduced precisions are multiplied in float32.
        image_of_sentence: (m,), for each sentence the number of its image, from 0.
        resamples: of the bootstrap intervals; without them there are none.

    Returns:
        protocol, sentences (m), queries, R@1, R@5, R@10 in percent and Med r, and their `intervals`.

    Raises:
        SeesayError: shapes or mapping do not fit, a score is NaN, or no image has two sentences.

    >>> sentence_to_sentence([[1, 0], [0, 1], [0.8, 0.6], [0.6, 0.8]], [0, 0, 1, 1])["R@1"]
    50.0
    """
    ranks = sentence_to_sentence_ranks(vectors, image_of_sentence)
    queries = int((ranks != NO_ANSWER).sum())
    if not queries:
        raise SeesayError("sentence-to-sentence: no image has two sentences, so no query has an answer.")
    measures = {name: round(value, 3) for name, value in retrieval(ranks).as_dict().items()}
    told = {"intervals": rank_intervals(ranks, image_of_sentence, resamples)} if resamples else {}
    return {"protocol": PROTOCOL, "sentences": len(ranks), "queries": queries, **measures, **told}


def sentence_to_sentence_ranks(vectors: ArrayLike, image_of_sentence: ArrayLike) -> NDArray[np.int64]:
    """Per sentence the zero-based rank of the best other one of its image, (m,); NO_ANSWER without one."""
    rows = np.asarray(vectors)
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise SeesayError(f"sentence vectors: {rows.dtype} {rows.shape}; they must be real numbers (m, d).")
    owners = np.asarray(image_of_sentence)
    owners = owners_of(owners, int(owners.max(initial=0)) + 1, len(rows))
    rows = rows.astype(np.result_type(rows, np.float32), copy=False)
    ranks = np.empty(len(rows), np.int64)
    step = max(1, _CELLS // len(rows))
    for start in range(0, len(rows), step):
        queries = np.arange(start, min(start + step, len(rows)))
        with np.errstate(invalid="ignore", over="ignore"):  # a NaN is reported with its place
            scores = rows[queries] @ rows.T
        _refuse_nan(scores, start)
        ranks[queries] = _ranks(scores, queries, owners)
    return ranks


def _ranks(scores: NDArray[Any], queries: NDArray[np.int64], owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of a block of queries, from their scores with every sentence, (len(queries), m)."""
    own = owners[queries, None] == owners
    others = own.copy()
    others[np.arange(len(queries)), queries] = False
    best = np.max(scores, axis=1, where=others, initial=-np.inf)
    before = np.count_nonzero((scores >= best[:, None]) & ~own, axis=1)
    return np.where(others.any(axis=1), before, NO_ANSWER)


def _refuse_nan(scores: NDArray[Any], start: int) -> None:
    if np.isnan(scores).any():
        row, column = np.argwhere(np.isnan(scores))[0]
        raise SeesayError(
            f"sentence vectors: the score of sentences {start + row} and {column} is NaN; ranks of it would "
            "mean nothing. Check the matcher's weights."
        )
