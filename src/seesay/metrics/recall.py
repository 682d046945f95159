"""Recall at K and median rank: what ranks say about a direction of retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from seesay.errors import SeesayError

MEASURES = ("R@1", "R@5", "R@10", "Med r")


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One direction of retrieval: the percentages of queries answered in the top 1, 5 and 10, and Med r."""

    r1: float
    r5: float
    r10: float
    median_rank: float

    def as_dict(self) -> dict[str, float]:
        """The measures under the names that the field prints."""
        return dict(zip(MEASURES, (self.r1, self.r5, self.r10, self.median_rank), strict=True))


def retrieval(ranks: ArrayLike) -> Retrieval:
    """R@1, R@5, R@10 in percent, and Med r = floor(median of zero-based ranks) + 1.

    Args:
        ranks: (n_queries,), zero-based; negative ones (NO_ANSWER) are no queries and left out.

    Raises:
        SeesayError: no query is left.

    >>> retrieval([0, 0, 4, 99]).as_dict()
    {'R@1': 50.0, 'R@5': 75.0, 'R@10': 75.0, 'Med r': 3.0}
    """
    found = np.asarray(ranks)
    found = found[found >= 0]
    if not found.size:
        raise SeesayError("no query has an answer: no image of this split has a sentence.")
    r1, r5, r10 = (100.0 * float(np.mean(found < k)) for k in (1, 5, 10))
    return Retrieval(r1, r5, r10, float(np.floor(np.median(found))) + 1.0)


def mean_of(folds: Sequence[Retrieval]) -> Retrieval:
    """Each measure's mean over folds, the median rank's too."""
    return Retrieval(
        fmean(fold.r1 for fold in folds),
        fmean(fold.r5 for fold in folds),
        fmean(fold.r10 for fold in folds),
        fmean(fold.median_rank for fold in folds),
    )


def mean_recall(sentence: Retrieval, image: Retrieval) -> float:
    """The field's mR: the mean of the three recalls of both directions, in percent."""
    return fmean((sentence.r1, sentence.r5, sentence.r10, image.r1, image.r5, image.r10))
