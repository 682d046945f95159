"""The area under the ROC curve: how well a number tells two kinds of things apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata


def area_under_curve(values: ArrayLike, labels: ArrayLike) -> float | None:
    """The chance that a true thing has a greater value than a false one; equal values count half.

    Args:
        values: (n,), finite.
        labels: (n,), true or false.

    Returns:
        From 0 to 1, 0.5 where values tell nothing; None where all labels are the same.

    >>> area_under_curve([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    of_true = np.asarray(labels, bool)
    n, true = len(of_true), int(of_true.sum())
    if true in (0, n):
        return None
    before = rankdata(np.asarray(values))[of_true].sum() - true * (true + 1) / 2
    return float(before / (true * (n - true)))
