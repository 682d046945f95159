"""What an index remembers of its images as a gallery, so that scores become probabilities.

It is learned when images are indexed, and stored: a query then needs one product of its vector with the mean.
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seesay.runs.calibration import Background, unrelated_sentences
from seesay.runs.embedder import Embedder
from seesay.search.store import Changes, Parts, Store
from seesay.search.update import finite


@dataclass(frozen=True)
class GalleryBackground:
    """The mean vector of an index's images, and the best score of each unrelated sentence among them.

    Attributes:
        generation: of the store, up to which images are counted.
        count: number of images.
        mean: of their vectors, (dim,).
        best: scores of unrelated sentences, (b,).
        centres: their mean scores over the gallery, (b,).
    """

    generation: int
    count: int
    mean: NDArray[np.float64]
    best: NDArray[np.float64]
    centres: NDArray[np.float64]

    @classmethod
    def learned(
        cls, changes: Changes, parts: Parts, unrelated: NDArray[np.float32], former: Self | None = None
    ) -> Self:
        """Learn from all images of a store, or from those that came since `former`.

        Args:
            changes: all images, or those since `former.generation` if none of its images is gone or changed.
            parts: their ids and vectors.
            unrelated: vectors of unrelated sentences, (b, dim).
            former: what is known already.
        """
        total = np.zeros(unrelated.shape[1])
        best = np.full(len(unrelated), -np.inf)
        if former is not None:
            total, best = former.mean * former.count, former.best
        for _, rows in parts:
            total = total + rows.sum(axis=0, dtype=np.float64)
            best = np.maximum(best, (rows @ unrelated.T).max(axis=0))
        count = len(changes.alive)
        mean = total / max(count, 1)
        return cls(changes.generation, count, mean, best, unrelated.astype(np.float64) @ mean)

    def grows_by(self, changes: Changes) -> bool:
        """Return whether the changes since are new images and nothing else."""
        return len(changes.alive) == self.count + len(changes.ids)

    @cached_property
    def background(self) -> Background:
        """What unrelated sentences reach."""
        return Background.of(self.best - self.centres)

    def standardised(self, scores: NDArray[np.floating], query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Standardise the scores (k,) of images for a query's vector (dim,)."""
        return self.background.standardised(scores - float(self.mean @ query))

    def to_json(self) -> str:
        """Return the text that an index stores."""
        arrays = {name: _packed(getattr(self, name)) for name in ("mean", "best", "centres")}
        return json.dumps({"generation": self.generation, "count": self.count, **arrays})

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Read what `to_json` returned; None if it is damaged, since it can be learned again."""
        try:
            found = json.loads(text)
            mean, best, centres = (_unpacked(found[name]) for name in ("mean", "best", "centres"))
            read = cls(int(found["generation"]), int(found["count"]), mean, best, centres)
        except (ValueError, TypeError, LookupError):
            return None
        whole = read.count > 0 and all(np.isfinite(each).all() for each in (mean, best, centres))
        return read if whole else None


class Gallery:
    """The background of a store's images: learned after an update, and read at every query. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: tuple[str | None, GalleryBackground | None] = (None, None)
        self._learned: GalleryBackground | None = None

    def background(self, run: Embedder) -> GalleryBackground:
        """Return what is stored; of an index that an earlier version made, learn it now.

        While another process updates the index, it is that of the images before.
        """
        with self._lock:
            stored = self._stored()
            if stored is not None:
                return stored
            if self._learned is None or self._learned.generation != self._store.generation():
                self._learned = self._up_to_date(run, self._learned)
            return self._learned

    def learn(self, run: Embedder) -> None:
        """Store the background of the images that there are now, unless it is stored already."""
        with self._lock:
            former = self._stored()
            now = self._up_to_date(run, former)
            if now is not former and now.count:
                with self._store.write() as writer:
                    writer.set_background(now.to_json())

    def _stored(self) -> GalleryBackground | None:
        text = self._store.background()
        if text != self._read[0]:
            self._read = text, GalleryBackground.from_json(text) if text else None
        return self._read[1]

    def _up_to_date(self, run: Embedder, former: GalleryBackground | None) -> GalleryBackground:
        changes = self._store.changes("image", since=former.generation if former else 0)
        if former is not None and former.grows_by(changes):
            if not len(changes.ids):
                return former
        else:
            former, changes = None, self._store.changes("image")
        return GalleryBackground.learned(
            changes, self._store.parts(changes.ids), unrelated_vectors(run), former
        )


def unrelated_vectors(run: Embedder) -> NDArray[np.float32]:
    """Embed the unrelated sentences as queries, (b, dim)."""
    return finite(run.embed_sentences(unrelated_sentences(), query=True))


def _packed(values: NDArray[np.float64]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _unpacked(text: str) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)
