"""Recall at K and the median rank of both directions of retrieval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.errors import SeesayError
from seesay.metrics.inputs import as_array, refuse_nan
from seesay.metrics.ranks import Ranks, ranks

TOP = (1, 5, 10)  # of mR


def metric_names(at: Iterable[int] = ()) -> tuple[str, ...]:
    """Name the metrics of one direction: R@1, R@5 and R@10 with those at further K, and Med r.

    >>> metric_names([50])
    ('R@1', 'R@5', 'R@10', 'R@50', 'Med r')
    """
    return (*(f"R@{k}" for k in sorted({*TOP, *at})), "Med r")


METRICS = metric_names()


@dataclass(frozen=True, slots=True)
class DirectionMetrics:
    """One direction of retrieval: percentages of queries answered in the top 1, 5 and 10, and Med r.

    Example:
        >>> from seesay.metrics import DirectionMetrics
        >>> DirectionMetrics.from_ranks([0, 3, 7, 20])
        DirectionMetrics(r1=25.0, r5=50.0, r10=75.0, median_rank=6.0)
    """

    r1: float
    r5: float
    r10: float
    median_rank: float

    @classmethod
    def from_ranks(cls, ranks: ArrayLike) -> DirectionMetrics:
        """Summarize zero-based ranks (q,), negative ones left out."""
        r1, r5, r10 = (recall_at_k(ranks, k) for k in TOP)
        return cls(r1, r5, r10, median_rank(ranks))

    def to_dict(self) -> dict[str, float]:
        """Return the metrics under the names that the field prints."""
        return dict(zip(METRICS, (self.r1, self.r5, self.r10, self.median_rank), strict=True))


@dataclass(frozen=True, slots=True)
class RetrievalMetrics:
    """Both directions of retrieval: an image as the query for sentences, and a sentence for images.

    Example:
        >>> from seesay.metrics import retrieval_metrics
        >>> retrieval_metrics([[0.9, 0.2], [0.1, 0.7]], image_of_sentence=[0, 1]).mean_recall
        100.0
    """

    sentence_retrieval: DirectionMetrics
    image_retrieval: DirectionMetrics

    @property
    def mean_recall(self) -> float:
        """The field's mR: the mean of the three recalls of both directions, in percent."""
        ways = self.sentence_retrieval, self.image_retrieval
        return fmean(value for way in ways for value in (way.r1, way.r5, way.r10))

    def to_dict(self) -> dict[str, float]:
        """Return the metrics under the names that `seesay evaluate --json` prints, such as `S R@1`."""
        ways = {"S": self.sentence_retrieval, "I": self.image_retrieval}
        named = {f"{way} {name}": value for way, of in ways.items() for name, value in of.to_dict().items()}
        return named | {"mR": self.mean_recall}

    def __str__(self) -> str:
        """Return a small table."""
        lines = ["                     R@1    R@5   R@10  Med r"]
        for name, way in (("sentence", self.sentence_retrieval), ("image", self.image_retrieval)):
            cells = "".join(f"{value:7.1f}" for value in way.to_dict().values())
            lines.append(f"{name + ' retrieval':<18}{cells}")
        return "\n".join([*lines, f"mR {self.mean_recall:.1f}"])


def retrieval_metrics(scores: ArrayLike, image_of_sentence: ArrayLike) -> RetrievalMetrics:
    """Compute R@1, R@5, R@10, the median rank and mR of a score matrix in both directions.

    Any sentence of an image is a correct result. Ties count against the query, so a constant scorer gains
    nothing.

    Args:
        scores: (n_images, n_sentences), higher is better.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.

    Raises:
        SeesayError: a shape is wrong, a score is NaN, or no image has a sentence.

    Example:
        >>> from seesay.metrics import retrieval_metrics
        >>> metrics = retrieval_metrics([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], image_of_sentence=[0, 0, 1])
        >>> print(metrics)
                             R@1    R@5   R@10  Med r
        sentence retrieval  100.0  100.0  100.0    1.0
        image retrieval      33.3  100.0  100.0    2.0
        mR 88.9
        >>> metrics.sentence_retrieval.r1
        100.0
    """
    return metrics_of(ranks(scores, image_of_sentence))


def metrics_of(found: Ranks) -> RetrievalMetrics:
    """Summarize the ranks of both directions."""
    return RetrievalMetrics(*map(DirectionMetrics.from_ranks, (found.sentence, found.image)))


def recall_at_k(ranks: ArrayLike, k: int) -> float:
    """Compute the percentage of queries with a correct result among the first k.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.
        k: the number of candidates that count.

    Raises:
        SeesayError: no query is left, or a rank is NaN.

    >>> recall_at_k([0, 0, 4, 99], k=5)
    75.0
    """
    return 100.0 * float(np.mean(_queries(ranks) < k))


def median_rank(ranks: ArrayLike) -> float:
    """Compute Med r as is usual in the field: floor(median of zero-based ranks) + 1.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.

    Raises:
        SeesayError: no query is left, or a rank is NaN.

    >>> median_rank([0, 0, 5, 99])
    3.0
    """
    return float(np.floor(np.median(_queries(ranks)))) + 1.0


def _queries(ranks: ArrayLike) -> NDArray[np.int64]:
    found = as_array(ranks, "ranks", "q")
    refuse_nan(found, "ranks")
    found = found[found >= 0]
    if not found.size:
        raise SeesayError("ranks: no query has a correct result: no image in this split has a sentence.")
    return found
