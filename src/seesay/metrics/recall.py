"""Recall at K and the median rank of both directions of retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError, check_whole
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ranks import Ranks, ranks

TOP = (1, 5, 10)  # of mR


def metric_names(at: Iterable[int] = ()) -> tuple[str, ...]:
    """Name the metrics of one direction: R@1, R@5 and R@10 with those at further K, and Med r.

    >>> metric_names([50])
    ('R@1', 'R@5', 'R@10', 'R@50', 'Med r')
    """
    return (*(f"R@{k}" for k in sorted({*TOP, *at})), "Med r")


METRICS = metric_names()


def retrieval_metrics(scores: ArrayLike, image_of_sentence: ArrayLike) -> dict[str, float]:
    """Compute R@1, R@5, R@10, the median rank and mR of a score matrix in both directions.

    Any sentence of an image is a correct result. Ties count against the query, so a constant scorer gains
    nothing.

    Args:
        scores: (n_images, n_sentences), higher is better.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.

    Returns:
        The metrics by name: `S R@1` and so on of sentence retrieval, whose queries are images; `I R@1` of
        image retrieval; and mR, the mean of the six recalls. Recalls are in percent.

    Raises:
        SeesayError: a shape is wrong, a score is NaN, or no image has a sentence.

    Example:
        >>> from seesay.metrics import retrieval_metrics
        >>> metrics = retrieval_metrics([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], image_of_sentence=[0, 0, 1])
        >>> metrics["S R@1"], metrics["I Med r"], round(metrics["mR"], 1)
        (100.0, 2.0, 88.9)
    """
    return metrics_of(ranks(scores, image_of_sentence))


def metrics_of(found: Ranks) -> dict[str, float]:
    """Summarize the ranks of both directions, see `retrieval_metrics`."""
    metrics: dict[str, float] = {}
    for way, queries in (("S", found.sentence), ("I", found.image)):
        metrics |= {f"{way} R@{k}": recall_at_k(queries, k) for k in TOP}
        metrics[f"{way} Med r"] = median_rank(queries)
    return metrics | {"mR": fmean(metrics[f"{way} R@{k}"] for way in "SI" for k in TOP)}


def recall_at_k(ranks: ArrayLike, k: int) -> float:
    """Compute the percentage of queries with a correct result among the first k.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.
        k: the number of candidates that count.

    Raises:
        SeesayError: no query is left, a rank is NaN, or `k` is not a whole number of at least 1.

    >>> recall_at_k([0, 0, 4, 99], k=5)
    75.0
    """
    check_whole(1, k=k)
    return 100.0 * float(np.mean(_queries(ranks) < k))


def median_rank(ranks: ArrayLike) -> float:
    """Compute Med r as is usual in the field: floor(median of zero-based ranks) + 1.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.

    Raises:
        SeesayError: no query is left, or a rank is NaN.

    >>> median_rank([0, 0, 5, 99])
    3.0
    """
    return float(np.floor(np.median(_queries(ranks)))) + 1.0


def _queries(ranks: ArrayLike) -> NDArray[np.int64]:
    found = as_array(ranks, "ranks", "q")
    refuse_nan(found, "ranks")
    found = found[found >= 0]
    if not found.size:
        raise SeesayError("ranks: no query has a correct result: no image in this split has a sentence.")
    return found
