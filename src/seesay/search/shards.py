"""Sharded indexes: each shard has a part of the photos and sentences, and is an index of its own.

The folder of the index has a folder for each, such as `shard-1-of-4`, which can also be opened and updated by
itself. All have the same identity. The hash of the name of a photo's file chooses its shard (`shard_of`), so
one that moves to another folder is recognised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import sweep
from seesay.runs.embedder import Embedder
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.index import Index
from seesay.search.look import Look, shard_of
from seesay.search.roots import Root
from seesay.search.searcher import DEFAULT_RUN, load_embedder
from seesay.search.sharded_store import ShardedStore
from seesay.search.sqlite_file import Kind, database_exists
from seesay.search.store import FILE, Store, count_shards
from seesay.search.stores import Found, VectorStore
from seesay.search.update import MadeElsewhere, Progress, UpdateReport

_WRITERS = 4  # at once: each decodes on all cores
_READERS = 32

T = TypeVar("T")


def shard_files(folder: Path, count: int) -> list[Path]:
    """Return the SQLite files of the shards of an index, in order."""
    return [folder / f"shard-{number}-of-{count}" / FILE for number in range(1, count + 1)]


def create_shards(folder: Path, run: Embedder, count: int, identity: str = "") -> None:
    """Create the shards of an index that do not exist: all of a new one, and those that were lost."""
    for number, file in enumerate(shard_files(folder, count)):
        if not database_exists(file):
            try:
                file.parent.mkdir(exist_ok=True)
            except OSError as error:
                raise SeesayError(f"{file.parent}: cannot hold a shard ({error.strerror}).") from error
            facts = run.name, run.fingerprint, run.dim, str(run.detector or "")
            store = Store.create(file, *facts, shard=(number, count), identity=identity)
        elif identity:
            continue
        else:  # another process creates the same index
            store = Store.open(file)
        identity = store.meta["identity"]
        store.close()


def replace_lost(folder: Path, run: str | Path | Embedder | None) -> None:
    """Create the shards that an index lacks, which its next update fills.

    Raises:
        SeesayError: as `count_shards`, and `Index.open` of another shard.
    """
    count = count_shards(folder)
    there = [file for file in shard_files(folder, count) if database_exists(file)]
    if len(there) == count:
        return
    if there:
        with Index.open(there[0].parent, run) as other:
            create_shards(folder, other.run, count, other.store.meta["identity"])
    else:
        create_shards(folder, load_embedder(DEFAULT_RUN if run is None else run), count)


class ShardedIndex(Index):
    """An index in shards, which are searched and updated together.

    Args:
        folder: of the index.
        run: see `Index.open`.

    Raises:
        SeesayError: a shard is missing, is not of this index, or cannot be opened.
    """

    def __init__(self, folder: Path, run: str | Path | Embedder | None = None) -> None:
        files = shard_files(folder, count_shards(folder))
        for file in files:
            if not database_exists(file):
                raise SeesayError(
                    f"{file.parent}: missing; restore this shard of the index, or index again to create it."
                )
        embedder = None if run is None else load_embedder(run)
        self._shards = [Index.open(file.parent, embedder) for file in files]
        first = self._shards[0].store
        for number, (file, shard) in enumerate(zip(files, self._shards, strict=True)):
            if shard.store.shard != (number, len(files)) or any(
                shard.store.meta[key] != first.meta[key] for key in ("identity", "fingerprint", "dim")
            ):
                raise SeesayError(
                    f"{file.parent}: not this shard of the index that {files[0].parent.name} is of; restore "
                    "it, or delete it."
                )
        stores = [shard._own for shard in self._shards]
        super().__init__(folder, ShardedStore(folder / FILE, stores), embedder)

    def _open_vectors(self, kind: Kind, address: str) -> VectorStore:  # noqa: ARG002
        return _Vectors(self._shards, kind)

    def close(self) -> None:
        """Close the files and connections of all shards."""
        for near in self._near.values():
            near.close()
        for shard in self._shards:
            shard.close()

    def thumbnail(self, key: str, source: Path) -> bytes:
        """Return the thumbnail of a content of the index, which is in a shard that has the content."""
        holders = (shard for shard in self._shards if shard._own.known("image", [key]))
        return next(holders, self._shards[0]).thumbnail(key, source)

    def changed(self) -> float:
        """Return when a shard of the index was last written, in seconds since 1970."""
        return max(shard.changed() for shard in self._shards)

    @contextmanager
    def _sole_writer(self) -> Iterator[None]:
        with ExitStack() as held:
            for shard in self._shards:
                held.enter_context(shard._sole_writer())
            sweep(self.folder)
            yield

    def _record(self, run: Embedder) -> None:
        for shard in self._shards:
            shard._record(run)
            shard._embedder = run  # which each would load again to build its lists for a recall

    def _put_roots(self, seen: Look) -> None:
        for shard in self._shards:  # before any encodes, so that paths agree meanwhile
            shard._put_roots(seen)

    def _update(
        self, seen: Look, run: Embedder, progress: Progress | None, elsewhere: MadeElsewhere | None
    ) -> UpdateReport:
        told = _Told(progress, len(self._shards))

        def update(number: int, shard: Index) -> UpdateReport:
            return shard._update(seen.share(shard.store), run, told.of(number), elsewhere)

        first, *others = self._of_each(update, 1 if elsewhere else _WRITERS)  # a cluster does one at a time
        for report in others:
            for name in ("added", "changed", "moved", "deleted", "unchanged"):
                setattr(first, name, getattr(first, name) + getattr(report, name))
            first.skipped += report.skipped
            first.absent = list(dict.fromkeys([*first.absent, *report.absent]))
            first.seconds = max(first.seconds, report.seconds)
        return first

    def _remove(self, root: Root, run: Embedder) -> int:
        return sum(shard._remove(root, run) for shard in self._shards)

    def _add(self, texts: Sequence[str], run: Embedder, progress: Progress | None) -> int:
        told, count = _Told(progress, len(self._shards)), len(self._shards)
        tidy = [" ".join(text.split()) for text in texts]

        def add(number: int, shard: Index) -> int:
            return shard._add([t for t in tidy if shard_of(t, count) == number], run, told.of(number))

        return sum(self._of_each(add))

    def _of_each(self, work: Callable[[int, Index], T], writers: int = _WRITERS) -> list[T]:
        """Apply `work` to all shards, a few at a time; raise the first error after the others have ended."""
        with ThreadPoolExecutor(writers, "seesay-shard") as pool:
            return list(pool.map(work, range(len(self._shards)), self._shards))


class _Told:
    """Adds up the progress of shards."""

    def __init__(self, progress: Progress | None, count: int) -> None:
        self._progress, self._lock = progress or (lambda _done, _total: None), Lock()
        self._states = [(0, 0)] * count

    def of(self, number: int) -> Progress:
        """Return the function to which a shard reports its progress."""

        def told(done: int, total: int) -> None:
            with self._lock:
                self._states[number] = done, total
                self._progress(*map(sum, zip(*self._states, strict=True)))

        return told


class _Vectors:
    """Searches the vectors of one kind in all shards; see `VectorStore`."""

    concurrent = True  # each shard is locked by itself

    def __init__(self, shards: Sequence[Index], kind: Kind) -> None:
        self._shards, self._kind = shards, kind
        self._threads = ThreadPoolExecutor(min(len(shards), _READERS), "seesay-shard")

    def refresh(self) -> None:
        for shard in self._shards:
            with shard.using(self._kind) as near:
                near.refresh()

    def save(self) -> None:
        for shard in self._shards:
            with shard.using(self._kind) as near:
                near.save()

    def passing(self, where: Filter) -> list[Any]:
        found = []
        for shard in self._shards:
            with shard.using(self._kind) as near:
                found.append(near.passing(where))
        return found

    def search(
        self, query: NDArray[np.float32], k: int, among: list[Any] | None = None, after: Place | None = None
    ) -> Found:
        count = len(self._shards)

        def best(number: int) -> Found:
            # In this shard, ids above (id - number) / count come after that place.
            behind = after and replace(after, id=(after.id - number) // count)
            with self._shards[number].using(self._kind) as near:
                ids, scores = near.search(query, k, None if among is None else among[number], behind)
            return ids * count + number, scores

        found = list(self._threads.map(best, range(count)))
        ids, scores = (np.concatenate(each) for each in zip(*found, strict=True))
        order = np.lexsort((ids, -scores))[:k]
        return ids[order], scores[order]

    def close(self) -> None:
        self._threads.shutdown()
