"""The index and the runs behind the API, and the threads that they work in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import HTTPException, UploadFile

from seesay.grounding.ground import Grounder, can_ground
from seesay.runs.run import Run
from seesay.search.embedder import Embedder
from seesay.search.index import Index
from seesay.search.rerank import Reranked, Reranker
from seesay.search.store import Item
from seesay.web.limits import Limits, too_large

T = TypeVar("T")


class Lazy(Generic[T]):
    """What is loaded when it is first wanted: it costs memory, and most servers never do."""

    def __init__(self, load: Callable[[], T]) -> None:
        self._load = load
        self._loaded: T | None = None
        self._lock = threading.Lock()

    def get(self) -> T:
        """What was loaded.

        Raises:
            SeesayError: it cannot be loaded.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded


class LazyGrounder(Lazy[Grounder]):
    """The grounder of a run."""

    def __init__(self, run: str) -> None:
        super().__init__(lambda: Grounder(Run.load(run)))
        self._run = run

    def exists(self) -> bool:
        """Whether there is such a run."""
        return can_ground(self._run)


@dataclass(frozen=True)
class Service:
    """What every route needs; as many questions are worked on at once as there are cores, one re-ranked."""

    index: Index
    embedder: Embedder
    limits: Limits
    grounder: LazyGrounder
    reranker: Lazy[Reranker] | None
    _limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(os.cpu_count() or 1))
    # One at a time: it takes all cores, and where it must encode images first, plain questions go on.
    _reranking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    async def run(self, work: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
        """Does blocking work in a thread; a request that ran out of time does not wait for its end."""
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter or self._limiter)

    async def timed(self, work: Callable[[], T], limiter: CapacityLimiter | None = None) -> tuple[T, float]:
        """The same, with the milliseconds that the work itself took."""

        def clocked() -> tuple[T, float]:
            started = time.perf_counter()
            return work(), round((time.perf_counter() - started) * 1e3, 3)

        return await self.run(clocked, limiter)

    async def reranked(self, ask: Callable[[Reranker], Reranked]) -> tuple[Reranked, float]:
        """What the re-ranker gives, with the milliseconds; 422 where the server has none."""
        reranker = self.reranker
        if reranker is None:
            raise HTTPException(422, "Nothing re-ranks here: start seesay serve with --rerank RUN.")
        return await self.timed(lambda: ask(reranker.get()), self._reranking)

    async def uploaded(self, file: UploadFile) -> bytes:
        """An upload within the limit."""
        most = self.limits.upload_bytes
        data = await file.read(most + 1)
        if len(data) > most:
            raise too_large(most)
        return data

    def image(self, id_: int) -> tuple[Item, Path]:
        """An image of the index and its file; 404 where there is none, or it is gone."""
        item = self.index.item(id_)
        if item is None or item.kind != "image":
            raise HTTPException(404, f"No image {id_} in the index.")
        file = self.index.file_of(item)
        if file is None:
            raise HTTPException(404, f"The file of image {id_} is gone; update the index.")
        return item, file
