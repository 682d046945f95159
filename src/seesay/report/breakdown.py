"""What ranks say beyond three recalls: at every K, by rank, and by what a sentence is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.metrics.bootstrap import RESAMPLES, Answers
from seesay.protocols.k_shot import recalls

Whole = NDArray[np.int64]


def recall_curve(ranks: Whole, most: int = 100) -> NDArray[np.float64]:
    """The percentage of queries whose zero-based rank is below K = 1 … `most`; negative ranks are no queries.

    >>> recall_curve(np.array([0, 2, 2, 9, -1]), 4).tolist()
    [25.0, 25.0, 75.0, 75.0]
    """
    asked = ranks[ranks >= 0]
    found = np.bincount(asked[asked < most], minlength=most).cumsum()
    return 100.0 * found / max(len(asked), 1)


def rank_bins(most: int) -> list[tuple[int, int]]:
    """Bins of ranks from one, each twice as wide as the one before: (first, last), up to `most`.

    >>> rank_bins(9)
    [(1, 1), (2, 3), (4, 7), (8, 15)]
    """
    return [(1 << i, (2 << i) - 1) for i in range(max(most, 1).bit_length())]


def span(low: int, high: int) -> str:
    """From one whole number to another, in words: 4–7."""
    return str(low) if low == high else f"{low}–{high}"


def rank_shares(ranks: Whole, bins: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """The percentage of queries in each bin of ranks from one, of zero-based ranks."""
    asked = ranks[ranks >= 0] + 1
    counts = np.array([np.count_nonzero((first <= asked) & (asked <= last)) for first, last in bins])
    return 100.0 * counts / max(len(asked), 1)


def equal_bins(values: Whole, wanted: int = 5) -> list[tuple[int, int]]:
    """Bins, (first, last), that hold about as many values each; equal values are in one.

    >>> equal_bins(np.array([5, 5, 5, 6, 7, 8, 9, 20]), 4)
    [(5, 5), (6, 6), (7, 8), (9, 20)]
    """
    shares = np.arange(1, wanted + 1) / wanted
    ends = np.unique(np.quantile(values, shares, method="inverted_cdf")).astype(int).tolist()
    starts = [int(values.min()), *(end + 1 for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))


@dataclass(frozen=True, slots=True)
class Bin:
    """Sentences that have something in common, and a name for it; `chosen` is (m,)."""

    name: str
    chosen: NDArray[np.bool_]


def bins_of(values: Whole, named: Mapping[str, tuple[int, int]]) -> list[Bin]:
    """The sentences of each band of values, bands without any left out."""
    bins = [Bin(name, (low <= values) & (values <= high)) for name, (low, high) in named.items()]
    return [each for each in bins if each.chosen.any()]


def image_retrieval_of(
    found: Answers, chosen: NDArray[np.bool_], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """The image retrieval of some of the sentences, all images being candidates.

    Returns:
        `sentences`, R@1, R@5, R@10 in percent and Med r; and `intervals` of these.
    """
    images = np.zeros(len(found.ranks.sentence), bool)
    images[found.owners[chosen]] = True  # whose recalls nobody asks for
    told = recalls(found, images, chosen, resamples)
    measures: dict[str, Any] = told["image_retrieval"]
    return measures | {"sentences": told["sentences"], "intervals": told["intervals"]["image_retrieval"]}


@dataclass(frozen=True, slots=True)
class Shown:
    """How a query is answered: the right answer's rank from one, and the best candidates.

    `right` says of each of these whether it is one.
    """

    rank: int
    first: tuple[int, ...]
    right: tuple[bool, ...]


def best(scores: NDArray[Any], right: NDArray[np.bool_], count: int = 3) -> Shown:
    """The best candidates of one query, (n,); right ones stand behind others that score as much."""
    # As ranks are counted: ties are against the query.
    order = np.lexsort((right, -np.asarray(scores, np.float64)))
    first = order[:count]
    rank = int(np.argmax(right[order])) + 1
    return Shown(rank, tuple(first.tolist()), tuple(right[first].tolist()))


def hardest(ranks: Whole, count: int) -> list[int]:
    """The queries with the worst ranks, the worst first."""
    order = np.argsort(-ranks, kind="stable")[:count]
    return [int(query) for query in order if ranks[query] >= 0]
