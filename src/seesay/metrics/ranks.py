"""Exact ranks of the right answers, counted without sorting.

Ranks are zero-based. Ties count against the query: a candidate that scores as high as the right one ranks
before it, so a constant scorer gains nothing. The other sentences of an image do not compete with its best
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seesay.arrays import as_array, refuse_nan
from seesay.errors import SeesayError

NO_ANSWER = -1
"""The rank of an image without sentences: a candidate, but no query."""

_CACHE_CELLS = 1 << 18  # cells compared at a time; 1 MiB of float32 fits into a core's cache
_TILE = 16  # rows; a multiple of what BLAS computes at a time
_PRODUCT_CELLS = 1 << 24  # cells of one block of inner products; 64 MiB of float32

# A score matrix as a stream of row blocks, each with the position of its first image. Every call
# yields the same blocks with the same bits.
_Blocks = Callable[[], Iterator[tuple[int, NDArray[Any]]]]


@dataclass(frozen=True, slots=True)
class Ranks:
    """Zero-based ranks in both directions.

    Attributes:
        sentence: for each image as a query the rank of its best own sentence, or NO_ANSWER, (n_images,).
        image: for each sentence as a query the rank of its image, (n_sentences,).

    Example:
        >>> from seesay.metrics import ranks
        >>> ranks([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], [0, 0, 1]).image
        array([0, 1, 1])
    """

    sentence: NDArray[np.int64]
    image: NDArray[np.int64]


def ranks(scores: ArrayLike, image_of_sentence: ArrayLike) -> Ranks:
    """Compute the ranks of both directions from a score matrix, in one pass over it.

    Args:
        scores: (n_images, n_sentences), higher is better; any real dtype, memory-mapped or not.
            Infinities are allowed and tie with each other.
        image_of_sentence: (n_sentences,), for each sentence the row of its image.

    Raises:
        SeesayError: the shapes or the mapping do not match, or a score is NaN.

    >>> ranks([[0.9, 0.2, 0.8], [0.1, 0.7, 0.8]], [0, 0, 1])
    Ranks(sentence=array([0, 0]), image=array([0, 1, 1]))
    """
    matrix = as_array(scores, "scores", "n_images", "n_sentences")
    owners = owners_of(image_of_sentence, *matrix.shape)
    # Half precision is compared in single precision: the order is the same, and processors support it.
    dtype = np.result_type(matrix, np.float32) if matrix.dtype.kind == "f" else matrix.dtype
    return _count(lambda: iter([(0, matrix)]), owners, len(matrix), dtype)


def embedding_ranks(images: ArrayLike, sentences: ArrayLike, image_of_sentence: ArrayLike) -> Ranks:
    """Compute the ranks of both directions by inner product, without holding all scores.

    The products are computed twice: for the scores of the right answers, and for counting.

    Args:
        images: (n_images, d); reduced precisions are multiplied in float32.
        sentences: (n_sentences, d).
        image_of_sentence: (n_sentences,), for each sentence the row of its image.

    Raises:
        SeesayError: the shapes or the mapping do not match, or a product is NaN.

    Example:
        >>> from seesay.metrics import embedding_ranks
        >>> images, sentences = [[1.0, 0.0], [0.0, 1.0]], [[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]
        >>> embedding_ranks(images, sentences, image_of_sentence=[0, 0, 1])
        Ranks(sentence=array([0, 0]), image=array([0, 0, 0]))
    """
    rows = as_array(images, "images", "n_images", "d")
    columns = as_array(sentences, "sentences", "n_sentences", rows.shape[1])
    owners = owners_of(image_of_sentence, len(rows), len(columns))
    precision = np.result_type(rows, columns, np.float32)
    right = tiled(columns, precision)
    step = max(1, _PRODUCT_CELLS // len(columns))

    def blocks() -> Iterator[tuple[int, NDArray[Any]]]:
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            with np.errstate(invalid="ignore", over="ignore"):  # a NaN is reported with its place below
                products = tiled(block, precision) @ right.T
            yield start, products[: len(block), : len(columns)]

    return _count(blocks, owners, len(rows), precision)


def shared_ranks(
    of_images: NDArray[Any], of_sentences: NDArray[Any], owners: NDArray[np.int64], texts: NDArray[np.int64]
) -> Ranks:
    """Compute the ranks of both directions if a sentence is right for every image that carries its text.

    The scores (n, m) are those whose queries are images, and sentences; maybe the same array. `owners` is the
    row of each sentence's image, (m,), and `texts` a number from 0 for each, the same for equal texts.

    >>> scores = np.array([[0.9, 0.9], [0.8, 0.8]])  # of two images with the same sentence
    >>> shared_ranks(scores, scores, np.array([0, 1]), np.array([0, 0]))
    Ranks(sentence=array([0, 0]), image=array([0, 0]))
    """
    order = np.argsort(owners, kind="stable")
    step = max(1, _CACHE_CELLS // len(owners))

    def blocks() -> Iterator[tuple[slice, NDArray[np.bool_]]]:
        for start in range(0, len(of_images), step):
            stop = min(start + step, len(of_images))
            low, high = np.searchsorted(owners[order], [start, stop])
            own = order[low:high]
            carried = np.zeros((stop - start, int(texts.max()) + 1), bool)
            carried[owners[own] - start, texts[own]] = True
            yield slice(start, stop), carried[:, texts]

    best = np.full(len(owners), -np.inf)
    sentence = np.full(len(of_images), NO_ANSWER)
    for rows, right in blocks():
        for scores in (of_images, of_sentences):
            refuse_nan(scores[rows], "scores", rows.start)
        mine, block = np.where(right, of_images[rows], -np.inf).max(axis=1, keepdims=True), of_images[rows]
        before = ((block >= mine) & ~right).sum(axis=1)
        sentence[rows] = np.where(right.any(axis=1), before, NO_ANSWER)
        np.maximum(best, np.where(right, of_sentences[rows], -np.inf).max(axis=0), out=best)
    image = sum(((of_sentences[rows] >= best) & ~right).sum(axis=0) for rows, right in blocks())
    return Ranks(sentence, np.asarray(image, np.int64))


def tiled(matrix: NDArray[Any], precision: Any) -> NDArray[Any]:
    """Return a matrix (n, d), padded with rows of zeros to a multiple of 16 rows.

    OpenBLAS rounds the products of the last few rows differently, so that equal rows would not tie.
    """
    matrix, missing = np.asarray(matrix, dtype=precision), -len(matrix) % _TILE
    return np.pad(matrix, ((0, missing), (0, 0))) if missing else matrix


def owners_of(image_of_sentence: ArrayLike, n_images: int, n_sentences: int) -> NDArray[np.int64]:
    """Check the image of each sentence against the sizes of the split; return it as int64."""
    owners = as_array(image_of_sentence, "image_of_sentence", kinds="fiub")
    if not n_images or not n_sentences:
        raise SeesayError(f"nothing to rank: {n_images} images and {n_sentences} sentences.")
    if owners.shape != (n_sentences,) or owners.dtype.kind not in "iu":
        raise SeesayError(
            f"image_of_sentence: shape {owners.shape}, dtype {owners.dtype}; it must be "
            f"({n_sentences},), the image of each sentence (column) as a whole number."
        )
    outside = np.flatnonzero((owners < 0) | (owners >= n_images))
    if outside.size:
        at = int(outside[0])
        raise SeesayError(
            f"image_of_sentence: sentence {at} belongs to image {owners[at]}, "
            f"but there are {n_images} images (rows)."
        )
    return owners.astype(np.int64)


def first_of_repeated(rows: NDArray[Any], owners: NDArray[np.int64], name: str) -> NDArray[Any]:
    """Return one row an image, of a row for each sentence, as VSE++, SCAN and others lay out a split.

    Rows (m, d) of one image, by `owners` (m,), may differ by rounding, if they were computed in different
    batches; if they differ by more, a SeesayError with `name` is raised.
    """
    first, of_row = np.unique(owners, return_index=True, return_inverse=True)[1:]
    step = max(1, _CACHE_CELLS // max(rows.shape[1], 1))
    for start in range(0, len(rows), step):
        block, kept = rows[start : start + step], rows[first[of_row[start : start + step]]]
        differs = ~np.isclose(block, kept, rtol=1e-4, atol=1e-6, equal_nan=True).all(axis=1)
        if differs.any():
            at = start + int(np.argmax(differs))
            raise SeesayError(
                f"{name}: {len(rows)} rows, one for each sentence, but row {at} is not that of its image's "
                f"first sentence, row {first[of_row[at]]}; expected one row per image, in order."
            )
    return np.asarray(rows[first])


def _count(blocks: _Blocks, owners: NDArray[np.int64], n_images: int, dtype: np.dtype[Any]) -> Ranks:
    """Count the candidates that score at least as high as the right one, for every query."""
    own = _own_scores(blocks, owners, dtype)
    best = np.full(n_images, own.min(), dtype)
    with np.errstate(invalid="ignore"):  # a NaN is reported with its place below
        np.maximum.at(best, owners, own)

    before_sentence = np.zeros(n_images, np.int64)
    before_image = np.zeros(len(owners), np.int64)
    step = min(255, max(1, _CACHE_CELLS // len(owners)))  # rows that fit into the cache
    for start, block in blocks():
        for first in range(start, start + len(block), step):
            part = block[first - start : first - start + step].astype(dtype, copy=False)
            refuse_nan(part, "scores", first)
            stop = first + len(part)
            # Counting the bits of packed bytes is three times as fast as adding up each row.
            bits = np.bitwise_count(np.packbits(part >= best[first:stop, None], axis=1))
            before_sentence[first:stop] = bits.sum(axis=1, dtype=np.int64)
            # Sums of at most 255 ones fit a byte, which adds four times faster than a wider type.
            before_image += np.add.reduce((part >= own).view(np.uint8), axis=0, dtype=np.uint8)

    sentence = before_sentence - np.bincount(owners[own >= best[owners]], minlength=n_images)
    sentence[np.bincount(owners, minlength=n_images) == 0] = NO_ANSWER
    return Ranks(sentence, before_image - 1)  # every sentence's own image was counted too


def _own_scores(blocks: _Blocks, owners: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the score of each sentence with its own image, (n_sentences,)."""
    own = np.empty(len(owners), dtype)
    order = np.argsort(owners, kind="stable")
    in_order = owners[order]
    for start, block in blocks():
        low, high = np.searchsorted(in_order, [start, start + len(block)])
        columns = order[low:high]
        own[columns] = block[owners[columns] - start, columns]
    return own
