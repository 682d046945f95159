"""Recall at K, and the median and mean rank, of both directions of retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import as_array, refuse_nan
from seesay.errors import SeesayError, check_whole
from seesay.metrics.ranks import Ranks, embedding_ranks, first_of_repeated, owners_of, ranks

TOP = (1, 5, 10)  # of mR


METRICS = (*(f"R@{k}" for k in TOP), "Med r")  # of one direction


def retrieval_metrics(
    scores: ArrayLike, image_of_sentence: ArrayLike, k: Sequence[int] = TOP
) -> dict[str, float]:
    """Compute R@K, the median and mean rank, mR and rsum of a score matrix in both directions.

    Any sentence of an image is a correct result. Ties count against the query, so a constant scorer gains
    nothing.

    Args:
        scores: (n_images, n_sentences), higher is better. Also (n_sentences, n_sentences), with the row of an
            image repeated for each of its sentences, as evaluators such as VSE++'s and SCAN's have it.
        image_of_sentence: (n_sentences,), for each sentence the row of its image, or its image's number.
        k: each K of R@K.

    Returns:
        The metrics by name: `S R@1`, `S Med r`, `S Mean r` and so on of sentence retrieval, whose queries are
        images (i2t); `I R@1` of image retrieval (t2i); mR, the mean of all recalls, and rsum, their sum.
        Recalls are in percent, and ranks begin at 1.

    Raises:
        SeesayError: a shape is wrong, an image has no sentence, repeated rows differ, a score is NaN, there
            is nothing to rank, or a K is less than 1 or missing.

    Example:
        >>> from seesay.metrics import retrieval_metrics
        >>> metrics = retrieval_metrics([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], image_of_sentence=[0, 0, 1])
        >>> metrics["S R@1"], metrics["I Med r"], round(metrics["mR"], 1)
        (100.0, 2.0, 88.9)
    """
    matrix = as_array(scores, "scores", "n_images", "n_sentences")
    owners = owners_of(image_of_sentence, *matrix.shape)
    return _all_metrics(ranks(*_one_row_an_image(matrix, owners, "scores")), k)


def _one_row_an_image(
    rows: NDArray[Any], owners: NDArray[np.int64], name: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return a row for each image, and the row of each sentence's image."""
    images, places = np.unique(owners, return_inverse=True)
    if len(images) == len(rows):
        return rows, owners
    if len(rows) == len(owners):
        return first_of_repeated(rows, owners, name), places
    lonely = int(np.setdiff1d(np.arange(len(rows)), images)[0])
    raise SeesayError(
        f"{name}: {len(rows)} images, but {len(rows) - len(images)} of them have no sentence in "
        f"image_of_sentence, such as image {lonely}; leave these images out."
    )


class _Batch(NamedTuple):
    images: NDArray[Any]
    sentences: NDArray[Any]
    image_of_sentence: NDArray[np.int64]
    image_ids: NDArray[np.int64] | None


