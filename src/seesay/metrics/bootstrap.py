"""How sure a figure is: bootstrap intervals over the queries of a split.

What is drawn anew is the images, each with all of its sentences. The sentences of an image are no
independent queries: they describe one scene, have one right answer and fail together, so drawing them
one by one gives intervals that are too narrow. One draw serves both directions, so that mR's interval
knows how they go together. The candidates stay those of the split: an interval speaks of other queries to
the same gallery, not of another gallery, nor of another training (for that there are seeds).

Efron and Tibshirani 1993, chapter 13 (percentile intervals); Davison and Hinkley 1997, section 3.8 (data
in groups).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from seesay.errors import SeesayError
from seesay.metrics.ranks import Ranks
from seesay.metrics.recall import MEASURES

RESAMPLES = 1_000
LEVEL = 95  # percent
TAILS = [(100 - LEVEL) / 2, (100 + LEVEL) / 2]
DIRECTIONS = ("sentence_retrieval", "image_retrieval")
MEAN_RECALL = "mR"
FIGURES = 2 * len(MEASURES) + 1  # both directions', then mR

_TOP = (1, 5, 10)
_AT_ONCE = 500  # draws counted at a time

Whole = NDArray[np.int64]
Draws = NDArray[np.float64]  # (draws, FIGURES)


@dataclass(frozen=True, slots=True)
class Answers:
    """The ranks of the queries to one gallery.

    `ranks` holds NO_ANSWER, or any negative number, for what is no query; `owners` (n_sentences,) the image
    of each sentence, from 0.
    """

    ranks: Ranks
    owners: Whole


def intervals(folds: Sequence[Answers], resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Any]:
    """Percentile intervals of all figures, as `evaluate_scores` names them: [low, high] for each.

    Folds are resampled each by itself, and a figure is the mean over folds.

    Args:
        folds: the answers of each gallery.
        resamples: how often the images are drawn.
        seed: of the draws.

    Returns:
        level (percent), resamples, sentence_retrieval, image_retrieval and mR.

    Raises:
        SeesayError: a fold has no query.
    """
    return how_drawn(resamples) | by_name(ends(resampled(folds, resamples, seed)))


def rank_intervals(ranks: ArrayLike, images: ArrayLike, resamples: int) -> dict[str, Any]:
    """The intervals of one direction's R@1, R@5, R@10 and Med r, where there are no two.

    Args:
        ranks: zero-based, (q,); negative for what is no query.
        images: that go with them, (q,), each drawn with all its queries.
        resamples: how often.
    """
    found, owners = np.asarray(ranks), np.asarray(images)
    levels, level = np.unique(found[found >= 0], return_inverse=True)
    _, image = np.unique(owners[found >= 0], return_inverse=True)
    counts = _count(image, level, int(image.max()) + 1, len(levels))
    draw = np.random.default_rng(0)
    drawn = [_measures((counts.T @ w.T).T, levels) for _, w in image_draws(draw, counts.shape[0], resamples)]
    return how_drawn(resamples) | dict(zip(MEASURES, ends(np.concatenate(drawn)), strict=True))


def mean_intervals(
    names: Sequence[str], values: ArrayLike, images: ArrayLike, resamples: int
) -> dict[str, list[float] | None]:
    """The interval of each column's mean, by the column's name.

    Args:
        names: of the k columns.
        values: of the queries, (q, k), NaN for none.
        images: that go with them, (q,), each drawn with all its queries.
        resamples: how often.
    """
    column = np.asarray(values, np.float64)
    there = ~np.isnan(column)
    _, image = np.unique(np.asarray(images), return_inverse=True)
    alone = csr_array((np.ones(len(image)), (image, np.arange(len(image)))))  # adds up queries of one image
    sums, counts = alone @ np.where(there, column, 0.0), alone @ there.astype(np.float64)
    draw = np.random.default_rng(0)
    with np.errstate(invalid="ignore"):
        drawn = [w @ sums / (w @ counts) for _, w in image_draws(draw, len(sums), resamples)]
    return dict(zip(names, ends(np.concatenate(drawn)), strict=True))


def ends(draws: Draws) -> list[list[float] | None]:
    """Low and high of each column of draws (b, k), draws without a value left out; None without any."""
    known = [column[~np.isnan(column)] for column in draws.T]
    return [[round(float(end), 3) for end in np.percentile(c, TAILS)] if len(c) else None for c in known]


def how_drawn(resamples: int) -> dict[str, Any]:
    """What stands with every interval."""
    return {"level": LEVEL, "resamples": resamples}


def resampled(folds: Sequence[Answers], resamples: int, seed: int) -> Draws:
    """The figures of each draw, (resamples, FIGURES), in the order of `by_name`."""
    draw = np.random.default_rng(seed)
    total = np.zeros((resamples, FIGURES))
    for fold in folds:
        counts = RankCounts.of(fold)
        for rows, weights in image_draws(draw, len(counts.queried), resamples):
            total[rows] += counts.figures(weights)
    return total / len(folds)


def image_draws(
    draw: np.random.Generator, n: int, resamples: int
) -> Iterator[tuple[slice, NDArray[np.int32]]]:
    """How often each of n images is drawn: blocks of draws, with (block, n) whole numbers."""
    for rows in blocks(resamples):
        size = rows.stop - rows.start
        drawn = draw.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        yield rows, np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(np.int32)


def blocks(draws: int) -> Iterator[slice]:
    """All draws, as many at a time as memory is wanted for."""
    for start in range(0, draws, _AT_ONCE):
        yield slice(start, min(start + _AT_ONCE, draws))


@dataclass(frozen=True, slots=True)
class RankCounts:
    """How many queries of each image have which rank, in both directions.

    Attributes:
        queried: the images that have a query, (q,).
        levels: for each direction the ranks that occur, rising, (l,).
        counts: for each direction the queries, (q, l), sparse.
    """

    queried: Whole
    levels: tuple[Whole, Whole]
    counts: tuple[csr_array, csr_array]

    @classmethod
    def of(cls, fold: Answers, beside: Answers | None = None) -> RankCounts:
        """The counts of a fold; `levels` holds the ranks of `beside` too."""
        asked = _queries(fold)
        queried = np.unique(np.concatenate([images for images, _ in asked]))
        if not all(len(images) for images, _ in asked):
            raise SeesayError("no query has an answer: no image of this split has a sentence.")
        others = _queries(beside) if beside is not None else asked
        levels = [np.unique(np.concatenate([a[1], b[1]])) for a, b in zip(asked, others, strict=True)]
        counts = [
            _count(np.searchsorted(queried, images), np.searchsorted(there, found), len(queried), len(there))
            for (images, found), there in zip(asked, levels, strict=True)
        ]
        return cls(queried, (levels[0], levels[1]), (counts[0], counts[1]))

    def figures(self, weights: NDArray[np.int32]) -> Draws:
        """The figures where image i counts weights[:, i] times, (b, FIGURES) from (b, q)."""
        return figures_of(self.histograms(weights), self.levels)

    def histograms(self, weights: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """For each direction how many queries have each rank, (b, l)."""
        return [(counts.T @ weights.T).T for counts in self.counts]


def figures_of(histograms: Sequence[NDArray[Any]], levels: Sequence[Whole]) -> Draws:
    """The figures (b, FIGURES) of each direction's queries by rank, (b, l) of ranks (l,)."""
    ways = [_measures(histogram, there) for histogram, there in zip(histograms, levels, strict=True)]
    mean = np.mean([way[:, : len(_TOP)] for way in ways], axis=(0, 2))
    return np.concatenate([*ways, mean[:, None]], axis=1)


