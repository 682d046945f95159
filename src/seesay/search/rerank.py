"""Re-ranking: the shortlist that an index answers with, put in order by a run that looks at every pair."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from seesay.data.corpus import CorpusImage
from seesay.data.sources import FileSource
from seesay.encoders.images.base import Arrays
from seesay.encoders.images.encode import encode_images, fill_stores
from seesay.errors import ImageError, SeesayError
from seesay.runs.inputs import stores_folder
from seesay.runs.run import (
    Run,
    check_one_score,
    join_features,
    recipe_encoders,
    run_folder,
    run_recipe,
)
from seesay.runs.sentences import prepare_sentences
from seesay.search.embedder import Embedder
from seesay.search.index import Hit, Index
from seesay.search.store import Item

SHORTLIST = 100


@dataclass(frozen=True, slots=True)
class Reranked:
    """A shortlist in its new order.

    Attributes:
        hits: those that were re-ranked, best first, with their place in the shortlist; behind them those
            whose image could not be looked at, as the shortlist had them.
        compared: how many were re-ranked, all of the shortlist counted.
        encoded: images whose features were computed for it; they are kept for the next question.
        left: what was wrong with the images that could not be looked at.
        seconds: what the re-ranking took, without the search for the shortlist.
    """

    hits: list[Hit]
    compared: int
    encoded: int
    left: list[ImageError]
    seconds: float


class Reranker:
    """Puts an index's shortlists in order by the scores of a run. Any thread may ask it.

    Args:
        run: usually of a pair matcher, but any that scores whole images will do, such as an embedding
            whose features are too costly for all images.
        shortlist: hits that are re-ranked, more where more are asked for.

    Raises:
        SeesayError: the run grounds phrases, was trained on features whose encoder is not here, or is of a
            gated fusion.
    """

    def __init__(self, run: Run, shortlist: int = SHORTLIST) -> None:
        check_one_score(run)
        self.run = run
        self.shortlist = shortlist
        self._encoders = run.encoders
        self._stores = fill_stores(self._encoders, stores_folder(), ()).stores
        self._lock = threading.Lock()

    def search(self, index: Index, sentence: str, embedder: Embedder, k: int = 10) -> Reranked:
        """The `k` images that a sentence describes best, out of the shortlist that the index gives.

        Raises:
            SeesayError: as of `Index.search`; or the run's weights are damaged.
        """
        shortlist = index.search(sentence, embedder, max(k, self.shortlist))
        started = time.perf_counter()
        places, features, encoded, left = self._features(index, shortlist)
        scores = self._scores(features, [sentence])[:, 0]
        hits = reordered(shortlist, places, scores)[:k]
        return Reranked(hits, len(places), encoded, left, time.perf_counter() - started)

    def sentences_for(self, index: Index, image: bytes, embedder: Embedder, k: int = 10) -> Reranked:
        """The `k` sentences that describe an encoded image best, out of the index's shortlist.

        Raises:
            ImageError: it cannot be decoded.
            SeesayError: as of `Index.sentences_for`; or the run's weights are damaged.
        """
        shortlist = index.sentences_for(image, embedder, max(k, self.shortlist))
        started = time.perf_counter()
        encoded = encode_images(self._encoders, [image], ["the image"])
        features = join_features(self.run.recipe, encoded.arrays)
        scores = self._scores(features, [hit.text or "" for hit in shortlist])[0]
        hits = reordered(shortlist, range(len(shortlist)), scores)[:k]
        return Reranked(hits, len(shortlist), 0, [], time.perf_counter() - started)

    def _scores(self, features: NDArray[np.float32], sentences: Sequence[str]) -> NDArray[np.float32]:
        """The run's score matrix (n, m)."""
        if not len(features) or not sentences:
            return np.zeros((len(features), len(sentences)), np.float32)
        prepared = prepare_sentences(sentences, self.run.vocabulary, self.run.sentence_encoder)
        scores = self.run.scores(features, prepared)
        if not np.isfinite(scores).all():
            raise SeesayError(f"{self.run.name}: a score is not finite; its weights are damaged.")
        return scores

    def _features(
        self, index: Index, hits: Sequence[Hit]
    ) -> tuple[list[int], NDArray[np.float32], int, list[ImageError]]:
        """The places of the hits whose features can be had, those features (n, d), and how it went."""
        items = index.store.items([hit.id for hit in hits])
        known = {place: items[hit.id] for place, hit in enumerate(hits) if hit.id in items}
        with self._lock:
            keys = {place: item.key for place, item in known.items() if self._holds(item.key)}
            unseen = {place: item for place, item in known.items() if place not in keys}
            more, encoded, left = self._encode(index, unseen)
            keys |= more
            places = sorted(keys)
            wanted = [keys[place] for place in places]
            arrays: list[Arrays] = [
                {name: store.read(wanted, name) for name in self.run.recipe.arrays} for store in self._stores
            ]
        return places, join_features(self.run.recipe, arrays), encoded, left

    def _holds(self, key: str) -> bool:
        return all(key in store for store in self._stores)

    def _encode(
        self, index: Index, items: Mapping[int, Item]
    ) -> tuple[dict[int, str], int, list[ImageError]]:
        """Fills the stores; content keys by place, how many were encoded, and what the others lacked."""
        files = {place: index.file_of(item) for place, item in items.items()}
        gone = [
            ImageError(f"{items[place].path}: the file is gone; update the index.")
            for place, file in files.items()
            if file is None
        ]
        images = {
            place: CorpusImage(str(items[place].path), "", FileSource(file))
            for place, file in files.items()
            if file is not None
        }
        if not images:
            return {}, 0, gone
        report = fill_stores(self._encoders, stores_folder(), list(images.values()))
        self._stores = report.stores
        # Of a file that changed since it was indexed the key is another, and what it shows now counts.
        keys = {place: key for place, key in zip(images, report.keys, strict=True) if key is not None}
        return keys, report.encoded, gone + report.errors


def open_reranker(name: str, shortlist: int = SHORTLIST) -> Reranker:
    """The re-ranker by the run of that name."""
    return Reranker(Run.load(name), shortlist)


def check_reranks(name: str) -> None:
    """See that a run of that name can re-rank, without reading its weights.

    Raises:
        SeesayError: there is none, it grounds phrases, or its encoder is not here.
    """
    recipe_encoders(run_recipe(run_folder(name)))


def reordered(shortlist: Sequence[Hit], places: Sequence[int], scores: NDArray[np.float32]) -> list[Hit]:
    """The hits at `places` by their new `scores` (n,), best first, then the others; ties keep the order."""
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
