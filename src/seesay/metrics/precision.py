"""Average precision, the area under the ROC curve, and the calibration error of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Sample, Values, Weights
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ranks import average_ranks

_BINS = 10  # of probabilities, for the calibration error

Column = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


def average_precision(scores: ArrayLike, targets: ArrayLike) -> NDArray[np.float64]:
    """Compute the average precision of each column: the mean of the precision at each target found.

    Rows with equal scores are found together, so a constant scorer gets the share of targets.

    Args:
        scores: (n, k), higher is better.
        targets: (n, k), true where the row is a right answer.

    Returns:
        (k,), from 0 to 1; NaN for columns without a target.

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
    """Mean average precision in percent over the columns of scores and targets (n, k); rows are drawn."""

    names = ("mAP",)
    biased = True  # an image that is drawn twice is found next to its copy, which raises the precision

    def __init__(self, scores: NDArray[np.floating], targets: NDArray[np.bool_]) -> None:
        self.scores, self.targets = scores, targets
        self.groups = np.arange(len(scores))
        kept = np.flatnonzero(targets.any(axis=0))
        self._columns: Sequence[Column] = [_column(scores[:, k], targets[:, k]) for k in kept]

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        found = np.array([_precision(column, weights) for column in self._columns])
        known = ~np.isnan(found)
        sums, counts = np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0)
        mean = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
        return np.asarray(100 * mean[:, None])

    def is_paired(self, other: Sample) -> bool:
        """See `Sample`; here the targets must be the same."""
        return isinstance(other, PrecisionSample) and np.array_equal(self.targets, other.targets)

    def pooled(self, other: PrecisionSample) -> PrecisionSample:
        """See `Sample`; scores become ranks first, because two matchers have different scales."""
        columns = [[average_ranks(column) for column in each.scores.T] for each in (self, other)]
        ranks = np.concatenate([np.array(each).T for each in columns])
        return PrecisionSample(ranks, np.concatenate([self.targets, other.targets]))


def _column(scores: NDArray[np.floating], targets: NDArray[np.bool_]) -> Column:
    """Return the rows by descending score, the last position of each score, and the targets in that order."""
    order = np.argsort(scores, kind="stable")[::-1]  # scores may be unsigned
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(order) - 1)
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


def auc(values: ArrayLike, labels: ArrayLike) -> float | None:
    """Compute the area under the ROC curve.

    It is the probability that a positive has a larger value than a negative; ties count half.

    Args:
        values: (n,).
        labels: (n,), true or 1 for positives.

    Returns:
        From 0 to 1, 0.5 for a constant; None if all labels are the same.

    Raises:
        SeesayError: a shape is wrong, a value or label is NaN, or a label is neither true nor false.

    >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    found = as_array(values, "values", "n")
    labelled = as_array(labels, "labels", len(found), kinds="fiub")
    refuse_nan(found, "values")
    refuse_nan(labelled, "labels")
    _check_binary(labelled, "labels")
    positive = labelled.astype(bool)
    n, true = len(positive), int(positive.sum())
    if true in (0, n):
        return None
    before = average_ranks(found)[positive].sum() - true * (true + 1) / 2
    return float(before / (true * (n - true)))


def _check_binary(labels: NDArray[Any], name: str) -> None:
    if (wrong := labels[~np.isin(labels, (0, 1))]).size:
        raise SeesayError(f"{name}: expected true or false, or 1 or 0, got {wrong[0]}.")


def calibration_error(probabilities: ArrayLike, outcomes: ArrayLike) -> float:
    """Compute the expected calibration error of probabilities.

    It is the mean over ten bins of probabilities, weighted by size, of the distance between the mean
    probability and the share of true outcomes (Guo et al., ICML 2017).

    Args:
        probabilities: (n,), from 0 to 1.
        outcomes: (n,), true or 1 for true outcomes; NaN for unknown ones, which are left out.

    Returns:
        From 0 to 1; NaN if no outcome is known.

    Raises:
        SeesayError: a shape is wrong, a probability is NaN or not from 0 to 1, or an outcome is neither true
            nor false.

    >>> round(calibration_error([0.9, 0.8, 0.1], [True, False, False]), 3)
    0.333
    """
    found = as_array(probabilities, "probabilities", "n")
    came_true = as_array(outcomes, "outcomes", len(found), kinds="fiub")
    refuse_nan(found, "probabilities")
    _check_binary(came_true[~np.isnan(came_true)], "outcomes")
    if found.size and not 0 <= found.min() <= found.max() <= 1:
        wrong = found[(found < 0) | (found > 1)][0]
        raise SeesayError(f"probabilities: expected numbers from 0 to 1, got {wrong:g}.")
    known = ~np.isnan(came_true)
    bins = np.minimum((found[known] * _BINS).astype(int), _BINS - 1)
    excess = np.bincount(bins, (found - came_true)[known], _BINS)
    return float(np.abs(excess).sum() / known.sum()) if known.any() else float("nan")