def by_name(values: Sequence[Any]) -> dict[str, Any]:
    """FIGURES values under the names that `evaluate_scores` gives them."""
    m = len(MEASURES)
    ways = (values[:m], values[m : 2 * m])
    named = {way: dict(zip(MEASURES, of, strict=True)) for way, of in zip(DIRECTIONS, ways, strict=True)}
    return named | {MEAN_RECALL: values[-1]}


def _queries(fold: Answers) -> list[tuple[Whole, Whole]]:
    """For each direction the images of its queries, and their ranks, (q,) each."""
    every = (np.arange(len(fold.ranks.sentence)), fold.ranks.sentence), (fold.owners, fold.ranks.image)
    return [(images[found >= 0], found[found >= 0]) for images, found in every]


def _count(rows: ArrayLike, columns: ArrayLike, n: int, levels: int) -> csr_array:
    ones = np.ones(np.shape(rows), np.int32)
    return csr_array((ones, (rows, columns)), shape=(n, levels))  # adds up what stands at one place


def _measures(histogram: NDArray[Any], levels: Whole) -> Draws:
    """R@1, R@5, R@10 and Med r of each row, (b, 4) from (b, l); see `recall.retrieval`."""
    seen = histogram.cumsum(axis=1)
    total = seen[:, -1:]
    found = np.concatenate([np.zeros_like(total), seen], axis=1)
    recalls = [100.0 * found[:, np.searchsorted(levels, k)] / total[:, 0] for k in _TOP]
    middle = [levels[(seen > at).argmax(axis=1)] for at in ((total - 1) // 2, total // 2)]
    return np.stack([*recalls, (middle[0] + middle[1]) // 2 + 1.0], axis=1)
