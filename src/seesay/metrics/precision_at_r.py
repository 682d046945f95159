"""R-precision and mAP@R: retrieval with several right answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics._inputs import as_array, refuse_nan


def precision_at_r(scores: ArrayLike, answers: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Compute R-precision, mAP@R and R@1 of each query, where R is how many right answers it has.

    R-precision is the share of right answers among the first R; mAP@R the mean over these R ranks of the
    precision up to a rank where a right one stands there, else 0. Ties count against the query. Musgrave et
    al., "A Metric Learning Reality Check" (2020).

    Args:
        scores: (q, c) of each query's candidates, higher is better.
        answers: for each query the columns of its right answers, each once.

    Returns:
        (q, 3), from 0 to 1; NaN for a query without right answers.

    Raises:
        SeesayError: a shape is wrong or a score is NaN.

    >>> precision_at_r([[0.9, 0.8, 0.7]], [[0, 2]]).tolist()
    [[0.5, 0.5, 1.0]]
    """
    values = as_array(scores, "scores", "q", "c")
    if len(answers) != len(values):
        raise SeesayError(
            f"answers: {len(answers)} lists; there must be one for each of {len(values)} queries."
        )
    refuse_nan(values, "scores")
    measures = np.full((len(values), 3), np.nan)
    for row, right in enumerate(answers):
        if not len(columns := np.asarray(right, np.int64)):
            continue
        mine = np.sort(values[row, columns])[::-1]
        upto = np.arange(1, len(columns) + 1)
        # Where right answer number t stands: behind all that score as high but the right ones behind it.
        as_high = (values[row] >= mine[:, None]).sum(axis=1)
        right_as_high = (mine >= mine[:, None]).sum(axis=1)
        ranks = as_high - right_as_high + upto
        hits = ranks <= len(columns)
        measures[row] = hits.mean(), (hits * upto / ranks).mean(), ranks[0] == 1
    return measures
