"""The indexes and the runs behind the API, and the threads that they work in."""

from __future__ import annotations

import asyncio
import io
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from fastapi import HTTPException, UploadFile
from numpy.typing import NDArray
from PIL import Image

from seesay.data.decoders import Decoders, as_ppm
from seesay.data.images import content_key
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.errors import SeesayError
from seesay.grounding.ground import Grounder, can_ground
from seesay.runs.run import Run
from seesay.search.duplicates import near_duplicates
from seesay.search.hits import Answer, Place
from seesay.search.index import Index
from seesay.search.prepared import PreparedQuery
from seesay.search.query import Embedded, Indexed, Query, Sentence
from seesay.search.rerank import Reranked, Reranker, open_reranker
from seesay.search.store import Dated, Item
from seesay.web.answers import Reranking
from seesay.web.batches import Batches
from seesay.web.guard import too_large
from seesay.web.options import Options
from seesay.web.updates import Updates

T = TypeVar("T")
V = TypeVar("V")
Vector = NDArray[np.float32]

MOST_AT_ONCE = 32
"""Queries that are embedded together, of those that wait."""

_MAX_DECODERS = 4  # each may take more than a gigabyte
_UPLOAD = re.compile("upload:[0-9a-f]{32}")  # anything else is a sentence
_STOP_SECONDS = 5.0  # for the updates of all indexes to finish their batches
_REMEMBERED = 1000  # vectors of uploads, and of queries, some kilobytes each


class Lazy(Generic[T]):
    """Something that is loaded once, when it is first needed; many servers never need it."""

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


class Recent(Generic[T, V]):
    """What was computed for what was asked last, by its key; the oldest is forgotten. Thread-safe."""

    def __init__(self) -> None:
        self._values: OrderedDict[T, V] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, key: T, value: V) -> None:
        """Remember a value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > _REMEMBERED:
                self._values.popitem(last=False)

    def get(self, key: T) -> V | None:
        """Return a value; None if it is not remembered any more."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)


class Uploads:
    """The vectors of the last uploads, by their names, so that further pages need no upload. Thread-safe."""

    def __init__(self) -> None:
        self._recent: Recent[str, Vector] = Recent()

    def put(self, image: bytes, vector: Vector) -> Embedded:
        """Remember the vector (dim,) of an image; return the term that stands for it."""
        name = f"upload:{content_key(image)}"
        self._recent.put(name, vector)
        return Embedded(name, vector)

    def get(self, name: str) -> Embedded:
        """Return the term of a name; 410 if it is not remembered any more."""
        vector = self._recent.get(name)
        if vector is None:
            raise HTTPException(410, f"{name}: not remembered any more; upload the image again.")
        return Embedded(name, vector)


class Served:
    """An index that is served, and what is kept for it.

    Args:
        name: of the index, for clients.
        index: that answers.
        threads: for queries.
        photos: folders of images that an update adds to the index.
    """

    def __init__(
        self, name: str, index: Index, threads: ThreadPoolExecutor, photos: Sequence[Path] = ()
    ) -> None:
        self.name, self.index = name, index
        self.uploads, self.updates = Uploads(), Updates(index, photos)
        self._asked: Recent[tuple[str, int], PreparedQuery] = Recent()
        self._alike: tuple[tuple[int, float], list[list[int]]] | None = None
        self._lock = threading.Lock()
        self.queries: Batches[Query, PreparedQuery] = Batches(self._prepare, threads, MOST_AT_ONCE)

    def _prepare(self, queries: Sequence[Query]) -> Sequence[PreparedQuery | Exception]:
        """Correct and embed the queries that were not asked lately.

        The vector of a sentence depends on its batch in the last bits, and so do scores; a page goes on where
        the one before has ended only if its scores are the same.
        """
        generation = self.index.store.generation()
        asked = {_key(query, generation): query for query in queries}
        found: dict[tuple[str, int], PreparedQuery | Exception] = {
            key: known for key in asked if (known := self._asked.get(key)) is not None
        }
        new = [key for key in asked if key not in found]
        for key, prepared in zip(new, self.index.prepare([asked[key] for key in new]), strict=True):
            found[key] = prepared
            if not isinstance(prepared, Exception):
                self._asked.put(key, prepared)
        return [found[_key(query, generation)] for query in queries]

    def duplicates(self, similarity: float) -> list[list[Dated]]:
        """Return the images that look nearly alike, in groups; computed once for each state of the index.

        Args:
            similarity: the least cosine of two images, rounded to hundredths.
        """
        similarity = round(similarity, 2)
        with self._lock:
            changes = self.index.store.changes("image")
            state = (changes.generation, similarity)
            if self._alike is None or self._alike[0] != state:
                found = near_duplicates(*self.index.store.vectors(changes.ids.tolist()), similarity)
                self._alike = (state, found)
            groups = self._alike[1]
        dated = self.index.store.dated([id_ for group in groups for id_ in group])
        kept = [[dated[id_] for id_ in group if id_ in dated] for group in groups]
        return [group for group in kept if len(group) > 1]

    def image(self, id_: int) -> tuple[Item, Path]:
        """Return an image of the index and its file; 404 if either does not exist."""
        item = self.index.item(id_)
        if item is None or item.kind != "image":
            raise HTTPException(404, f"No image {id_} in the index.")
        file = self.index.file_of(item)
        if file is None:
            raise HTTPException(404, f"The file of image {id_} is gone; update the index.")
        return item, file


