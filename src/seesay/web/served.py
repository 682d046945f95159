"""A served index: queries are answered in batches, recent ones from caches; updates run one at a time."""

from __future__ import annotations

import asyncio
import re
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from fastapi import HTTPException
from numpy.typing import NDArray

from seesay.data.images import Photo
from seesay.errors import SeesayError
from seesay.search import watch
from seesay.search.duplicates import near_duplicates
from seesay.search.index import Index
from seesay.search.query import Embedded, Indexed, PreparedQuery, Query, Text
from seesay.search.store import Facts, Item
from seesay.web import log_line
from seesay.web.answers import UpdateState

T = TypeVar("T")
V = TypeVar("V")
Q = TypeVar("Q")
A = TypeVar("A")
Vector = NDArray[np.float32]

MOST_AT_ONCE = 32
"""Maximum number of waiting queries that are embedded together."""

NO_FOLDER = "The index has no folder yet; add one with seesay index PHOTOS."
_UPLOAD = re.compile("upload:[0-9a-f]{32}")  # anything else is a sentence
_REMEMBERED = 1000  # vectors of uploads, and of queries, some kilobytes each


class Batches(Generic[Q, A]):
    """Answers queries in batches, without waiting for a batch to fill.

    Args:
        answer: answers a batch in order; an exception among the answers is raised for its query only.
        threads: the threads for batches.
        most: the maximum number of queries in a batch.
        seconds: the time after which the next batch starts, even if the last one is not finished.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Q]], Sequence[A | Exception]],
        threads: Executor,
        most: int = 32,
        seconds: float = 5.0,
    ) -> None:
        self._answer, self._threads, self._most, self._seconds = answer, threads, most, seconds
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._working: asyncio.Task[None] | None = None
        self.sizes: dict[int, int] = {}

    async def ask(self, question: Q) -> A:
        """Return the answer to a query."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                batch = [each for each in taken if not each[1].done()]  # some clients have left
                if batch:
                    self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
                    await asyncio.wait([asyncio.create_task(self._settle(batch))], timeout=self._seconds)
        finally:
            self._working = None

    async def _settle(self, batch: Sequence[tuple[Q, asyncio.Future[A]]]) -> None:
        questions = [question for question, _ in batch]
        answers: Sequence[A | Exception]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, questions)
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class Recent(Generic[T, V]):
    """A cache of the most recently used values. Thread-safe."""

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
        """Return a value, or None if it is no longer cached."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)


class Times(NamedTuple):
    """How often something happened, and when last, in seconds since 1970."""

    often: int = 0
    last: float = 0.0


class _StoppedError(Exception):
    """Raised within an update to stop it."""


class Updates:
    """Runs the updates of an index in a separate thread, and reports their progress.

    Args:
        index: to update.
        photos: folders of images to add to it.
        name: that clients call the index.
    """

    def __init__(self, index: Index, photos: Iterable[Path] = (), name: str = "") -> None:
        self._index, self._photos = index, [folder.resolve() for folder in photos]
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._state = UpdateState(index=name, running=False, done=0, total=0)
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self._skipped: dict[str, str] = {}
        self._outcomes = {"finished": Times(), "failed": Times()}

    @property
    def possible(self) -> bool:
        """Whether the index has a folder, or will get one."""
        return bool(self._folders())

    def start(self) -> bool:
        """Start an update; False if one is running."""
        with self._lock:
            if self._state.running:
                return False
            self._state = UpdateState(index=self._state.index, running=True, done=0, total=0)
            # A daemon, so that the server can stop at once; killing an update does no harm.
            self._thread = threading.Thread(target=self.run, name="seesay-update", daemon=True)
            self._thread.start()
            return True

    def watch(self) -> None:
        """Update the index now, and whenever one of its folders changes; until `stop`."""
        self._watcher = threading.Thread(target=self._watch, name="seesay-watch", daemon=True)
        self._watcher.start()

    def _watch(self) -> None:
        def folders() -> list[Path]:
            if found := self._folders():
                return found
            raise SeesayError(NO_FOLDER)

        def told(error: object) -> None:
            log_line(f"{self._index.folder}: {error}")

        for _ in watch.changes(folders, self._index.folder, told, self._stopped):
            while not self._update_after_others() and not self._stopped.is_set():
                told(f"trying again in {watch.TRY_AGAIN_SECONDS:g} seconds.")
                self._stopped.wait(watch.TRY_AGAIN_SECONDS)

    def _update_after_others(self) -> bool:
        """Update when no other update is running; return whether it succeeded."""
        while not self._stopped.is_set() and not self.start():
            self.join()
        self.join()
        return self.state().error is None

    def _folders(self) -> list[Path]:
        return list(dict.fromkeys([*(root.folder for root in self._index.roots()), *self._photos]))

    def faults(self) -> dict[str, str]:
        """Return the reasons why files could not be indexed, or folders not read, by path."""
        lasting = {path: reason for path, (*_, reason) in self._index.store.skipped().items()}
        return dict(sorted((self._skipped | lasting).items()))

    def state(self) -> UpdateState:
        """Return the progress of the update, or the outcome of the last one."""
        with self._lock:
            return self._state

    def outcomes(self) -> Mapping[str, Times]:
        """Return how many updates finished and failed, and when last; stopped ones are neither."""
        return dict(self._outcomes)

    def join(self, seconds: float | None = None) -> None:
        """Wait until no update is running, with a time limit."""
        if self._thread is not None:
            self._thread.join(seconds)

    def end(self) -> None:
        """Stop watching, and stop an update after its current batch; finished work is kept."""
        self._stopped.set()

    def wait_for_end(self, seconds: float) -> None:
        """Wait after `end` until all threads have ended, with a time limit for each."""
        self.join(seconds)
        if self._watcher is not None:
            self._watcher.join(seconds)

    def run(self) -> None:
        """Update the index now, in this thread."""
        ended: dict[str, object] = {"running": False}
        outcome = "finished"
        try:
            report = self._index.update_images(self._folders(), self._progress)
            self._skipped = dict(report.skipped)
            ended |= {"added": report.added + report.changed, "deleted": report.deleted}
            ended["seconds"] = report.seconds
        except _StoppedError:
            outcome = ""
            ended["error"] = "The update was stopped; start it again to go on."
        except Exception as error:
            known = isinstance(error, SeesayError)
            log_line(f"{self._index.folder}: {error}" if known else traceback.format_exc())
            outcome = "failed"
            ended["error"] = "The update failed; see the log of the server."  # which may name paths
        if outcome:
            self._outcomes[outcome] = Times(self._outcomes[outcome].often + 1, time.time())
        with self._lock:
            self._state = self._state.model_copy(update=ended)

    def _progress(self, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        with self._lock:
            self._state = self._state.model_copy(update={"done": done, "total": total})


class Served:
    """A served index, with its caches and updates.

    Args:
        name: the name of the index for clients.
        index: the index.
        threads: for queries.
        photos: folders of images for updates to add.
    """

    def __init__(
        self, name: str, index: Index, threads: ThreadPoolExecutor, photos: Sequence[Path] = ()
    ) -> None:
        self.name, self.index = name, index
        self.updates = Updates(index, photos, name)
        self._uploads: Recent[str, Vector] = Recent()  # so that further pages need no upload
        self._asked: Recent[tuple[str, int], PreparedQuery] = Recent()
        self._alike: tuple[tuple[int, float], list[list[int]]] | None = None
        self._lock = threading.Lock()
        self.queries: Batches[Query, PreparedQuery] = Batches(self._prepare, threads, MOST_AT_ONCE)

    def _prepare(self, queries: Sequence[Query]) -> Sequence[PreparedQuery | Exception]:
        """Correct and embed queries that are not cached.

        The last bits of a sentence's vector and its scores depend on its batch, but consecutive pages need
        identical scores.
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

    def remember(self, image: Photo) -> Embedded:
        """Embed an image; return a term for it, which `recalled` resolves for a while."""
        term = Embedded(f"upload:{image.key}", self.index.embed_image(image))
        self._uploads.put(term.name, term.vector)
        return term

    def recalled(self, query: Query) -> Query:
        """Return a query with terms such as upload:HASH resolved; 410 if an upload is no longer cached."""
        parts = (
            replace(part, term=self._recalled(part.term.text))
            if isinstance(part.term, Text) and _UPLOAD.fullmatch(part.term.text)
            else part
            for part in query.parts
        )
        return Query(tuple(parts))

    def _recalled(self, name: str) -> Embedded:
        vector = self._uploads.get(name)
        if vector is None:
            raise HTTPException(410, f"{name}: no longer available; upload the image again.")
        return Embedded(name, vector)

    def duplicates(self, similarity: float) -> list[list[Facts]]:
        """Return groups of near-duplicate images, computed once for each state of the index.

        Args:
            similarity: the least cosine of two images, rounded to hundredths.
        """
        similarity = round(similarity, 2)
        with self._lock:
            now = self.index.store.changes("image")
            state = (now.generation, similarity)
            if self._alike is None or self._alike[0] != state:
                found = near_duplicates(*self.index.store.vectors(now.ids.tolist()), similarity)
                self._alike = (state, found)
            groups = self._alike[1]
        facts = self.index.store.facts([id_ for group in groups for id_ in group])
        kept = [[facts[id_] for id_ in group if id_ in facts] for group in groups]
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


def _key(query: Query, generation: int) -> tuple[str, int]:
    """The cache key of a query: its text and the vectors of the images of the index in it."""
    of_index = any(isinstance(part.term, Indexed) for part in query.parts)
    return str(query), generation if of_index else 0