class RetrievalMetrics:
    """The metrics of `retrieval_metrics` for embeddings that come in batches: `update`, then `compute`.

    Scores are inner products, and the images and sentences of all batches are the gallery. A call adds a
    batch and returns the metrics of that batch alone, as in torchmetrics. Metrics of several processes, each
    of its own batches, add up: gather the objects, and `sum` them.

    Args:
        k: each K of R@K.

    Raises:
        SeesayError: there is no K, or one is less than 1.

    Example:
        >>> from seesay.metrics import RetrievalMetrics
        >>> metrics = RetrievalMetrics(k=(1, 2))
        >>> metrics.update([[1.0, 0.0]], [[0.9, 0.1], [0.8, 0.2]], image_of_sentence=[0, 0])
        >>> metrics.update([[0.0, 1.0]], [[0.1, 0.9]], image_of_sentence=[0])
        >>> metrics.compute()["rsum"]
        400.0
        >>> pairs = RetrievalMetrics(k=(1,))  # of a loader of pairs: the same image in several batches
        >>> pairs.update([[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.1, 0.9]], image_ids=[17, 4])
        >>> other = RetrievalMetrics(k=(1,))  # of another process
        >>> other.update([[1.0, 0.0]], [[0.8, 0.2]], image_ids=[17])
        >>> sum([pairs, other]).compute()["I R@1"]
        100.0
    """

    def __init__(self, k: Sequence[int] = TOP) -> None:
        self.k = _checked(k)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._batches: list[_Batch] = []

    def update(
        self,
        images: ArrayLike,
        sentences: ArrayLike,
        image_of_sentence: ArrayLike | None = None,
        image_ids: ArrayLike | None = None,
    ) -> None:
        """Add a batch.

        Args:
            images: embeddings, (n, d); of each image once, or repeated for each of its sentences.
            sentences: embeddings, (m, d), of these images alone.
            image_of_sentence: for each sentence the row of its image in this batch, (m,); by default row i of
                both is a pair.
            image_ids: which image each row of `images` shows, (n,), as whole numbers. Rows of one image, in
                this or another batch, are one candidate, whose first embedding counts. By default, the images
                of different batches are different. Give ids with all batches or with none.

        Raises:
            SeesayError: a shape is wrong or differs from earlier batches, the batch is empty, or a sentence
                belongs to no image of the batch.
        """
        rows = as_array(images, "images", "n", "d")
        columns = as_array(sentences, "sentences", "m", rows.shape[1])
        if image_of_sentence is None and len(rows) != len(columns):
            raise SeesayError(
                f"image_of_sentence: {len(rows)} images and {len(columns)} sentences are no pairs; name the "
                "row of each sentence's image."
            )
        pairs = np.arange(len(columns)) if image_of_sentence is None else image_of_sentence
        owners = owners_of(pairs, len(rows), len(columns))
        ids = None if image_ids is None else as_array(image_ids, "image_ids", len(rows), kinds="iu")
        if ids is None:
            rows, owners = _one_row_an_image(rows, owners, "images")
        else:
            ids = ids.astype(np.int64)
        # The caller may use its arrays for the next batch.
        self._extend([_Batch(rows.copy(), columns.copy(), owners, ids)])

    def _extend(self, batches: Sequence[_Batch]) -> None:
        both = [*self._batches, *batches]
        if len({batch.images.shape[1] for batch in both}) > 1:
            raise SeesayError("images: the batches have embeddings of different widths.")
        if len({batch.image_ids is None for batch in both}) > 1:
            raise SeesayError("image_ids: some batches have ids and others none; give them with all batches.")
        self._batches = both

    def __call__(self, *arrays: ArrayLike, **named: Any) -> dict[str, float]:
        """Add a batch, and return its own metrics; see `update`."""
        batch = RetrievalMetrics(self.k)
        batch.update(*arrays, **named)
        found = batch.compute()  # a batch with NaN is not added
        self._extend(batch._batches)
        return found

    def __add__(self, other: object) -> RetrievalMetrics:
        """Return the metrics of the batches of both, such as those of two processes."""
        if not isinstance(other, RetrievalMetrics) or other.k != self.k:
            return NotImplemented
        both = RetrievalMetrics(self.k)
        both._extend([*self._batches, *other._batches])
        return both

    def __radd__(self, other: object) -> RetrievalMetrics:
        """Return the metrics themselves after the 0 with which `sum` begins."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def compute(self) -> dict[str, float]:
        """Return the metrics of all batches.

        Raises:
            SeesayError: there was no batch, or a score is NaN.
        """
        if not self._batches:
            raise SeesayError("nothing to measure; update with a batch first.")
        of_batches, sentences, own, ids = zip(*self._batches, strict=True)
        starts = np.cumsum([0, *map(len, of_batches)])
        images = np.concatenate(of_batches)
        owners = np.concatenate([start + rows for start, rows in zip(starts, own, strict=False)])
        if ids[0] is not None:
            _, first, places = np.unique(np.concatenate(ids), return_index=True, return_inverse=True)
            images, owners = images[first], places[owners]
        return _all_metrics(embedding_ranks(images, np.concatenate(sentences), owners), self.k)


def metrics_of(found: Ranks, k: Sequence[int] = TOP) -> dict[str, float]:
    """Summarize the ranks of both directions by R@K, Med r and mR."""
    k = _checked(k)
    metrics: dict[str, float] = {}
    for way, queries in (("S", found.sentence), ("I", found.image)):
        metrics |= {f"{way} R@{each}": recall_at_k(queries, each) for each in k}
        metrics[f"{way} Med r"] = median_rank(queries)
    return metrics | {"mR": fmean(metrics[f"{way} R@{each}"] for way in "SI" for each in k)}


def _checked(k: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(k)
    except TypeError:
        raise SeesayError(f"k: expected several numbers, such as (1, 5), got {k}.") from None
    check_whole(1, k=found)
    if not found:
        raise SeesayError("k: name at least one K.")
    return tuple(map(int, found))


def _all_metrics(found: Ranks, k: Sequence[int]) -> dict[str, float]:
    metrics = metrics_of(found, k)
    means = {"S Mean r": mean_rank(found.sentence), "I Mean r": mean_rank(found.image)}
    return metrics | means | {"rsum": 2 * len(k) * metrics["mR"]}


def recall_at_k(ranks: ArrayLike, k: int) -> float:
    """Compute the percentage of queries with a correct result among the first k.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.
        k: the number of candidates that count.

    Raises:
        SeesayError: no query is left, a rank is NaN, or `k` is not a whole number of at least 1.

    >>> recall_at_k([0, 0, 4, 99], k=5)
    75.0
    """
    check_whole(1, k=k)
    return 100.0 * float(np.mean(_queries(ranks) < k))


def median_rank(ranks: ArrayLike) -> float:
    """Compute Med r by the field's definition: floor(median of zero-based ranks) + 1.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.

    Raises:
        SeesayError: no query is left, or a rank is NaN.

    >>> median_rank([0, 0, 5, 99])
    3.0
    """
    return float(np.floor(np.median(_queries(ranks)))) + 1.0


def mean_rank(ranks: ArrayLike) -> float:
    """Compute Mean r, the mean of the ranks counted from 1.

    Args:
        ranks: (q,), zero-based; negative ranks (NO_ANSWER) are not queries and are ignored.

    Raises:
        SeesayError: no query is left, or a rank is NaN.

    >>> mean_rank([0, 0, 5, 99])
    27.0
    """
    return float(np.mean(_queries(ranks))) + 1.0


def _queries(ranks: ArrayLike) -> NDArray[np.int64]:
    found = as_array(ranks, "ranks", "q")
    refuse_nan(found, "ranks")
    found = found[found >= 0]
    if not found.size:
        raise SeesayError("ranks: no query has a correct result: no image in this split has a sentence.")
    return found
