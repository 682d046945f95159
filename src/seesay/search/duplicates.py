"""Stacks: copies of one picture, and shots of one burst.

The vectors of two images are close if they mean the same, as two receipts do, and nobody wants one hidden
behind the other. So vectors only propose pairs, and the pixels of the thumbnails decide. In blocks of 8 × 8
pixels, a copy of another size or quality correlates with its original wherever there is detail; a document of
the same layout with other words does not. Shots of a burst differ more, so they must be seconds apart.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seesay.arrays import Pixels

PROPOSED = 0.9
"""The cosine of two images' vectors from which their pixels are compared."""

_NEAREST = 200  # images that each is compared with at most
_MISSES = 20  # comparisons in vain, nearest first, after which no further one is made
_KEPT = 512  # decoded thumbnails
_ROWS = 2048  # vectors compared at a time
_SIDE = 320  # pixels of the longer side at which two thumbnails are compared
_BLOCK = 8  # pixels per side of a block
_DETAIL = 0.3  # of the picture's contrast: the least spread of a block with detail
_FAINT, _CLEAR = 2.0, 10.0  # grey levels: less is never detail, and more always is
_ALIKE = 0.7  # the correlation of two blocks with the same detail
_DIFFERENT = 0.35  # of the picture's contrast: a difference that is no artefact of compression
_SAME_SHAPE = 0.02  # by which the logarithms of the aspect ratios of two copies may differ
_COLOUR = 32.0  # levels by which the mean colour of a block may differ
_BURST = 0.4  # the least median of two shots of a burst
_SECONDS = 3.0  # between two shots of a burst


def stacks(
    ids: NDArray[np.int64],
    vectors: NDArray[np.float16],
    picture: Callable[[int], bytes | None],
    seconds: Mapping[int, float],
) -> list[list[int]]:
    """Group copies of one picture and shots of one burst.

    Each image of a stack is like its first one: likeness does not pass on from image to image.

    Args:
        ids: of the images, (n,).
        vectors: of the images, (n, dim), of any norm.
        picture: returns an image's encoded thumbnail; None if it has none.
        seconds: the capture times of the images that a camera dated.

    Returns:
        The ids of each stack of two or more, its first image first.
    """

    @lru_cache(maxsize=_KEPT)
    def pixels(i: int) -> Pixels | None:
        if (encoded := picture(i)) is not None:
            with suppress(OSError), Image.open(io.BytesIO(encoded)) as image:  # which may be damaged
                image.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
                return np.asarray(image.convert("RGB"))
        return None

    def belong(first: int, second: int) -> bool:
        left, right = pixels(first), pixels(second)
        if left is None or right is None:
            return False
        median, different = likeness(left, right)
        apart = abs(seconds.get(first, np.inf) - seconds.get(second, -np.inf))
        return different == 0 or (median >= _BURST and apart <= _SECONDS)

    stacked = set[int]()
    found = list[list[int]]()
    for row, near in _proposed(vectors):
        first, others = int(ids[row]), ids[near].tolist()
        alike, misses = list[int](), 0
        for other in others if first not in stacked else ():
            if misses < _MISSES and other not in stacked:
                if belong(first, other):
                    alike.append(other)
                else:
                    misses += 1
        stacked.update(alike)
        if alike:
            found.append([first, *alike])
    return found


def _proposed(vectors: NDArray[np.float16]) -> Iterator[tuple[int, list[int]]]:
    """Yield each row with the later rows that are close to it, nearest first, at most `_NEAREST` of them."""
    unit = vectors.astype(np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    for start in range(0, len(vectors), _ROWS):
        block = unit[start : start + _ROWS]
        near = [np.zeros((0, 2))] * len(block)  # (cosine, image) of each image of the block
        for other in range(start, len(vectors), _ROWS):
            cosines = block @ unit[other : other + _ROWS].T
            rows, columns = np.nonzero(cosines >= PROPOSED)
            later = start + rows < other + columns
            rows, columns = rows[later], columns[later]
            pairs = np.column_stack([cosines[rows, columns], other + columns])
            bounds = np.searchsorted(rows, np.arange(len(block) + 1))
            for row in np.unique(rows):
                joined = np.concatenate([near[row], pairs[bounds[row] : bounds[row + 1]]])
                near[row] = joined[np.argsort(-joined[:, 0], kind="stable")[:_NEAREST]]
        for row, pairs in enumerate(near):
            yield start + row, pairs[:, 1].astype(int).tolist()


def likeness(left: Pixels, right: Pixels) -> tuple[float, int]:
    """Compare two pictures (h, w, 3), block by block, at the size of the smaller one.

    Returns:
        The median correlation of the blocks with detail, 1 if no block has any; and the number of blocks
        whose detail or colour differs, of which a copy has none.

    Example:
        >>> noise = np.random.default_rng(0).integers(0, 255, (64, 96, 3), np.uint8)
        >>> likeness(noise, noise // 2 + 60)[1], likeness(noise, noise[::-1])[0] < 0.1
        (0, True)
    """
    (height, width), (other_height, other_width) = left.shape[:2], right.shape[:2]
    if abs(np.log((width * other_height) / (height * other_width))) > _SAME_SHAPE:
        return 0.0, 1
    size = min((width, height), (other_width, other_height))
    resized = (Image.fromarray(each).resize(size, Image.Resampling.LANCZOS) for each in (left, right))
    first, second = (_blocks(np.asarray(each, np.float32)) for each in resized)
    recoloured = np.abs(first.mean(axis=1) - second.mean(axis=1)).max(axis=1) > _COLOUR
    grey = [each.mean(axis=2) for each in (first, second)]
    spread = np.maximum(*(each.std(axis=1) for each in grey))
    contrast = float(np.quantile(spread, 0.95))  # faint writing counts as much as black one
    detailed = spread >= np.clip(_DETAIL * contrast, _FAINT, _CLEAR)
    one, other = (each - each.mean(axis=1, keepdims=True) for each in grey)
    norms = np.sqrt(np.square(one).mean(axis=1) * np.square(other).mean(axis=1))
    correlation = (one * other).mean(axis=1) / np.maximum(norms, 1e-6)
    apart = np.sqrt(np.square(one - other).mean(axis=1))
    different = recoloured | (detailed & (correlation < _ALIKE) & (apart >= _DIFFERENT * contrast))
    median = float(np.median(correlation[detailed])) if detailed.any() else 1.0
    return median, int(different.sum())


def _blocks(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cut a picture (h, w, 3) into blocks, (b, 64, 3); pixels right and below that fill none are left out."""
    rows, columns = max(pixels.shape[0] // _BLOCK, 1), max(pixels.shape[1] // _BLOCK, 1)
    whole = pixels[: rows * _BLOCK, : columns * _BLOCK]
    if whole.shape[0] % _BLOCK or whole.shape[1] % _BLOCK:  # smaller than a block
        return whole.reshape(1, -1, 3)
    cut = whole.reshape(rows, _BLOCK, columns, _BLOCK, 3)
    return cut.swapaxes(1, 2).reshape(rows * columns, _BLOCK * _BLOCK, 3)
