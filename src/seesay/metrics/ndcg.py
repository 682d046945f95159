"""Normalized discounted cumulative gain."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError, check_whole
from seesay.metrics.inputs import as_array, refuse_nan

TOP = 25  # answers that count


def ndcg(scores: ArrayLike, relevance: ArrayLike, top: int = TOP) -> NDArray[np.float64]:
    """Compute nDCG@`top` of each query.

    The result at rank r, counted from 1, gains (2^relevance - 1) / log2(r + 1), and the sum is divided by
    that of the best order. Among equal scores the least relevant comes first, so that a constant scorer gains
    nothing.

    Args:
        scores: (q, c) of each query's candidates, higher is better.
        relevance: (q, c), at least 0.
        top: the number of results that count.

    Returns:
        (q,), from 0 to 1; NaN for a query without relevant candidates.

    Raises:
        SeesayError: a shape is wrong, a number is NaN, a relevance is negative, `top` is below 1, or there is
            no candidate.

    >>> ndcg([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]], [[1, 0, 0], [0, 0, 1]]).tolist()
    [1.0, 0.5]
    """
    values = as_array(scores, "scores", "q", "c")
    check_whole(1, top=top)
    relevant = _relevance(relevance, *values.shape)
    if not values.shape[1]:
        raise SeesayError(f"scores: shape {values.shape}; it must be (q, c) with at least one candidate.")
    refuse_nan(values, "scores")
    top = min(top, values.shape[1])
    discounts = 1 / np.log2(np.arange(top) + 2)
    least = np.partition(values, -top, axis=1)[:, -top]
    gained = np.empty(len(values))
    for row, (mine, gains) in enumerate(zip(values, relevant, strict=True)):
        among = np.flatnonzero(mine >= least[row])
        # Ascending and then reversed, because scores may be unsigned.
        first = among[np.lexsort((-_gains(gains[among]), mine[among]))[::-1][:top]]
        gained[row] = _gains(gains[first]) @ discounts
    return _share(gained, relevant, discounts)


def ndcg_by_chance(relevance: ArrayLike, top: int = TOP) -> NDArray[np.float64]:
    """Compute the mean of `ndcg` over all orders of the candidates, (q,): each rank gains the mean gain."""
    relevant = _relevance(relevance, "q", "c")
    discounts = 1 / np.log2(np.arange(min(top, relevant.shape[1])) + 2)
    means = np.array([_gains(row).mean() for row in relevant])
    return _share(means * discounts.sum(), relevant, discounts)


def _relevance(relevance: ArrayLike, *dims: str | int) -> NDArray[Any]:
    relevant = as_array(relevance, "relevance", *dims)
    refuse_nan(relevant, "relevance")
    if relevant.size and relevant.min() < 0:
        raise SeesayError(f"relevance: expected numbers of at least 0, got {relevant.min():g}.")
    return relevant


def _gains(relevance: NDArray[Any]) -> NDArray[np.float64]:
    """Return 2^relevance - 1 in double precision; half precision overflows from 2^16 on."""
    gains: NDArray[np.float64] = np.exp2(relevance, dtype=np.float64) - 1
    return gains


def _share(
    gained: NDArray[np.float64], relevance: NDArray[Any], discounts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Divide by what the best order gains; NaN where that is nothing."""
    top = len(discounts)
    best = np.sort(np.partition(relevance, -top, axis=1)[:, -top:], axis=1)[:, ::-1]
    ideal = _gains(best) @ discounts
    found: NDArray[np.float64] = np.divide(gained, ideal, out=np.full(len(gained), np.nan), where=ideal > 0)
    return found
