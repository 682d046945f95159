"""Answers to queries, from the vectors of a store and what is known of its images."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import Photo
from seesay.errors import SeesayError
from seesay.runs.embedder import Embedder
from seesay.search.filters import Filter
from seesay.search.gallery import Galleries
from seesay.search.hits import Answer, Hit, Place
from seesay.search.judging import Judge
from seesay.search.prepared import PreparedQuery, embed_image, prepare_queries
from seesay.search.query import Indexed, Query
from seesay.search.sqlite_file import Kind
from seesay.search.store import Store
from seesay.search.stores import VectorStore


class Searcher:
    """Searches a store. Any thread may ask; each answer is of one generation, the newest at its time.

    Args:
        store: that has the items.
        near: what searches their vectors, by kind.
        galleries: what is known of the images.
        run: returns the embedder, which is loaded when it is first needed.
    """

    def __init__(
        self,
        store: Store,
        near: Mapping[Kind, VectorStore],
        galleries: Galleries,
        run: Callable[[], Embedder],
    ) -> None:
        self._store, self._near, self._run = store, near, run
        self._judge = Judge(store, galleries)
        self._lock = threading.Lock()

    def prepare(self, queries: Sequence[Query]) -> list[PreparedQuery | SeesayError]:
        """Correct and embed queries, see `prepare_queries`."""
        return prepare_queries(queries, self._run(), self._store)

    def search(
        self,
        query: str | Path | bytes | Query | PreparedQuery,
        k: int = 10,
        where: str | None = None,
        after: Place | None = None,
    ) -> Answer:
        """Return the `k` images that fit a query best, see `Index.search`."""
        among = self._near["image"].passing(Filter.parse(where)) if where and where.strip() else None
        asked = query if isinstance(query, PreparedQuery) else self._prepared(Query.of(query))
        own = {part.term.id for part in asked.query.parts if isinstance(part.term, Indexed)}
        found = self.nearest("image", asked.vector, k, among, after, own)
        # The best of the whole gallery is needed to judge sentences, and may not be on this page.
        is_elsewhere = bool(asked.query.sentences) and (among is not None or after is not None or bool(own))
        best = [hit.id for hit in self.nearest("image", asked.vector, 1)] if is_elsewhere else []
        return Answer(self._judged(found, asked, best), asked.unknown, found.end, asked.corrected)

    def sentences_for(self, image: Photo | bytes | str | Path, k: int = 10) -> Answer:
        """Return the `k` sentences that describe an image best, see `Index.sentences_for`."""
        return self.nearest("sentence", embed_image(self._run(), image, query=True), k)

    def nearest(
        self,
        kind: Kind,
        vector: NDArray[np.float32],
        k: int,
        among: object = None,
        after: Place | None = None,
        without: Collection[int] = (),
    ) -> Answer:
        """Return the `k` items of a kind whose vectors have the largest product with a vector (dim,).

        Args:
            kind: of the items.
            vector: (dim,).
            k: number of items.
            among: the only ones that count, as `VectorStore.passing` gives them.
            after: the end of the page before.
            without: ids of items that do not count.
        """
        if k < 1:
            raise SeesayError(f"k is {k}; ask for at least one result.")
        with self.using(kind) as near:
            near.refresh()
            one_more = k + len(without) + 1  # which tells that there are more
            ids, scores = near.search(vector, one_more, among, after)
        best = [pair for pair in zip(ids.tolist(), scores.tolist(), strict=True) if pair[0] not in without]
        items = self._store.items([id_ for id_, _ in best[:k]])
        hits = [
            Hit(item.id, score, item.path, item.text, item.width, item.height)
            for id_, score in best[:k]
            if (item := items.get(id_)) is not None  # another process may have deleted it since the refresh
        ]
        if len(best) <= k:
            return Answer(hits)
        last, score = best[k - 1]
        seen = (after.seen if after is not None else 0) + k + len(without)
        return Answer(hits, end=Place(score, last, seen))

    @contextmanager
    def using(self, kind: Kind) -> Iterator[VectorStore]:
        """Use what searches the vectors of a kind, alone if that must be."""
        near = self._near[kind]
        with nullcontext() if near.concurrent else self._lock:
            yield near

    def _prepared(self, query: Query) -> PreparedQuery:
        (found,) = self.prepare([query])
        if isinstance(found, SeesayError):
            raise found
        return found

    def _judged(self, hits: Sequence[Hit], asked: PreparedQuery, best: Sequence[int]) -> Sequence[Hit]:
        """The hits with their probabilities, and the objects in them that the query names.

        `best` is the nearest image of all, if it may not be among the hits.
        """
        if not hits:
            return hits
        run = self._run()
        chances = self._judge.probabilities(hits, asked, run, best)
        hits = [replace(hit, probability=each) for hit, each in zip(hits, chances.tolist(), strict=True)]
        if names := run.named(asked.query.wanted):
            objects = self._store.objects([hit.id for hit in hits], names)
            hits = [replace(hit, objects=tuple(objects.get(hit.id, ()))) for hit in hits]
        return hits
