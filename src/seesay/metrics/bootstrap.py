"""Bootstrap intervals over the queries of a split.

Images are resampled, each with all of its queries. The sentences of an image are not independent queries:
they describe one scene and have one right answer. Resampling them one by one gives intervals that are too
narrow. Both directions share each draw, so the interval of mR accounts for their correlation. The gallery is
not resampled: an interval covers other queries to the same gallery, not other galleries or trainings.

Efron and Tibshirani 1993, chapter 13 (percentile intervals); Davison and Hinkley 1997, section 3.8
(hierarchical data).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import Ints, as_array
from seesay.errors import SeesayError, check_whole
from seesay.metrics.ranks import Ranks
from seesay.metrics.recall import METRICS, TOP

RESAMPLES = 1_000
LEVEL = 95  # percent
DIRECTIONS = ("S", "I")  # sentence retrieval, whose queries are images, and image retrieval

_TAILS = [(100 - LEVEL) / 2, (100 + LEVEL) / 2]
_DRAWS_AT_ONCE, _NUMBERS_AT_ONCE = 500, 5_000_000  # computed at a time

Values = NDArray[np.float64]  # (draws, k)
Weights = NDArray[np.integer[Any]]  # (draws, groups)

_S = TypeVar("_S", bound="Sample")


class Interval(NamedTuple):
    """The ends of a percentile interval.

    Example:
        >>> from seesay.metrics import bootstrap
        >>> bootstrap([1, 0, 1, 1]).high
        1.0
    """

    low: float
    high: float

    def rounded(self) -> Interval:
        """Return both ends with three decimals, as results show them."""
        return Interval(round(self.low, 3), round(self.high, 3))


class Sample(ABC):
    """Per-query values from which metrics are computed.

    Attributes:
        names: of the k metrics.
        groups: the image of each query, (q,), from 0; queries of one image are drawn together.
    """

    names: Sequence[str]
    groups: Ints

    @property
    def size(self) -> int:
        """The number of images to draw from."""
        return int(self.groups.max(initial=-1)) + 1

    @abstractmethod
    def metrics(self, weights: Weights) -> Values:
        """Return the metrics (b, k) if image i counts weights[:, i] times; NaN if no query counts."""

    @abstractmethod
    def pooled(self: _S, other: _S) -> _S:
        """Return the union of two samples, with the other's images numbered after this one's."""


class MeanSample(Sample):
    """Means of k columns of values (q, k), NaN for none; `images` (q,) are the queries' images."""

    def __init__(self, names: Sequence[str], values: ArrayLike, images: ArrayLike) -> None:
        self.names = names
        self.values = np.asarray(values, np.float64)
        self.groups = np.unique(np.asarray(images), return_inverse=True)[1]
        known = ~np.isnan(self.values)
        self._sums, self._counts = np.zeros((2, self.groups.max(initial=-1) + 1, *self.values.shape[1:]))
        np.add.at(self._sums, self.groups, np.where(known, self.values, 0.0))
        np.add.at(self._counts, self.groups, known)

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        sums, counts = weights @ self._sums, weights @ self._counts
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

    def pooled(self, other: MeanSample) -> MeanSample:
        """See `Sample`."""
        values = np.concatenate([self.values, other.values])
        return MeanSample(self.names, values, np.concatenate([self.groups, other.groups + self.size]))


