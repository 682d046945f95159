"""Kendall's tau with row weights, for the bootstrap; equal to SciPy's on repeated rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import Sample, Values, Weights
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ranks import average_ranks

Whole = NDArray[np.int64]


def kendall_tau(scores: ArrayLike, ratings: ArrayLike) -> tuple[float, float]:
    """Compute Kendall's τ-b and τ-c between scores and ratings.

    Args:
        scores: (n,).
        ratings: (n,); computation is fast if they take few values.

    Returns:
        τ-b and τ-c, from -1 to 1.

    Raises:
        SeesayError: a shape is wrong, a value is NaN, or all scores or all ratings are equal.

    >>> kendall_tau([0.1, 0.4, 0.3, 0.9], [1, 2, 3, 4])
    (0.6666666666666666, 0.6666666666666666)
    """
    values = as_array(scores, "scores", "n")
    rated = as_array(ratings, "ratings", len(values))
    for name, column in (("scores", values), ("ratings", rated)):
        refuse_nan(column, name)
        if len(column) == 0 or column.min() == column.max():
            what = f"all {len(column)} are {column[0]:g}" if len(column) else "there are none"
            raise SeesayError(f"{name}: {what}; Kendall's τ is undefined if all values are equal.")
    return TauSample(values, rated, np.arange(len(values))).taus(np.ones(len(values), np.int64))


class TauSample(Sample):
    """τ-b and τ-c times 100 of scores and ratings (n,).

    The rows of an image (n,) are drawn together. If images share sentences (n,), sentences are also drawn,
    and the weight of a row is the product of both counts, as in the pigeonhole bootstrap (Owen, 2007).
    """

    names = ("tau-b", "tau-c")

    def __init__(
        self, scores: ArrayLike, ratings: ArrayLike, images: ArrayLike, sentences: ArrayLike | None = None
    ) -> None:
        self.scores, self.ratings = np.asarray(scores), np.asarray(ratings)
        self.groups = np.unique(np.asarray(images), return_inverse=True)[1]
        order = np.argsort(self.scores, kind="stable")  # rows by rising score
        self._score, self._rating = (
            np.unique(values[order], return_inverse=True)[1] for values in (self.scores, self.ratings)
        )
        self._starts = np.searchsorted(self._score, self._score)  # how many rows have a lower score
        self._group = self.groups[order]
        self._sentence: Whole | None = None  # of each row, numbered after the images
        if sentences is not None:
            self._sentence = super().size + np.unique(np.asarray(sentences), return_inverse=True)[1][order]

    @property
    def size(self) -> int:
        """The number of images, plus that of sentences if these are also drawn."""
        return super().size if self._sentence is None else int(self._sentence.max()) + 1

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        return 100 * np.array([self.taus(self._times(np.asarray(each, np.int64))) for each in weights])

    def _times(self, weights: Whole) -> Whole:
        """Return how often each row counts, by rising score."""
        of_images: Whole = weights[self._group]
        return of_images if self._sentence is None else of_images * weights[self._sentence]

    def pooled(self, other: TauSample) -> TauSample:
        """See `Sample`; scores become ranks first, as those of two matchers are on different scales.

        Only images are numbered, because answers are exchanged by image.
        """
        ranks = np.concatenate([average_ranks(each.scores) for each in (self, other)])
        groups = np.concatenate([self.groups, other.groups + self.size])
        return TauSample(ranks, np.concatenate([self.ratings, other.ratings]), groups)

    def taus(self, times: Whole) -> tuple[float, float]:
        """Return τ-b and τ-c where row i, by rising score, counts times[i]; NaN if undefined."""
        of_score, of_rating = np.bincount(self._score, times), np.bincount(self._rating, times)
        total = times.sum()
        pairs, *tied = (_pairs(counts).sum() for counts in (total, of_score, of_rating))
        untied = np.sqrt((pairs - tied[0]) * (pairs - tied[1]))
        fewest = min((of_score > 0).sum(), (of_rating > 0).sum())
        if not untied:
            return np.nan, np.nan
        agreed = self._agreed(times)
        return float(agreed / untied), float(2 * agreed * fewest / (total**2 * (fewest - 1)))

    def _agreed(self, times: Whole) -> float:
        """Return the number of concordant pairs minus that of discordant pairs."""
        agreed = 0.0
        for rating in range(int(self._rating.max()) + 1):
            before = np.append(0, np.cumsum(times * (self._rating == rating)))[self._starts]
            agreed += float((times * before * np.sign(self._rating - rating)).sum())
        return agreed


def _pairs(counts: ArrayLike) -> NDArray[np.float64]:
    number = np.asarray(counts, np.float64)
    return number * (number - 1) / 2
