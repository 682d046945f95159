"""Area under the ROC curve."""

from __future__ import annotations

from numpy.typing import ArrayLike

from seesay.metrics._inputs import as_array, average_ranks


def auc(values: ArrayLike, labels: ArrayLike) -> float | None:
    """Compute the area under the ROC curve.

    It is the probability that a positive has a greater value than a negative; equal values count half.

    Args:
        values: (n,), finite.
        labels: (n,), true or 1 for positives.

    Returns:
        From 0 to 1, 0.5 for a constant; None if all labels are the same.

    Raises:
        SeesayError: a shape is wrong.

    >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    found = as_array(values, "values", "n")
    positive = as_array(labels, "labels", len(found), kinds="fiub").astype(bool)
    n, true = len(positive), int(positive.sum())
    if true in (0, n):
        return None
    before = average_ranks(found)[positive].sum() - true * (true + 1) / 2
    return float(before / (true * (n - true)))
