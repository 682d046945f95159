"""Re-ranking: a run that scores every pair orders the shortlist that an index returns."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.decoders import read_apart
from seesay.data.images import Photo
from seesay.data.sources import FileSource
from seesay.encoders.images.base import Arrays
from seesay.encoders.images.encode import encode_images, fill_stores
from seesay.encoders.stores import stores_folder
from seesay.errors import ImageError, QueryError, SeesayError
from seesay.runs.folders import run_config, run_folder
from seesay.runs.images import join_features, recipe_encoders
from seesay.runs.run import Run, check_one_score
from seesay.search.hits import Answer, Hit
from seesay.search.index import Index
from seesay.search.preparing import PreparedQuery
from seesay.search.query import Query

SHORTLIST = 100


@dataclass(frozen=True, slots=True)
class Reranked:
    """A re-ranked shortlist.

    Attributes:
        hits: the re-ranked hits, best first, then the others in their old order.
        compared: number of hits that were re-ranked.
        encoded: the number of images whose features were computed and stored.
        issues: why the other images could not be re-ranked.
        seconds: time of the re-ranking, without the search for the shortlist.
    """

    hits: Answer
    compared: int
    encoded: int
    issues: list[ImageError]
    seconds: float


class Reranker:
    """Orders an index's shortlists by the scores of a run. Thread-safe.

    Args:
        run: a run that scores whole images, or its name; usually a pair matcher, or an embedding matcher
            whose features are too costly to compute for all images.
        shortlist: the number of hits to re-rank, or `k` if that is larger.

    Raises:
        SeesayError: the run does not exist, grounds phrases, was trained on precomputed features, or is
            asymmetric.
    """

    def __init__(self, run: str | Run, shortlist: int = SHORTLIST) -> None:
        self.run, self.shortlist = Run.load(run) if isinstance(run, str) else run, shortlist
        check_one_score(self.run)
        self._encoders = self.run.encoders
        self._stores = fill_stores(self._encoders, stores_folder(), ()).stores
        self._lock = threading.Lock()

    def search(
        self,
        index: Index,
        query: str | Path | bytes | Query | PreparedQuery,
        k: int = 10,
        where: str | None = None,
    ) -> Reranked:
        """Return the `k` images of the index's shortlist that a sentence describes best.

        Arguments are those of `Index.search`.

        Raises:
            QueryError: see `Index.search`, or the query is not a single sentence.
            SeesayError: the run's weights are damaged.
        """
        asked = query.query if isinstance(query, PreparedQuery) else Query.of(query)
        if len(asked.parts) > 1 or not asked.sentences:
            raise QueryError(
                "Re-ranking needs a query of a single sentence; search without it, or shorten the query."
            )
        ready = query if isinstance(query, PreparedQuery) else index.prepare(asked)
        shortlist = index.search(ready, max(k, self.shortlist), where)
        started = time.perf_counter()
        with self._lock:
            keys, encoded, issues = self._keys(index, shortlist)
            names, contents = self.run.config.arrays, list(keys.values())
            stored: list[Arrays] = [
                {name: store.read(contents, name) for name in names} for store in self._stores
            ]
        features = join_features(self.run.config.arrays, stored)
        hits = reordered(shortlist, list(keys), self._scores(features, ready.query.sentences)[:, 0])
        return Reranked(
            shortlist.with_hits(hits[:k]), len(keys), encoded, issues, time.perf_counter() - started
        )

    def sentences_for(self, index: Index, image: bytes | Photo, k: int = 10) -> Reranked:
        """Return the `k` sentences of the index's shortlist that describe an image best.

        Raises:
            ImageError: the image cannot be decoded.
            SeesayError: the run's weights are damaged.
        """
        shortlist = index.sentences_for(image, max(k, self.shortlist))
        started = time.perf_counter()
        given = image.pixels if isinstance(image, Photo) else image
        encoded = encode_images(self._encoders, [given], ["the image"])
        features = join_features(self.run.config.arrays, encoded.checked())
        scores = self._scores(features, [hit.text or "" for hit in shortlist])[0]
        hits = reordered(shortlist, range(len(shortlist)), scores)
        return Reranked(shortlist.with_hits(hits[:k]), len(shortlist), 0, [], time.perf_counter() - started)

    def _scores(self, features: NDArray[np.float32], sentences: Sequence[str]) -> NDArray[np.float32]:
        """The run's score matrix (n, m)."""
        if not len(features) or not sentences:
            return np.zeros((len(features), len(sentences)), np.float32)
        scores = self.run.score_prepared(features, self.run.prepare(sentences))
        if not np.isfinite(scores).all():
            raise SeesayError(f"{self.run.name}: a score is not finite; its weights are damaged.")
        return scores

    def _keys(self, index: Index, hits: Sequence[Hit]) -> tuple[dict[int, str], int, list[ImageError]]:
        """Content keys by place of hits with stored features; missing features are computed first."""
        items = index.store.items([hit.id for hit in hits])
        keys: dict[int, str] = {}
        unseen: dict[int, CorpusImage] = {}
        issues: list[ImageError] = []
        for place, hit in enumerate(hits):
            item = items.get(hit.id)
            if item is None:
                continue
            if all(item.key in store for store in self._stores):
                keys[place] = item.key
            elif file := index.file_of(item):
                unseen[place] = CorpusImage(str(item.path), "", FileSource(file))
            else:
                issues.append(ImageError(f"{item.path}: the file is missing; update the index."))
        if not unseen:
            return keys, 0, issues
        images, folder = list(unseen.values()), stores_folder()
        report = fill_stores(self._encoders, folder, images, lambda *photo: read_apart(*photo).pixels)
        self._stores = report.stores
        # A file that has changed since it was indexed has another key, and is re-ranked as it is now.
        keys |= {place: key for place, key in zip(unseen, report.keys, strict=True) if key is not None}
        return dict(sorted(keys.items())), report.encoded, issues + report.errors


def check_reranks(name: str) -> None:
    """Raise a SeesayError for a run that `Reranker` refuses, without loading its weights."""
    config = run_config(run_folder(name))
    check_one_score(config)
    recipe_encoders(config)


def reordered(shortlist: Sequence[Hit], places: Sequence[int], scores: NDArray[np.float32]) -> list[Hit]:
    """Return the hits at `places` by their new `scores` (n,), then the others; ties keep their order."""
    listed = set(places)
    best = [
        replace(
            shortlist[places[i]],
            score=float(scores[i]),
            shortlist_score=shortlist[places[i]].score,
            shortlist_rank=places[i] + 1,
        )
        for i in np.argsort(-scores, kind="stable")
    ]
    return best + [hit for place, hit in enumerate(shortlist) if place not in listed]
