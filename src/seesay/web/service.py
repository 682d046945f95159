"""The served indexes with their caches and updates, the run that grounds, and the threads behind the API."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from fastapi import HTTPException, UploadFile

from seesay.arrays import Vector
from seesay.data.decoders import Decoders
from seesay.data.images import DecodedImage
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.errors import QueryError, SeesayError
from seesay.grounding import GROUND_RUN, Grounder, Grounding, can_ground, load_grounder
from seesay.search.index import Index
from seesay.search.photo import Photo
from seesay.search.query import Embedded, Image, Indexed, Part, PreparedQuery, Query, Term, Text, embed_image
from seesay.search.watch import DEBOUNCE, follow
from seesay.web import log_line
from seesay.web.answers import UpdateState
from seesay.web.security import Limits, too_large

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_UPLOAD = re.compile("upload:[0-9a-f]{32}")  # anything else is a sentence
_REMEMBERED = 1000  # vectors of uploads, and as many of queries, of some kilobytes each
_MAX_DECODERS = 4  # each may take more than a gigabyte
_FILES_AT_ONCE = 16
_STOP_SECONDS = 5.0  # for the updates of all indexes to finish their batches, and for closing them


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How indexes are served.

    Attributes:
        hosts: accepted host names, besides numeric addresses.
        prefix: the prefix of all paths, such as "/photos", for a server behind a proxy.
        proxies: addresses or networks of proxies, whose forwarding headers are trusted.
        token_file: a file of tokens, one of which clients must send, see `AccessTokens`; None for no
            authentication.
        ground_run: the run that grounds phrases.
        warm_up: load all runs in the background at the start, rather than on first use.
        access_log: write a line of JSON for each request to standard output.
        photos: folders of images to add to indexes at the start, by the name of the index.
        watch: update the indexes now, and when their folders change.
        limits: of requests.
    """

    hosts: Collection[str] = ("localhost",)
    prefix: str = ""
    proxies: Collection[str] = ()
    token_file: Path | None = None
    ground_run: str = GROUND_RUN
    warm_up: bool = False
    access_log: bool = False
    photos: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    watch: bool = False
    limits: Limits = field(default_factory=Limits)


class _StoppedError(Exception):
    """Raised within an update to stop it."""