class Service:
    """What every route needs.

    Queries, pictures, comparisons, uploads and re-rankings have threads of their own, so that none waits for
    another kind. Work goes on when its client has left, and keeps its thread until it has ended.

    Args:
        indexes: to search, by the names that clients call them; the first is searched by default.
        options: how they are served; the runs that ground and re-rank are loaded when they are first needed.
    """

    def __init__(self, indexes: Mapping[str, Index], options: Options) -> None:
        self.options, limits = options, options.limits
        self.grounder = Lazy(lambda: Grounder(Run.load(options.ground_run)))
        rerank_run = options.rerank_run
        self.reranker = None if rerank_run is None else Lazy(lambda: open_reranker(rerank_run))
        cores = os.cpu_count() or 1
        self._queries = ThreadPoolExecutor(cores, "seesay-query")
        self.pictures = ThreadPoolExecutor(cores, "seesay-picture")  # thumbnails, files, boxes
        # Comparing all images with each other takes long; whoever asks again waits for the same answer.
        self.comparisons = ThreadPoolExecutor(1, "seesay-compare")
        self._uploads = ThreadPoolExecutor(min(_MAX_DECODERS, max(1, cores // 2)), "seesay-upload")
        # One at a time: re-ranking takes all cores, and plain queries go on while it encodes images.
        self._rerankings = ThreadPoolExecutor(1, "seesay-rerank")
        self._reranking = threading.Lock()
        self.decoders = Decoders(limits.decode_seconds)
        self.served = {
            name: Served(name, index, self._queries, options.photos.get(name, ()))
            for name, index in indexes.items()
        }
        self.is_ready = False

    def find(self, name: str | None) -> Served:
        """Return the index of that name, or the first; 404 if there is none of that name."""
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            raise HTTPException(404, f"No index {name!r} here; there are {', '.join(self.served)}.")
        return self.served[name]

    def warm_up(self) -> None:
        """Load what the first requests would wait for: indexes, then what grounds and re-ranks."""
        try:
            for served in self.served.values():
                with suppress(SeesayError):  # said to those who ask
                    served.index.search("a photograph", 1)
        finally:
            self.is_ready = True
        with suppress(SeesayError):
            if can_ground(self.options.ground_run):
                self.grounder.get().ground(_grey(), "grey", "a photograph")
        with suppress(SeesayError):
            if self.reranker is not None:
                for served in self.served.values():
                    self.reranker.get().search(served.index, "a photograph", 1)

    def close(self) -> None:
        """Begin no more work, and close the indexes."""
        until = time.monotonic() + _STOP_SECONDS
        for served in self.served.values():
            served.updates.end()
        for served in self.served.values():
            served.updates.wait_for_end(max(0.0, until - time.monotonic()))
        pools = (self._queries, self.pictures, self.comparisons, self._uploads, self._rerankings)
        for threads in pools:
            threads.shutdown(wait=False, cancel_futures=True)
        self.decoders.close()
        for served in self.served.values():
            served.index.close()

    async def run(self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
        """Do blocking work in a thread, by default one for queries.

        If the request runs out of time, work that has not begun is dropped.
        """
        return await asyncio.get_running_loop().run_in_executor(threads or self._queries, work)

    async def timed(
        self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None
    ) -> tuple[T, float]:
        """Do blocking work in a thread; return its result and the milliseconds it took."""
        return await self.run(lambda: clocked(work), threads)

    async def search(
        self, served: Served, query: Query, limit: int, where: str, after: Place | None
    ) -> tuple[Answer, float]:
        """Search an index; return hits and the milliseconds it took."""
        started = time.perf_counter()
        prepared = await served.queries.ask(query)
        found = await self.run(lambda: served.index.search(prepared, limit, where, after))
        return found, round((time.perf_counter() - started) * 1e3, 3)

    async def reranked(self, query: Callable[[Reranker], Reranked]) -> tuple[Answer, float, Reranking]:
        """Query the re-ranker; return hits, milliseconds and a summary. 422 if the server has none."""
        reranker = self.find_reranker()
        return await self.run(lambda: self.rerank(reranker, query), self._rerankings)

    def find_reranker(self) -> Lazy[Reranker]:
        """Return the re-ranker; 422 if the server has none."""
        if self.reranker is None:
            raise HTTPException(422, "No run re-ranks here; start seesay serve with --rerank RUN.")
        return self.reranker

    def rerank(
        self, reranker: Lazy[Reranker], query: Callable[[Reranker], Reranked]
    ) -> tuple[Answer, float, Reranking]:
        """Query the re-ranker in this thread, when no other does; see `reranked`."""
        with self._reranking:
            found, took = clocked(lambda: query(reranker.get()))
        milliseconds = round(found.seconds * 1e3, 3)
        done = Reranking(compared=found.compared, left=len(found.issues), milliseconds=milliseconds)
        return found.hits, took, done

    async def with_upload(self, file: UploadFile, work: Callable[[bytes], T], whole: bool = False) -> T:
        """Decode an upload in another process, then work with it in the same thread.

        So there are never more decoded images in memory than threads for them, however many wait.

        Args:
            file: the upload.
            work: takes the image as PPM, which needs no more decoding, and returns what this returns.
            whole: keep all pixels; by default a JPEG is decoded as for encoding, at a fraction of its size.

        Raises:
            ImageError: it is no image, has too many pixels, or takes too long.
        """

        def decode_and_work() -> T:
            limit = self.options.limits.upload_bytes
            data = file.file.read(limit + 1)
            if len(data) > limit:
                raise too_large(limit)
            side, most = None if whole else SHARED_SIDE, self.options.limits.upload_pixels
            return work(as_ppm(self.decoders.decode(data, "the image", side, most)))

        return await self.run(decode_and_work, self._uploads)

    async def remembered(self, served: Served, file: UploadFile) -> Embedded:
        """Embed an uploaded image, and remember its vector."""

        def embed(image: bytes) -> Embedded:
            return served.uploads.put(image, served.index.embed_image(image))

        return await self.with_upload(file, embed)


def clocked(work: Callable[[], T]) -> tuple[T, float]:
    """Do work; return its result and the milliseconds it took."""
    started = time.perf_counter()
    return work(), round((time.perf_counter() - started) * 1e3, 3)


def _key(query: Query, generation: int) -> tuple[str, int]:
    """What the vector of a query depends on: its text and, if it names images of the index, their vectors."""
    of_index = any(isinstance(part.term, Indexed) for part in query.parts)
    return str(query), generation if of_index else 0


def recalled(served: Served, query: Query) -> Query:
    """Return a query whose terms such as upload:HASH are remembered uploads; 410 if one is forgotten."""
    return Query(
        tuple(
            replace(part, term=served.uploads.get(part.term.text))
            if isinstance(part.term, Sentence) and _UPLOAD.fullmatch(part.term.text)
            else part
            for part in query.parts
        )
    )


def _grey() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (160, 120), "grey").save(out, "PNG")
    return out.getvalue()
