"""Near-duplicate images: copies of another size or quality, and burst shots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIMILARITY = 0.97
"""The cosine of two images' vectors from which they count as nearly alike."""

_SKETCH = 128  # dimensions of the projections among which candidates are found
_SLACK = 0.05  # by which a sketch's cosine may be too low: over five standard deviations from 0.95 on
_BLOCK = 2048
_ROUNDING = 1e-6  # of a cosine: that of equal vectors may be less than 1


def near_duplicates(
    ids: NDArray[np.int64], vectors: NDArray[np.float16], similarity: float = SIMILARITY
) -> list[list[int]]:
    """Group images that are connected by pairs of at least the given similarity.

    Candidate pairs are found by random projections and compared by their vectors.

    Args:
        ids: of the images, (n,).
        vectors: of the images, (n, dim), of any norm.
        similarity: the least cosine of a pair.

    Returns:
        The ids of each group of two or more, in order, with the largest groups first.

    Example:
        >>> vectors = np.array([[1, 0], [0, 1], [1, 0.01], [0, -1]], np.float16)
        >>> near_duplicates(np.array([5, 6, 7, 8]), vectors)
        [[5, 7]]
    """
    count, dim = vectors.shape
    projection = np.random.default_rng(0).standard_normal((dim, _SKETCH)).astype(np.float32)
    sketches = np.empty((count, _SKETCH), np.float32)
    for start in range(0, count, _BLOCK):
        sketches[start : start + _BLOCK] = _unit(vectors[start : start + _BLOCK]) @ projection
    sketches = _unit(sketches)
    group = np.arange(count)  # the position of an earlier image of the same group, or its own
    for start in range(0, count, _BLOCK):
        block = sketches[start : start + _BLOCK]
        for other in range(start, count, _BLOCK):
            near = block @ sketches[other : other + _BLOCK].T >= similarity - _SLACK
            first, second = np.nonzero(near)
            first, second = first + start, second + other
            kept = first < second
            _join(group, first[kept], second[kept], vectors, similarity)
    return _groups(ids, group)


def _join(
    group: NDArray[np.int64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    vectors: NDArray[np.float16],
    similarity: float,
) -> None:
    first, second = _apart(group, first, second)
    for start in range(0, len(first), _BLOCK):
        a, b = _apart(group, first[start : start + _BLOCK], second[start : start + _BLOCK])
        alike = np.vecdot(_unit(vectors[a]), _unit(vectors[b])) >= similarity - _ROUNDING
        for i, j in zip(a[alike].tolist(), b[alike].tolist(), strict=True):
            low, high = sorted((_root(group, i), _root(group, j)))
            group[high] = low


def _apart(
    group: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Leave out pairs within one group: all but n - 1 pairs of n copies of an image."""
    kept = _roots(group, first) != _roots(group, second)
    return first[kept], second[kept]


def _roots(group: NDArray[np.int64], of: NDArray[np.int64]) -> NDArray[np.int64]:
    roots = group[of]
    while not np.array_equal(above := group[roots], roots):
        roots = above
    return roots


def _root(group: NDArray[np.int64], i: int) -> int:
    while group[i] != i:
        group[i] = group[group[i]]
        i = int(group[i])
    return i


def _groups(ids: NDArray[np.int64], group: NDArray[np.int64]) -> list[list[int]]:
    members: dict[int, list[int]] = {}
    for i in range(len(group)):
        members.setdefault(_root(group, i), []).append(int(ids[i]))
    found = [sorted(each) for each in members.values() if len(each) > 1]
    return sorted(found, key=lambda each: (-len(each), each))


def _unit(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    rows32 = rows.astype(np.float32)
    unit: NDArray[np.float32] = rows32 / np.maximum(np.linalg.norm(rows32, axis=1, keepdims=True), 1e-12)
    return unit
