"""What an index knows of its images as a gallery, against which the score of each is judged.

A sample of the images stands for all: the scores of a query over it tell what images get that do not show
what is asked for (`seesay.runs.mixture`). The sample is chosen when images are indexed, and its vectors are
read when the index is first searched.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seesay.runs.calibration import USUAL_UNIT, unrelated_sentences, usual_unit
from seesay.runs.embedder import Embedder, Vectors
from seesay.search.store import Store
from seesay.search.update import finite

_SAMPLE = 1000  # images: a query's scores over them are fitted in milliseconds


@dataclass(frozen=True)
class Gallery:
    """What scores are judged against.

    Attributes:
        count: number of images.
        sample: ids of some of them, (s,).
        unit: standard deviation of the scores of an unrelated sentence over the images.
    """

    count: int
    sample: NDArray[np.int64]
    unit: float

    def to_json(self) -> str:
        """Return the text that an index stores."""
        return json.dumps({"count": self.count, "unit": self.unit, "sample": self.sample.tolist()})

    @classmethod
    def from_json(cls, text: str) -> Self | None:
        """Read what `to_json` returned; None if it is damaged, since it can be learned again."""
        try:
            found = json.loads(text)
            sample = np.array(found["sample"], np.int64).ravel()[:_SAMPLE]
            read = cls(int(found["count"]), sample, float(found["unit"]))
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None
        return read if read.count > 0 and 0 < read.unit < np.inf else None


class Galleries:
    """The gallery of a store's images: learned after an update, and read when it is searched. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read: tuple[str | int, Gallery] | None = None
        self._vectors = np.zeros((0, store.dim), np.float32)

    def current(self, run: Embedder) -> tuple[Gallery, Vectors]:
        """Return the gallery that is stored, and the vectors (s, dim) of its sample.

        While another process updates the index, it is that of the images before.
        """
        with self._lock:
            text = self._store.background()
            version = text or self._store.generation()
            if self._read is None or self._read[0] != version:
                gallery = (Gallery.from_json(text) if text else None) or self._learned(run, *self._sampled())
                self._vectors = self._store.vectors(gallery.sample.tolist())[1].astype(np.float32)
                self._read = version, gallery
            return self._read[1], self._vectors

    def learn(self, run: Embedder) -> None:
        """Store what there is to know of the images that there are now, unless it is stored already."""
        with self._lock:
            text = self._store.background()
            former = Gallery.from_json(text) if text else None
            count, sample = self._sampled()
            if count and not (former and former.count == count and np.array_equal(former.sample, sample)):
                learned = self._learned(run, count, sample).to_json()
                with self._store.write() as writer:
                    writer.set_background(learned)

    def _sampled(self) -> tuple[int, NDArray[np.int64]]:
        """Return how many images there are, and the ids of the sample, evenly spaced among them."""
        ids = self._store.changes("image").alive
        places = np.linspace(0, len(ids) - 1, min(len(ids), _SAMPLE)).astype(np.int64)
        return len(ids), ids[places]

    def _learned(self, run: Embedder, count: int, sample: NDArray[np.int64]) -> Gallery:
        vectors = self._store.vectors(sample.tolist())[1].astype(np.float32)
        unit = usual_unit(vectors @ unrelated_vectors(run).T) if len(vectors) else USUAL_UNIT
        return Gallery(count, sample, unit)


def unrelated_vectors(run: Embedder) -> Vectors:
    """Embed the unrelated sentences as queries, (b, dim)."""
    return finite(run.embed_sentences(unrelated_sentences(), query=True))
