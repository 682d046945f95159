"""What a run with smaller encoders still finds: its best photos and its times beside the full one's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import Photo
from seesay.data.sources import FileSource
from seesay.data.suffixes import IMAGE_SUFFIXES
from seesay.data.walk import walk_files
from seesay.encoders.sentences.class_names import class_names
from seesay.errors import ImageError, SeesayError
from seesay.progress import progress
from seesay.runs.run import Run

MOST, LEAST = 500, 50  # photos that are encoded, and without which nothing is learnt
ENOUGH = 0.9  # recall
BEST = 10  # photos of a query
_AT_ONCE = 16  # photos in memory
_TIMED = 20  # images and sentences
_SIDE = 256  # pixels of the image that is timed
_EVERY = 5  # one of so many of the 1,000 class names is a query
_SAME = 1e-6  # cosines that differ by less are equal

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RecallCheck:
    """A run with smaller encoders beside the full one.

    Attributes:
        photos: how many were embedded by both.
        sentences: how many were queries.
        recall_sentences: of the full run's ten best photos for a sentence, the share that is among the ten
            best of the reduced one.
        recall_photos: the same for each photo as the query, without itself.
        image_ms: milliseconds of an image, full and reduced.
        sentence_ms: milliseconds of a sentence, full and reduced.
    """

    photos: int
    sentences: int
    recall_sentences: float
    recall_photos: float
    image_ms: tuple[float, float]
    sentence_ms: tuple[float, float]

    @property
    def passed(self) -> bool:
        """Whether both recalls are enough."""
        return min(self.recall_photos, self.recall_sentences) >= ENOUGH

    def __str__(self) -> str:
        """Say the recalls in words."""
        return (
            f"recall@{BEST} {self.recall_sentences:.3f} for sentences and {self.recall_photos:.3f} for "
            f"photos, on {self.photos} photos"
        )


def check_recall(full: Run, reduced: Run, folder: Path) -> RecallCheck:
    """Embed photos and sentences with both runs, and compare what they find.

    The photos are up to 500, at equal steps through all of the folder; the sentences name everyday things.

    Raises:
        SeesayError: the folder has fewer than 50 photos that can be read.
    """
    both = full, reduced
    photos = _photos(both, folder)
    sentences = [f"a photo of a {name}" for name in class_names()[::_EVERY]]
    queries = [run.embed_sentences(sentences) for run in both]
    blank = np.zeros((_SIDE, _SIDE, 3), np.uint8)
    return RecallCheck(
        photos=len(photos[0]),
        sentences=len(sentences),
        recall_sentences=overlap(*(query @ rows.T for query, rows in zip(queries, photos, strict=True))),
        recall_photos=overlap(*(_without_itself(rows @ rows.T) for rows in photos)),
        image_ms=_milliseconds([partial(run.embed_images, [blank]) for run in both]),
        sentence_ms=_milliseconds([partial(run.embed_sentences, sentences[:1]) for run in both]),
    )


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


def _photos(runs: Sequence[Run], folder: Path) -> list[Vectors]:
    """Embed photos of a folder by each run, (n, d) each; those that cannot be read are left out."""
    if not folder.is_dir():
        raise SeesayError(f"{folder}: no such folder; name one with photos of the kind that are searched.")
    paths = [path for path in walk_files(folder) if path.suffix.lower() in IMAGE_SUFFIXES]
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, min(len(paths), MOST)).astype(int)]
    parts: list[list[Vectors]] = [[np.empty((0, run.dim), np.float32)] for run in runs]
    with progress("Checking", len(chosen), "photos") as advance:
        for start in range(0, len(chosen), _AT_ONCE):
            some = chosen[start : start + _AT_ONCE]
            read = [photo for path in some if (photo := _read(path, runs[0].side)) is not None]
            for run, part in zip(runs, parts, strict=True):
                part.append(run.embed_photos(read))
            advance(len(some))
    photos = [np.concatenate(part) for part in parts]
    if len(photos[0]) < LEAST:
        raise SeesayError(
            f"{folder}: {len(photos[0])} photos can be read, and the check needs {LEAST}; "
            "name a folder with more."
        )
    return photos


def _read(path: Path, side: int) -> Photo | None:
    """Read a photo and decode it; None if it is broken or cannot be read."""
    try:
        return Photo.read(FileSource(path).read(), str(path), side)
    except ImageError:
        return None


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