class RankSample(Sample):
    """R@1, R@5, R@10 and Med r of zero-based ranks (q,) with their images; negative ranks are left out.

    `among` are the images to draw from, by default those with a rank.
    """

    names = METRICS

    def __init__(self, ranks: ArrayLike, images: ArrayLike, among: ArrayLike | None = None) -> None:
        found, owners = np.asarray(ranks), np.asarray(images)
        self.ranks, owners = found[found >= 0], owners[found >= 0]
        images = np.unique(owners) if among is None else np.asarray(among)
        self.groups = np.searchsorted(images, owners)
        self._size = len(images)
        order = np.argsort(self.ranks, kind="stable")
        self._levels, self._starts = np.unique(self.ranks[order], return_index=True)
        self._by_level = self.groups[order]  # the images of the queries, by their ranks

    @property
    def size(self) -> int:
        """See `Sample`."""
        return self._size

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        if not len(self._levels):
            return np.full((len(weights), len(self.names)), np.nan)
        seen = np.add.reduceat(weights[:, self._by_level], self._starts, axis=1).cumsum(axis=1)
        total = seen[:, -1:]
        found = np.concatenate([np.zeros_like(total), seen], axis=1)
        hits = np.stack([found[:, np.searchsorted(self._levels, k)] for k in TOP], axis=1)
        middle = [self._levels[(seen > at).argmax(axis=1)] for at in ((total - 1) // 2, total // 2)]
        median = (middle[0] + middle[1]) // 2 + 1.0
        recalls = np.divide(100.0 * hits, total, out=np.full(hits.shape, np.nan), where=total > 0)
        return np.column_stack([recalls, np.where(total[:, 0] > 0, median, np.nan)])

    def pooled(self, other: RankSample) -> RankSample:
        """See `Sample`."""
        ranks = np.concatenate([self.ranks, other.ranks])
        groups = np.concatenate([self.groups, other.groups + self.size])
        return RankSample(ranks, groups, np.arange(self.size + other.size))


class RetrievalSample(Sample):
    """The metrics of both directions, and mR; `owners` (m,) is the image of each sentence."""

    names = (*(f"{direction} {name}" for direction in DIRECTIONS for name in METRICS), "mR")

    def __init__(self, ranks: Ranks, owners: Ints) -> None:
        self.ranks, self.owners = ranks, owners
        images = np.arange(len(ranks.sentence))
        queried = np.union1d(images[ranks.sentence >= 0], owners[ranks.image >= 0])
        self.ways = RankSample(ranks.sentence, images, queried), RankSample(ranks.image, owners, queried)
        if not all(len(way.ranks) for way in self.ways):
            raise SeesayError("no query has a correct result: no image in this split has a sentence.")
        self.groups = np.concatenate([way.groups for way in self.ways])

    def metrics(self, weights: Weights) -> Values:
        """See `Sample`."""
        ways = [way.metrics(weights) for way in self.ways]
        mean = np.mean([way[:, : len(TOP)] for way in ways], axis=(0, 2))
        return np.concatenate([*ways, mean[:, None]], axis=1)

    def pooled(self, other: RetrievalSample) -> RetrievalSample:
        """See `Sample`."""
        mine, theirs = self.ranks, other.ranks
        ranks = Ranks(
            np.concatenate([mine.sentence, theirs.sentence]), np.concatenate([mine.image, theirs.image])
        )
        owners = np.concatenate([self.owners, other.owners + len(mine.sentence)])
        return RetrievalSample(ranks, owners)


def bootstrap(
    values: ArrayLike, groups: ArrayLike | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Compute the 95 % bootstrap interval of the mean of per-query values.

    Args:
        values: (q,), such as 1 for a query with a correct result and 0 for one without; finite, or NaN for
            queries to leave out.
        groups: (q,), queries with the same number are drawn together, such as the sentences of an image; by
            default, each query is its own group.
        resamples: the number of draws.
        seed: random seed.

    Returns:
        `low` and `high`, the 2.5th and 97.5th percentile of the means.

    Raises:
        SeesayError: a shape is wrong, a value is infinite, no value is a number, or `resamples` is below 1.

    Example:
        >>> from seesay.metrics import bootstrap
        >>> bootstrap([1, 0, 1, 1, 0, 1, 0, 1])
        Interval(low=0.25, high=0.875)
        >>> bootstrap([1, 0, 1, 1, 0, 1, 0, 1], groups=[0, 0, 0, 0, 1, 1, 1, 1])
        Interval(low=0.5, high=0.75)
    """
    check_whole(1, resamples=resamples)
    check_whole(0, seed=seed)
    found = interval_of(draws([mean_sample(values, groups)], resamples, seed)[:, 0])
    if found is None:
        raise SeesayError("values: all values are NaN; at least one must be a number.")
    return found


def mean_sample(values: ArrayLike, groups: ArrayLike | None, name: str = "values") -> MeanSample:
    """Return the sample of checked per-query values (q,) and groups (q,)."""
    column = as_array(values, name, "q", kinds="fiub")
    if not len(column):
        raise SeesayError(f"{name}: shape (0,); it must be (q,) with at least one query.")
    if np.isinf(column).any():
        raise SeesayError(f"{name}: expected finite numbers or NaN, got an infinity.")
    images = np.arange(len(column)) if groups is None else as_array(groups, "groups", len(column), kinds="iu")
    return MeanSample(["mean"], column[:, None], images)


def mean_metrics(folds: Sequence[Sample]) -> dict[str, float]:
    """Return the metrics by name, averaged over folds."""
    ones = [fold.metrics(np.ones((1, fold.size), np.int32))[0] for fold in folds]
    return dict(zip(folds[0].names, np.mean(ones, axis=0).tolist(), strict=True))


def intervals(
    folds: Sequence[Sample], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval | None]:
    """Return the percentile interval of each metric by name; None for one without a value.

    Folds are resampled separately, and a metric is the mean over folds. Draws without a query are left out.
    """
    return dict(zip(folds[0].names, map(interval_of, draws(folds, resamples, seed).T), strict=True))


def draws(folds: Sequence[Sample], resamples: int, seed: int) -> Values:
    """Return the metrics of each draw, (resamples, k)."""
    draw = np.random.default_rng(seed)
    drawn = [
        np.concatenate([fold.metrics(weights) for weights in image_draws(draw, fold.size, resamples)])
        for fold in folds
    ]
    return np.asarray(np.mean(drawn, axis=0))


def interval_of(column: Values) -> Interval | None:
    """Return the interval of draws (b,); None if all are NaN."""
    known = column[~np.isnan(column)]
    if not len(known):
        return None
    low, high = np.percentile(known, _TAILS)
    return Interval(float(low), float(high))


def image_draws(draw: np.random.Generator, n: int, resamples: int) -> Iterator[Weights]:
    """Draw n of n images `resamples` times; yield how often each is drawn, (block, n), a block at a time."""
    for size in blocks(resamples, n):
        drawn = draw.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.int32)


def blocks(count: int, n: int) -> Iterator[int]:
    """Yield the sizes of blocks of `count` draws, of n numbers each, that fit into memory."""
    step = max(1, min(_DRAWS_AT_ONCE, _NUMBERS_AT_ONCE // max(n, 1)))
    yield from (min(step, count - start) for start in range(0, count, step))