class Updates:
    """Runs the updates of an index in a separate thread, and reports their progress.

    Args:
        index: the index to update.
        photos: folders of images to add to it.
        name: the name of the index for clients.

    Attributes:
        failed: whether the last update failed.
    """

    def __init__(self, index: Index, photos: Iterable[Path], name: str) -> None:
        self._index, self._photos = index, [folder.resolve() for folder in photos]
        self._alone = threading.Lock()  # held by an update
        self._state = UpdateState(index=name)
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self._skipped: dict[str, str] = {}
        self.failed = False

    def start(self) -> bool:
        """Start an update and return True; return False if one is running."""
        if not self._alone.acquire(blocking=False):
            return False
        self._state = UpdateState(index=self._state.index, running=True)
        # A daemon, so that the server can stop at once; an update may be killed at any time.
        threading.Thread(target=self._update, name="seesay-update", daemon=True).start()
        return True

    def watch(self) -> None:
        """Update the index now and whenever one of its folders changes, until `end`."""

        def told(error: object) -> None:  # its state says what an update did
            log_line(f"{self._index.place}: {error}")

        given = (self._index, told, self._stopped, DEBOUNCE, self.run, self._photos)
        self._watcher = threading.Thread(target=follow, args=given, name="seesay-watch", daemon=True)
        self._watcher.start()

    def folders(self) -> list[Path]:
        """Return the folders of the index, and those to be added."""
        return self._index.folders(self._photos)

    def faults(self) -> dict[str, str]:
        """Return why files were not indexed, or their text or folders not read, by path."""
        return dict(sorted((self._skipped | self._index.store.faults()).items()))

    @property
    def running(self) -> bool:
        """Whether an update is running."""
        return self._state.running

    def state(self) -> UpdateState:
        """Return the progress of the update, or the outcome of the last one."""
        now = {"images": self._index.count("image"), "generation": self._index.store.generation()}
        return self._state.model_copy(update=now)

    def join(self, seconds: float) -> None:
        """Wait until no update is running and, after `end`, nothing is watched; each at most that long."""
        if self._alone.acquire(timeout=seconds):
            self._alone.release()
        if self._watcher is not None and self._stopped.is_set():
            self._watcher.join(seconds)

    def end(self) -> None:
        """Stop watching, and stop an update after its current batch; finished work is kept."""
        self._stopped.set()

    def run(self) -> None:
        """Update the index in this thread, after an update that is running.

        Raises:
            SeesayError: the update failed.
        """
        self._alone.acquire()
        self._state = UpdateState(index=self._state.index, running=True)
        self._update()
        if self.failed:
            raise SeesayError("The update failed.")

    def _update(self) -> None:
        """Update, and release the lock, which the caller has acquired."""
        ended: dict[str, object] = {"running": False}
        self.failed = False
        try:
            # Somebody may have added a root since the server started, which would count as confirmed below.
            self._index.check_roots()
            report = self._index.update_images(self.folders(), self._progress)
            self._skipped = dict(report.skipped)
            ended |= {"added": report.added + report.changed, "deleted": report.deleted}
            ended["seconds"] = report.seconds
            if report.added or report.changed or report.deleted:
                log_line(
                    f"{self._index.place}: {report.added} added, {report.changed} changed, "
                    f"{report.deleted} deleted in {report.seconds:.0f} s"
                )
        except _StoppedError:
            ended["error"] = "The update was stopped; start it again to go on."
        except Exception as error:
            known = isinstance(error, SeesayError)
            for line in [str(error)] if known else traceback.format_exc().splitlines():
                log_line(f"{self._index.place}: {line}")
            self.failed = True
            ended["error"] = "The update failed; see the log of the server."  # which may name paths
        finally:
            self._state = self._state.model_copy(update=ended)
            self._alone.release()

    def _progress(self, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._state = self._state.model_copy(update={"done": done, "total": total})


class Served:
    """A served index, with its caches and updates.

    Args:
        name: the name of the index for clients.
        index: the index.
        photos: folders of images that updates add.
    """

    def __init__(self, name: str, index: Index, photos: Sequence[Path]) -> None:
        self.name, self.index = name, index
        self.updates = Updates(index, photos, name)
        self._uploads: dict[str, Vector] = {}  # so that further pages need no upload
        self._prepared: dict[tuple[str, int], PreparedQuery] = {}
        self._stacks: tuple[int, list[list[Photo]]] | None = None  # with the generation

    def parsed(self, text: str) -> Query:
        """Parse a query of a client, in which upload:HASH is an image that was uploaded lately.

        Raises:
            QueryError: the query is malformed, or names a file of the server.
            HTTPException: 410 if an upload is no longer cached.
        """
        parts = Query.parse(text).parts
        return Query(tuple(replace(part, term=self._term(part, len(parts) == 1)) for part in parts))

    def _term(self, part: Part, alone: bool) -> Term:
        term = part.term
        if isinstance(term, Image):
            name = str(term.source)
            if alone and Path(name).suffix and not re.search(r"[/\\]", name):
                return Text(name)  # of a file, such as IMG_2021.jpg, which is looked for in the index
            raise QueryError(
                f"{term}: the server opens no files; upload the image or name its id. "
                'Put a sentence that ends like the name of an image in "quotes".'
            )
        if not (isinstance(term, Text) and _UPLOAD.fullmatch(term.text)):
            return term
        if term.text not in self._uploads:
            raise HTTPException(410, f"{term.text}: no longer available; upload the image again.")
        return Embedded(term.text, self._uploads[term.text])

    def prepared(self, query: Query) -> PreparedQuery:
        """Correct and embed a query, unless it was asked lately, as for a further page.

        Raises:
            SeesayError: the query cannot be answered.
        """
        of_index = any(isinstance(part.term, Indexed) for part in query.parts)
        key = str(query), self.index.store.generation() if of_index else 0
        if (known := self._prepared.get(key)) is None:
            known = self.index.prepare(query)
            _remember(self._prepared, key, known)
        return known

    def remember(self, image: DecodedImage) -> str:
        """Embed an uploaded image; return a term for it, which `parsed` knows for a while."""
        name = f"upload:{image.key}"
        _remember(self._uploads, name, embed_image(self.index.run, image))
        return name

    def stacks(self) -> list[list[Photo]]:
        """Return groups of copies and burst shots, from one thread; cached until the index changes."""
        generation = self.index.store.generation()
        if self._stacks is None or self._stacks[0] != generation:
            self._stacks = generation, self.index.stacks()
        return self._stacks[1]

    def image(self, id_: int) -> Photo:
        """Return an image of the index; 404 if it does not exist, or is not to be shown."""
        photo = self.index.photo(id_)
        if photo is None or not self.index.may_show(photo):
            raise HTTPException(404, f"No image {id_} in the index.")
        return photo


def _remember(cache: dict[K, T], key: K, value: T) -> None:
    """Add a value to a cache of the newest ones; other threads may do the same."""
    cache[key] = value
    for oldest in list(cache)[:-_REMEMBERED]:
        cache.pop(oldest, None)


class Service:
    """The shared state of all routes.

    Queries, images, comparisons and uploads have separate threads, so that they do not wait for each other.
    Work that has begun is finished even if its client has disconnected.

    Args:
        indexes: by their names for clients; the first is the default.
        options: how they are served; the run for grounding is loaded on first use.
    """

    def __init__(self, indexes: Mapping[str, Index], options: ServerOptions) -> None:
        self.options, limits = options, options.limits
        self.grounds = can_ground(options.ground_run)
        self._grounder: Grounder | None = None
        self._loading = threading.Lock()
        cores = os.cpu_count() or 1
        self._queries = ThreadPoolExecutor(cores, "seesay-query")
        self.pictures = ThreadPoolExecutor(cores, "seesay-picture")  # thumbnails, JPEGs, boxes
        self.files = ThreadPoolExecutor(_FILES_AT_ONCE, "seesay-file")  # which mostly wait for disks
        # Comparing all images with each other takes long; further requests wait for the same answer.
        self.comparisons = ThreadPoolExecutor(1, "seesay-compare")
        self._uploads = ThreadPoolExecutor(min(_MAX_DECODERS, max(1, cores // 2)), "seesay-upload")
        self.decoders = Decoders(limits.decode_seconds, _MAX_DECODERS)
        self.served = {
            name: Served(name, index, options.photos.get(name, ())) for name, index in indexes.items()
        }
        self.is_ready = self.is_closing = False

    def find(self, name: str | None) -> Served:
        """Return the index with that name, or the first; 404 if the name is unknown."""
        if name is None:
            return next(iter(self.served.values()))
        if name not in self.served:
            raise HTTPException(404, f"No index {name!r}; there are: {', '.join(self.served)}.")
        return self.served[name]

    def warm_up(self) -> None:
        """Load the runs of the indexes, set `is_ready`, then load the one for grounding."""
        try:
            for served in self.served.values():
                with suppress(SeesayError):  # which queries will report
                    served.index.search("a photograph", 1)
        finally:
            self.is_ready = True
        with suppress(SeesayError):
            if self.grounds and not self.is_closing:
                grey = DecodedImage("grey", "", np.full((120, 160, 3), 128, np.uint8), (160, 120), "")
                self.ground(grey, "a photograph")

    def close(self) -> None:
        """Stop updates, drop waiting work and close the indexes."""
        until = time.monotonic() + _STOP_SECONDS
        for served in self.served.values():
            served.updates.end()
        for served in self.served.values():
            served.updates.join(max(0.0, until - time.monotonic()))
        pools = (self._queries, self.pictures, self.files, self.comparisons, self._uploads)
        for threads in pools:
            threads.shutdown(wait=False, cancel_futures=True)
        self.decoders.close()
        # A disk that does not answer may hold a thread that reads, for which closing an index waits.
        closing = threading.Thread(target=self._close_indexes, name="seesay-close", daemon=True)
        closing.start()
        closing.join(_STOP_SECONDS)

    def _close_indexes(self) -> None:
        for served in self.served.values():
            served.index.close()

    def ground(self, photo: DecodedImage, sentence: str, k: int = 1) -> Grounding:
        """Find the phrases of a sentence in a photo; the first call loads the run."""
        with self._loading:
            self._grounder = self._grounder or load_grounder(self.options.ground_run)
        return self._grounder.ground(photo, photo.name, sentence, k)

    async def run(self, work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
        """Run blocking work in a thread, by default one for queries.

        If the request runs out of time, work that has not begun is dropped.
        """
        return await asyncio.get_running_loop().run_in_executor(threads or self._queries, work)

    async def with_upload(
        self, file: UploadFile, work: Callable[[DecodedImage], T], side: int = SHARED_SIDE
    ) -> T:
        """Decode an upload in another process and work with it, both from one thread for uploads.

        The number of decoded images in memory is therefore limited by the number of these threads. `side` is
        the minimum length of the shorter side, for JPEGs, which are decoded at a fraction of their size.

        Raises:
            HTTPException: 413 if the upload has too many bytes.
            ImageError: the upload is not an image, has too many pixels, or takes too long.
        """

        def decode_and_work() -> T:
            limit = self.options.limits.upload_bytes
            data = file.file.read(limit + 1)
            if len(data) > limit:
                raise too_large(limit)
            pixels = self.options.limits.upload_pixels
            return work(self.decoders.decode(data, "the image", side, pixels))

        return await self.run(decode_and_work, self._uploads)
