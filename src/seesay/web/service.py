"""The index and the runs behind the API, and the threads that they work in."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

from fastapi import HTTPException, UploadFile

from seesay.encoders.images.encode import SHARED_SIDE
from seesay.grounding.ground import Grounder
from seesay.runs.run import Run
from seesay.search.hits import Answer
from seesay.search.index import Index
from seesay.search.rerank import Reranked, Reranker
from seesay.search.store import Item
from seesay.web.answers import Reranking
from seesay.web.decoding import Decoders
from seesay.web.limits import Limits, too_large

T = TypeVar("T")
_MAX_DECODERS = 4  # each may take more than a gigabyte


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
    """What every route needs.

    Queries, pictures, uploads and re-rankings have threads of their own, so that none waits for another kind.
    Work goes on when its client has left, and keeps its thread until it has ended.

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
        cores = os.cpu_count() or 1
        self._queries = ThreadPoolExecutor(cores, "seesay-query")
        self.pictures = ThreadPoolExecutor(cores, "seesay-picture")  # thumbnails, files, boxes
        self._uploads = ThreadPoolExecutor(min(_MAX_DECODERS, max(1, cores // 2)), "seesay-upload")
        # One at a time: re-ranking takes all cores, and plain queries go on while it encodes images.
        self._rerankings = ThreadPoolExecutor(1, "seesay-rerank")
        self._decoders = Decoders(limits.decode_seconds, limits.upload_pixels)

    def close(self) -> None:
        """Begin no more work, and close the index."""
        for threads in (self._queries, self.pictures, self._uploads, self._rerankings):
            threads.shutdown(wait=False, cancel_futures=True)
        self._decoders.close()
        self.index.close()

    async def run(self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
        """Do blocking work in a thread, by default one for queries.

        If the request runs out of time, work that has not begun is dropped.
        """
        return await asyncio.get_running_loop().run_in_executor(threads or self._queries, work)

    async def timed(
        self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None
    ) -> tuple[T, float]:
        """Do blocking work in a thread; return its result and the milliseconds it took."""

        def clocked() -> tuple[T, float]:
            started = time.perf_counter()
            return work(), round((time.perf_counter() - started) * 1e3, 3)

        return await self.run(clocked, threads)

    async def reranked(self, query: Callable[[Reranker], Reranked]) -> tuple[Answer, float, Reranking]:
        """Query the re-ranker; return hits, milliseconds and a summary. 422 if the server has none."""
        reranker = self.reranker
        if reranker is None:
            raise HTTPException(422, "No run re-ranks here; start seesay serve with --rerank RUN.")
        found, took = await self.timed(lambda: query(reranker.get()), self._rerankings)
        milliseconds = round(found.seconds * 1e3, 3)
        done = Reranking(compared=found.compared, left=len(found.issues), milliseconds=milliseconds)
        return found.hits, took, done

    async def uploaded(self, file: UploadFile, whole: bool = False) -> bytes:
        """Read an upload within the limits, and decode it in another process.

        Args:
            file: the upload.
            whole: keep all pixels; by default a JPEG is decoded as for encoding, at a fraction of its size.

        Returns:
            The image as PPM, which takes no time to decode.

        Raises:
            ImageError: it is no image, has too many pixels, or takes too long.
        """

        def work() -> bytes:
            limit = self.limits.upload_bytes
            data = file.file.read(limit + 1)
            if len(data) > limit:
                raise too_large(limit)
            return self._decoders.decode(data, None if whole else SHARED_SIDE)

        return await self.run(work, self._uploads)

    def image(self, id_: int) -> tuple[Item, Path]:
        """Return an image of the index and its file; 404 if either does not exist."""
        item = self.index.item(id_)
        if item is None or item.kind != "image":
            raise HTTPException(404, f"No image {id_} in the index.")
        file = self.index.file_of(item)
        if file is None:
            raise HTTPException(404, f"The file of image {id_} is gone; update the index.")
        return item, file
