"""Kendall's τ of rows that count several times, for the bootstrap: SciPy's, without the rows repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tau:
    """Rows by rising score.

    Attributes:
        order: that brings rows there, (n,).
        score: for each row the number of its score, rising from 0, (n,).
        rating: for each row the number of its rating, rising from 0, (n,).
        starts: for each row how many rows have a lower score, (n,).
    """

    order: Whole
    score: Whole
    rating: Whole
    starts: Whole

    @classmethod
    def of(cls, scores: ArrayLike, ratings: ArrayLike) -> Tau:
        """Of scores (n,) and ratings (n,); best where ratings take few values."""
        order = np.argsort(np.asarray(scores), kind="stable")
        score, rating = (
            np.unique(np.asarray(values)[order], return_inverse=True)[1] for values in (scores, ratings)
        )
        return cls(order, score, rating, np.searchsorted(score, score))

    def weighted(self, weights: ArrayLike) -> tuple[float, float]:
        """τ-b and τ-c where row i stands there weights[i] times, (n,) whole numbers.

        NaN where all scores or all ratings that count are equal.
        """
        times = np.asarray(weights, np.int64)[self.order]
        of_score, of_rating = np.bincount(self.score, times), np.bincount(self.rating, times)
        total = times.sum()
        pairs, *tied = (_pairs(counts).sum() for counts in (total, of_score, of_rating))
        untied = np.sqrt((pairs - tied[0]) * (pairs - tied[1]))
        least = min((of_score > 0).sum(), (of_rating > 0).sum())
        if not untied:
            return np.nan, np.nan
        agreed = self._agreed(times)
        return float(agreed / untied), float(2 * agreed * least / (total**2 * (least - 1)))

    def _agreed(self, times: Whole) -> float:
        """Concordant pairs less the discordant ones."""
        agreed = 0.0
        for rating in range(int(self.rating.max()) + 1):
            before = np.append(0, np.cumsum(times * (self.rating == rating)))[self.starts]
            agreed += float((times * before * np.sign(self.rating - rating)).sum())
        return agreed


def _pairs(counts: ArrayLike) -> NDArray[np.float64]:
    number = np.asarray(counts, np.float64)
    return number * (number - 1) / 2
