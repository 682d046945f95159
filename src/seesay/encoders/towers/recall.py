"""What reduced towers still find: their best photos beside those of the full ones, and the time they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.finder import walk_files
from seesay.data.sources import FileSource
from seesay.data.suffixes import IMAGE_SUFFIXES
from seesay.encoders.images.encode import encode_images
from seesay.encoders.sentences.class_names import class_names
from seesay.encoders.towers.opened import OpenTowers
from seesay.encoders.towers.two_tower import TowerImageEncoder, TowerSentenceEncoder, unit_rows
from seesay.errors import ImageError, SeesayError
from seesay.progress import progress

MOST, LEAST = 500, 50  # photos that are encoded, and without which nothing is learnt
ENOUGH = 0.9  # recall
BEST = 10  # photos of a query
_AT_ONCE = 16  # photos in memory
_TIMED = 20  # images and sentences
_EVERY = 5  # one of so many of the 1,000 class names is a query
_SAME = 1e-6  # cosines that differ by less are equal

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class RecallCheck:
    """Reduced towers beside the full ones.

    Attributes:
        photos: how many were encoded by both.
        sentences: how many were queries.
        recall_sentences: of the full towers' ten best photos for a sentence, the share that is among the ten
            best of the reduced ones; None if there is no text tower.
        recall_photos: the same for each photo as the query, without itself.
        image_ms: milliseconds of an image in one thread, full and reduced.
        sentence_ms: milliseconds of a sentence, full and reduced; None if there is no text tower.
    """

    photos: int
    sentences: int
    recall_sentences: float | None
    recall_photos: float
    image_ms: tuple[float, float]
    sentence_ms: tuple[float, float] | None

    @property
    def passed(self) -> bool:
        """Whether both recalls are enough."""
        return (
            min(self.recall_photos, 1 if self.recall_sentences is None else self.recall_sentences) >= ENOUGH
        )

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON has them."""
        return asdict(self)

    def __str__(self) -> str:
        """Say the recalls in words."""
        sentences = "" if self.recall_sentences is None else f"{self.recall_sentences:.3f} for sentences and "
        return f"recall@{BEST} {sentences}{self.recall_photos:.3f} for photos, on {self.photos} photos"


def check_recall(full: OpenTowers, reduced: OpenTowers, folder: Path) -> RecallCheck:
    """Encode photos and sentences with both, and compare what they find.

    The photos are up to 500, at equal steps through all of the folder; the sentences name everyday things.

    Raises:
        SeesayError: the folder has fewer than 50 photos that can be read.
    """
    both = full, reduced
    photos = _photos(both, folder)
    found = overlap(*(_without_itself(rows @ rows.T) for rows in photos))
    image_ms = _milliseconds([partial(_encode_blank, each) for each in both])
    if full.text is None:
        return RecallCheck(len(photos[0]), 0, None, found, image_ms, None)
    sentences = _sentences()
    encoders = [TowerSentenceEncoder("the model", each) for each in both]
    queries = [unit_rows(each.encode(sentences)) for each in encoders]
    found_by_text = overlap(*(query @ rows.T for query, rows in zip(queries, photos, strict=True)))
    sentence_ms = _milliseconds([partial(each.encode, sentences[:1]) for each in encoders])
    return RecallCheck(len(photos[0]), len(sentences), found_by_text, found, image_ms, sentence_ms)


def overlap(full: Vectors, reduced: Vectors) -> float:
    """Compute the share of the full scores' ten best that is among the ten best of the reduced scores.

    What scores as well as the full scores' tenth best counts as one of these: copies of a photo do.

    Args:
        full: scores of queries and photos, (q, n), n at least 10.
        reduced: scores of the same.

    Example:
        >>> full = np.arange(20.0)[None]
        >>> overlap(full, full), overlap(full, np.roll(full, 1)), overlap(full, -full)
        (1.0, 0.9, 0.0)
    """
    worst = np.partition(full, -BEST, axis=1)[:, -BEST, None]
    best = np.argpartition(reduced, -BEST, axis=1)[:, -BEST:]
    return float((np.take_along_axis(full, best, axis=1) >= worst - _SAME).mean())


def _without_itself(scores: Vectors) -> Vectors:
    np.fill_diagonal(scores, -np.inf)
    return scores


def _photos(towers: Sequence[OpenTowers], folder: Path) -> list[Vectors]:
    """Encode photos of a folder with each image tower: unit vectors, (n, d) each."""
    if not folder.is_dir():
        raise SeesayError(f"{folder}: no such folder; name one with photos of the kind that are searched.")
    paths = [path for path in walk_files(folder) if path.suffix.lower() in IMAGE_SUFFIXES]
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, min(len(paths), MOST)).astype(int)]
    encoders = [TowerImageEncoder("the model", each) for each in towers]
    parts: list[list[Vectors]] = [[np.empty((0, encoder.dims["pooled"]), np.float32)] for encoder in encoders]
    with progress("Checking", len(chosen), "photos") as advance:
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            encoded = encode_images(encoders, [_read(path) for path in some], [str(path) for path in some])
            good = [error is None for error in encoded.errors]
            for part, arrays in zip(parts, encoded.arrays, strict=True):
                part.append(unit_rows(arrays["pooled"][good]))
            advance(len(some))
    photos = [np.concatenate(part) for part in parts]
    if len(photos[0]) < LEAST:
        raise SeesayError(
            f"{folder}: {len(photos[0])} photos can be read, and the check needs {LEAST}; "
            "name a folder with more."
        )
    return photos


def _read(path: Path) -> bytes:
    """Read a photo; one that cannot be read is empty, and left out with the broken ones."""
    try:
        return FileSource(path).read()
    except ImageError:
        return b""


def _sentences() -> list[str]:
    """Return sentences that name everyday things, from the names of image classes."""
    return [f"a photo of a {name}" for name in class_names()[::_EVERY]]


def _encode_blank(towers: OpenTowers) -> None:
    towers.image(np.zeros((1, *towers.preprocessing.crop, 3), np.uint8))


def _milliseconds(functions: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """Compute the median time of each of two functions, called in turn."""
    times = np.empty((_TIMED, 2))
    for row in times:
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            row[i] = time.perf_counter() - start
    first, second = 1000 * np.median(times, axis=0)
    return float(first), float(second)
