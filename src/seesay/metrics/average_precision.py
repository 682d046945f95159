"""Average precision of rankings with several right answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.metrics._inputs import as_array, average_ranks, refuse_nan
from seesay.metrics.bootstrap import Figures, Sample, Weights

Column = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


def average_precision(scores: ArrayLike, targets: ArrayLike) -> NDArray[np.float64]:
    """Compute the average precision of each column: the mean of the precision at each target found.

    Rows with equal scores are found together, so a constant scorer gets the share of the targets.

    Args:
        scores: (n, k), higher is better.
        targets: (n, k), true where the row is a right answer.

    Returns:
        (k,), from 0 to 1; NaN where a column has no target.

    Raises:
        SeesayError: a shape is wrong or a score is NaN.

    >>> average_precision([[0.9], [0.8], [0.1]], [[True], [False], [True]]).round(3).tolist()
    [0.833]
    """
    values = as_array(scores, "scores", "n", "k")
    wanted = as_array(targets, "targets", *values.shape, kinds="b")
    refuse_nan(values, "scores")
    once = np.ones((1, len(values)), np.int32)
    columns = (_column(score, which) for score, which in zip(values.T, wanted.T, strict=True))
    return np.array([_precision(column, once)[0] for column in columns])


class PrecisionSample(Sample):
    """Mean average precision in percent of the columns of scores and targets (n, k); rows are drawn."""

    keys = (("mAP",),)

    def __init__(self, scores: NDArray[np.floating], targets: NDArray[np.bool_]) -> None:
        self.scores, self.targets = scores, targets
        self.groups = np.arange(len(scores))
        kept = np.flatnonzero(targets.any(axis=0))
        self._columns: Sequence[Column] = [_column(scores[:, k], targets[:, k]) for k in kept]

    def figures(self, weights: Weights) -> Figures:
        """See `Sample`."""
        found = np.array([_precision(column, weights) for column in self._columns])
        known = ~np.isnan(found)
        sums, counts = np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0)
        mean = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        return np.asarray(100 * mean[:, None])

    def pooled(self, other: PrecisionSample) -> PrecisionSample:
        """See `Sample`; scores become ranks first, as those of two matchers are on different scales."""
        both = (np.apply_along_axis(average_ranks, 0, each.scores) for each in (self, other))
        ranks = np.concatenate(list(both))
        return PrecisionSample(ranks, np.concatenate([self.targets, other.targets]))


def _column(scores: NDArray[np.floating], targets: NDArray[np.bool_]) -> Column:
    """Return the rows by falling score, where each score's last one stands, and the targets in that order."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    return order, last, targets[order]


def _precision(column: Column, weights: Weights) -> NDArray[np.float64]:
    """Return the average precision where row i counts weights[:, i] times, (b,) from (b, n); NaN for none."""
    order, last, targets = column
    there = weights[:, order]
    seen, found = there.cumsum(axis=1)[:, last], (there * targets).cumsum(axis=1)[:, last]
    gained = np.diff(found, prepend=0, axis=1)
    total = found[:, -1]
    summed = (gained * found / np.maximum(seen, 1)).sum(axis=1)
    return np.asarray(np.divide(summed, total, out=np.full(len(total), np.nan), where=total > 0))
