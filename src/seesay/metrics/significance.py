"""The paired comparison of two matchers on the same queries.

The interval of a difference is by paired bootstrap: both matchers share each draw of images. The p-value is
by paired randomization: under the null hypothesis the answers of the two are exchangeable, so those to an
image and its sentences are swapped at random and the difference is computed again. For one recall with one
query an image this is McNemar's exact test (Smucker, Allan and Carterette, CIKM 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seesay.errors import SeesayError, check_whole
from seesay.metrics.bootstrap import (
    RESAMPLES,
    Interval,
    MeanSample,
    Sample,
    Values,
    blocks,
    draws,
    interval_of,
    mean_metrics,
    mean_sample,
)

SWAPS = 10_000
_SAME = 1e-9  # relative to the metrics: smaller deviations between differences are due to rounding


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Two metrics compared: theirs, the difference (ours minus theirs), its 95 % interval and its p-value.

    All are None if a metric has no value.

    Example:
        >>> from seesay.metrics import paired_test
        >>> paired_test([1, 1, 1, 0], [0, 1, 0, 0]).difference
        0.5
    """

    theirs: float | None
    difference: float | None
    interval: Interval | None
    p: float | None

    def rounded(self) -> PairedTest:
        """Return the metric, the difference and its interval with three decimals, and p with five."""
        if self.theirs is None or self.difference is None or self.p is None:
            return self
        ends = self.interval and self.interval.rounded()
        return PairedTest(round(self.theirs, 3), round(self.difference, 3), ends, round(self.p, 5))


def paired_test(
    ours: ArrayLike,
    theirs: ArrayLike,
    groups: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    swaps: int = SWAPS,
    seed: int = 0,
) -> PairedTest:
    """Test whether the means of two columns of per-query values differ.

    Args:
        ours: (q,), such as 1 for a query with a correct result and 0 for one without; finite, or NaN for
            queries to leave out.
        theirs: (q,), the other values of the same queries, with NaN in the same places.
        groups: (q,), queries with the same number are drawn and swapped together, such as the sentences of an
            image; by default, each query is its own group.
        resamples: the number of bootstrap draws for the interval.
        swaps: the number of random swaps for the p-value, which is two-sided and at least 1 / (swaps + 1).
        seed: random seed of the draws and of the swaps.

    Raises:
        SeesayError: a shape is wrong, a value is infinite, the queries differ, or `resamples` or `swaps` is
            below 1.

    Example:
        >>> from seesay.metrics import paired_test
        >>> test = paired_test([1, 1, 1, 1, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0, 0, 0])
        >>> test.difference, test.interval, round(test.p, 3)
        (0.625, Interval(low=0.25, high=0.875), 0.063)
    """
    check_whole(1, resamples=resamples, swaps=swaps)
    check_whole(0, seed=seed)
    first, second = mean_sample(ours, groups, "ours"), mean_sample(theirs, groups, "theirs")
    if first.values.shape != second.values.shape or (np.isnan(first.values) != np.isnan(second.values)).any():
        raise SeesayError("theirs: expected the same queries as ours, with NaN in the same places.")
    return compare([first], [second], resamples, swaps, seed)["mean"]


def compare(
    ours: Sequence[Sample],
    theirs: Sequence[Sample],
    resamples: int = RESAMPLES,
    swaps: int = SWAPS,
    seed: int = 0,
) -> dict[str, PairedTest]:
    """Compare all metrics of two samples of each fold.

    Raises:
        SeesayError: the queries are not the same.
    """

    def queries(sample: Sample) -> tuple[ArrayLike, ...]:
        # A concept of other images is another query.
        known = ~np.isnan(sample.values) if isinstance(sample, MeanSample) else ()
        return sample.names, sample.groups, known

    pairs = list(zip(ours, theirs, strict=True))
    if not all(np.array_equal(*each) for pair in pairs for each in zip(*map(queries, pair), strict=True)):
        raise SeesayError("a paired comparison needs the same queries, but these differ.")
    # The same seed draws the same images of both.
    drawn = draws(ours, resamples, seed) - draws(theirs, resamples, seed)
    swapped = _swapped(pairs, swaps, seed)
    tests = {}
    other = mean_metrics(theirs)
    for at, (name, value) in enumerate(mean_metrics(ours).items()):
        difference = value - other[name]
        if np.isnan(difference):
            tests[name] = PairedTest(None, None, None, None)
            continue
        least = abs(difference) - _SAME * max(abs(value), abs(other[name]))
        p = (1 + int((np.abs(swapped[:, at]) >= least).sum())) / (1 + len(swapped))
        tests[name] = PairedTest(other[name], difference, interval_of(drawn[:, at]), p)
    return tests


def _swapped(pairs: Sequence[tuple[Sample, Sample]], swaps: int, seed: int) -> Values:
    """Return the differences after swapping the answers of about half of the images, (swaps, k)."""
    draw = np.random.default_rng(seed)
    folds = []
    for ours, theirs in pairs:
        both, n = ours.pooled(theirs), ours.size
        parts = []
        for size in blocks(swaps, n):
            kept = draw.integers(0, 2, (size, n), np.int32)
            weights = np.concatenate([kept, 1 - kept], axis=1)
            parts.append(both.metrics(weights) - both.metrics(1 - weights))
        folds.append(np.concatenate(parts))
    return np.asarray(np.mean(folds, axis=0))
