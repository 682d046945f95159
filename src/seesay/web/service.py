"""The index and the runs behind the API, and the threads that they work in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException, UploadFile

from seesay.grounding.ground import Grounder
from seesay.runs.run import Run
from seesay.search.index import Hit, Index
from seesay.search.rerank import Reranked, Reranker
from seesay.search.store import Item
from seesay.web.answers import Reranking
from seesay.web.limits import Limits, too_large

T = TypeVar("T")


class Lazy(Generic[T]):
    """Something that is loaded once, when it is first needed; most servers never need it."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._loaded: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return it; raise what `load` raises."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


class Service:
    """What every route needs. It works on one query a core at a time, and on one re-ranking.

    Args:
        index: to search.
        limits: of one request.
        ground_run: the name of the run that grounds phrases; it need not exist.
        reranker: orders the best results of those who ask for it, if set.
    """

    def __init__(
        self, index: Index, limits: Limits, ground_run: str, reranker: Lazy[Reranker] | None = None
    ) -> None:
        self.index, self.limits, self.ground_run, self.reranker = index, limits, ground_run, reranker
        self.grounder = Lazy(lambda: Grounder(Run.load(ground_run)))
        self._queries = CapacityLimiter(os.cpu_count() or 1)
        # One at a time: re-ranking takes all cores, and plain queries go on while it encodes images.
        self._rerankings = CapacityLimiter(1)

    async def run(self, work: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
        """Do blocking work in a thread, which a request that has run out of time does not wait for."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter or self._queries)

    async def timed(self, work: Callable[[], T], limiter: CapacityLimiter | None = None) -> tuple[T, float]:
        """Do blocking work in a thread; return its result and the milliseconds it took."""

        def clocked() -> tuple[T, float]:
            started = time.perf_counter()
            return work(), round((time.perf_counter() - started) * 1e3, 3)

        return await self.run(clocked, limiter)

    async def reranked(self, query: Callable[[Reranker], Reranked]) -> tuple[list[Hit], float, Reranking]:
        """Query the re-ranker; return hits, milliseconds and a summary. 422 if the server has none."""
        reranker = self.reranker
        if reranker is None:
            raise HTTPException(422, "No run re-ranks here; start seesay serve with --rerank RUN.")
        found, took = await self.timed(lambda: query(reranker.get()), self._rerankings)
        milliseconds = round(found.seconds * 1e3, 3)
        done = Reranking(compared=found.compared, left=len(found.issues), milliseconds=milliseconds)
        return found.hits, took, done

    async def uploaded(self, file: UploadFile) -> bytes:
        """Read an upload within the limit."""
        limit = self.limits.upload_bytes
        data = await file.read(limit + 1)
        if len(data) > limit:
            raise too_large(limit)
        return data

    def image(self, id_: int) -> tuple[Item, Path]:
        """Return an image of the index and its file; 404 if either does not exist."""
        item = self.index.item(id_)
        if item is None or item.kind != "image":
            raise HTTPException(404, f"No image {id_} in the index.")
        file = self.index.file_of(item)
        if file is None:
            raise HTTPException(404, f"The file of image {id_} is gone; update the index.")
        return item, file
