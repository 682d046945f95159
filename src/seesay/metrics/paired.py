"""Two answers to the same queries: is one better, or were these queries kind to it?

The interval of a difference is a paired bootstrap: each draw of images (see `uncertainty`) is the same for
both. The p-value is a paired randomisation test: if the two were equally good, whose answers to an image and
its sentences are whose would not matter, so they are swapped at random and the difference is looked at again.
Of one recall with one query an image that is McNemar's exact test. Smucker, Allan and Carterette (CIKM 2007)
recommend it for retrieval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.metrics.bootstrap import (
    FIGURES,
    LEVEL,
    RESAMPLES,
    TAILS,
    Answers,
    Draws,
    RankCounts,
    blocks,
    by_name,
    figures_of,
    image_draws,
)

SWAPS = 10_000

_SAME = 1e-9  # differences that are equal but for rounding

_Pair = tuple[RankCounts, RankCounts]


def compare(
    ours: Sequence[Answers],
    theirs: Sequence[Answers],
    resamples: int = RESAMPLES,
    swaps: int = SWAPS,
    seed: int = 0,
) -> dict[str, Any]:
    """What two matchers' figures differ by on the same queries, ours minus theirs.

    Args:
        ours: the answers of each gallery.
        theirs: the other's to the same queries.
        resamples: how often the images are drawn for the interval.
        swaps: how often answers are swapped for the p-value, which is two-sided and at least 1 / (swaps + 1).
        seed: of both.

    Returns:
        level (percent), resamples, swaps, and for each figure of both directions and mR: theirs, difference,
        interval [low, high] and p. Of Med r a negative difference is the better one.

    Raises:
        SeesayError: the queries are not the same.
    """
    pairs = [_counts(a, b) for a, b in zip(ours, theirs, strict=True)]
    mine, other = (np.mean([_all(each) for each in side], axis=0) for side in zip(*pairs, strict=True))
    found = mine - other
    low, high = np.percentile(_resampled(pairs, resamples, seed), TAILS, axis=0)
    at_least = np.abs(_swapped(pairs, swaps, seed)) >= np.abs(found) - _SAME
    p = (1 + at_least.sum(axis=0)) / (1 + swaps)
    told = [
        {
            "theirs": round(float(other[i]), 3),
            "difference": round(float(found[i]), 3),
            "interval": [round(float(low[i]), 3), round(float(high[i]), 3)],
            "p": round(float(p[i]), 5),
        }
        for i in range(FIGURES)
    ]
    return {"level": LEVEL, "resamples": resamples, "swaps": swaps} | by_name(told)


def _counts(ours: Answers, theirs: Answers) -> _Pair:
    """Both sides' counts over the same images and the same ranks."""
    same = np.array_equal(ours.owners, theirs.owners) and all(
        np.array_equal(mine < 0, other < 0)
        for mine, other in (
            (ours.ranks.sentence, theirs.ranks.sentence),
            (ours.ranks.image, theirs.ranks.image),
        )
    )
    if not same:
        raise SeesayError("a paired comparison needs the same queries, and these are not.")
    return RankCounts.of(ours, theirs), RankCounts.of(theirs, ours)


def _all(counts: RankCounts) -> NDArray[np.float64]:
    """The figures themselves, (FIGURES,)."""
    figures: NDArray[np.float64] = counts.figures(np.ones((1, len(counts.queried)), np.int32))[0]
    return figures


def _resampled(pairs: Sequence[_Pair], resamples: int, seed: int) -> Draws:
    """The differences of each draw of images, (resamples, FIGURES)."""
    draw = np.random.default_rng(seed)
    total = np.zeros((resamples, FIGURES))
    for ours, theirs in pairs:
        for rows, weights in image_draws(draw, len(ours.queried), resamples):
            total[rows] += ours.figures(weights) - theirs.figures(weights)
    return total / len(pairs)


def _swapped(pairs: Sequence[_Pair], swaps: int, seed: int) -> Draws:
    """The differences once the answers of about half of the images are swapped, (swaps, FIGURES)."""
    draw = np.random.default_rng(seed)
    total = np.zeros((swaps, FIGURES))
    for ours, theirs in pairs:
        n = len(ours.queried)
        both = [np.asarray((a + b).sum(axis=0)) for a, b in zip(ours.counts, theirs.counts, strict=True)]
        for rows in blocks(swaps):
            kept = draw.integers(0, 2, (rows.stop - rows.start, n), np.int32)
            mine = [x + y for x, y in zip(ours.histograms(kept), theirs.histograms(1 - kept), strict=True)]
            other = [all_of - some for all_of, some in zip(both, mine, strict=True)]
            total[rows] += figures_of(mine, ours.levels) - figures_of(other, ours.levels)
    return total / len(pairs)
