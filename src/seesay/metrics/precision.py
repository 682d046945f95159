"""Average precision, and the area under the ROC curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import as_array, refuse_nan
from seesay.errors import SeesayError
from seesay.metrics.bootstrap import MeanSample, Values, Weights


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
    return _mean(precisions_of_targets(scores, targets), axis=0)


def precisions_of_targets(scores: ArrayLike, targets: ArrayLike) -> NDArray[np.float64]:
    """Return the precision at each target, (n, k), and NaN elsewhere; see `average_precision`."""
    values = as_array(scores, "scores", "n", "k")
    wanted = as_array(targets, "targets", *values.shape, kinds="b")
    refuse_nan(values, "scores")
    precisions = np.full(values.shape, np.nan)
    for k in np.flatnonzero(wanted.any(axis=0)):
        order = np.argsort(values[:, k], kind="stable")[::-1]  # scores may be unsigned
        ranked = values[order, k]
        last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(order) - 1)  # row of each score
        ends = last[np.searchsorted(last, np.arange(len(order)))]
        precisions[order, k] = wanted[order, k].cumsum()[ends] / (ends + 1)
    return np.where(wanted, precisions, np.nan)


class PrecisionSample(MeanSample):
    """Mean average precision in percent over columns, from the precisions of their targets, (n, k).

    Rows are drawn as targets, while each is still ranked among all rows; see `seesay.metrics.bootstrap`.
    """

    def __init__(self, precisions: ArrayLike) -> None:
        super().__init__(["mAP"], precisions, np.arange(len(np.asarray(precisions))))

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        return 100 * _mean(super().metrics(weights), axis=1)[:, None]

    def pooled(self, other: MeanSample) -> PrecisionSample:
        """See `Sample`."""
        return PrecisionSample(np.concatenate([self.values, other.values]))


def _mean(values: Values, axis: int) -> Values:
    """Return the mean of the known values; NaN for none."""
    known = ~np.isnan(values)
    sums, counts = np.where(known, values, 0.0).sum(axis), known.sum(axis)
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))


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
    if (wrong := labelled[~np.isin(labelled, (0, 1))]).size:
        raise SeesayError(f"labels: expected true or false, or 1 or 0, got {wrong[0]}.")
    positive = labelled.astype(bool)
    if positive.all() or not positive.any():
        return None
    others = np.sort(found[~positive])
    below = sum(np.searchsorted(others, found[positive], side).sum() for side in ("left", "right")) / 2
    return float(below / (positive.sum() * len(others)))
