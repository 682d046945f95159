"""Bringing an index up to date with a folder: only new and changed contents are embedded."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.pixels import IMAGE_SUFFIXES, content_key, upright_size
from seesay.errors import ImageError, SeesayError
from seesay.search.embedder import Embedder
from seesay.search.store import Item, Store, Writer
from seesay.search.thumbnails import Thumbnails
from seesay.search.walk import Batch, FoundFile, Walk, read_ahead, walk

Progress = Callable[[int, int], None]
"""Called with the number of files done and the number there are to do."""


@dataclass
class UpdateReport:
    """How many files were met as what; `skipped` holds (path, reason) of those that cannot be used."""

    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Embedded:
    vector: NDArray[np.float32]
    size: tuple[int, int]


def update_images(
    store: Store, thumbnails: Thumbnails, root: Path, embedder: Embedder, progress: Progress | None = None
) -> UpdateReport:
    """Makes the images of `store` those of the folder `root`.

    Every batch is a transaction: what an interrupted update finished need not be done again.

    Raises:
        SeesayError: `root` is no folder, holds no image, or is not the folder the index was made of.
    """
    started = time.perf_counter()
    root = _checked_root(root, store)
    there = walk(root, leave_out=store.path.parent.resolve())
    if not there.files:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        raise SeesayError(f"{root}: no image ({suffixes}) in it; the index stays as it was.")
    update = _Update(store, root, embedder, there)
    update.run(progress or (lambda _done, _total: None))
    thumbnails.drop(update.finish())
    update.report.seconds = time.perf_counter() - started
    return update.report


def _checked_root(root: Path, store: Store) -> Path:
    if not root.is_dir():
        raise SeesayError(f"{root}: not a folder; give the folder that holds the images.")
    root = root.resolve()
    former = store.root()
    # A folder that was moved as a whole is still the same; two that both exist are not.
    if former is not None and former != root and former.is_dir() and not former.samefile(root):
        raise SeesayError(f"{store.path.parent}: made of {former}; give {root} an index of its own.")
    return root


class _Update:
    """One run over a folder; its state is what the store held before and what the walk found."""

    def __init__(self, store: Store, root: Path, embedder: Embedder, there: Walk) -> None:
        self.report = UpdateReport(skipped=list(there.skipped))
        self._store = store
        self._root = root
        self._embedder = embedder
        self._there = there
        self._skipped = store.skipped()
        self._before = {item.path: item for item in store.items().values()}
        self._gone: dict[str, list[Item]] = defaultdict(list)  # by content key, for files that moved
        for path, item in self._before.items():
            if path is not None and path not in there.files and there.knows_of(path):
                self._gone[item.key].append(item)

    def run(self, progress: Progress) -> None:
        """Goes over the files that are not as they were."""
        todo = [file for file in self._there.files.values() if not self._is_as_it_was(file)]
        with self._store.write() as writer:
            writer.set_root(self._root)
        done = 0
        progress(done, len(todo))
        for batch in read_ahead(self._root, todo):
            self._take(batch)
            done += len(batch)
            progress(done, len(todo))

    def finish(self) -> list[str]:
        """Removes what is gone, at the end, since until then it may turn out to have moved."""
        gone = [item.id for items in self._gone.values() for item in items]
        with self._store.write() as writer:
            writer.delete(gone)
            writer.forget_skipped(path for path in self._skipped if path not in self._there.files)
            orphans = writer.drop_orphans()
        self.report.deleted += len(gone)
        return orphans

    def _is_as_it_was(self, file: FoundFile) -> bool:
        former = self._before.get(file.path)
        if former is not None and (former.mtime_ns, former.size) == (file.mtime_ns, file.size):
            self.report.unchanged += 1
            return True
        mtime_ns, size, reason = self._skipped.get(file.path, (None, None, ""))
        if (mtime_ns, size) == (file.mtime_ns, file.size):
            self.report.skipped.append((file.path, reason))
            return True
        return False

    def _take(self, batch: Batch) -> None:
        contents: dict[str, tuple[FoundFile, bytes]] = {}
        keyed: list[tuple[FoundFile, str]] = []
        for file, data in batch:
            if isinstance(data, OSError):  # may pass: its former item stays, and it is tried again
                self.report.skipped.append((file.path, data.strerror or str(data)))
                continue
            key = content_key(data)
            keyed.append((file, key))
            contents.setdefault(key, (file, data))
        known = self._store.known("image", contents)
        new, broken = self._embed({key: value for key, value in contents.items() if key not in known})
        with self._store.write() as writer:
            for key, embedded in new.items():
                writer.put_vector("image", key, embedded.vector, embedded.size)
            for file, key in keyed:
                if key in broken:
                    self._skip(writer, file, broken[key])
                else:
                    self._put(writer, file, key)

    def _put(self, writer: Writer, file: FoundFile, key: str) -> None:
        former = self._before.get(file.path)
        if former is not None and former.key == key:
            writer.place(former.id, file.path, file.mtime_ns, file.size)
            self.report.unchanged += 1
        elif former is None and self._gone.get(key):
            writer.place(self._gone[key].pop().id, file.path, file.mtime_ns, file.size)
            self.report.moved += 1
        else:
            writer.put_image(file.path, key, file.mtime_ns, file.size)
            if former is None:
                self.report.added += 1
            else:
                self.report.changed += 1

    def _skip(self, writer: Writer, file: FoundFile, reason: str) -> None:
        writer.put_skipped(file.path, file.mtime_ns, file.size, reason)
        self.report.skipped.append((file.path, reason))
        self.report.deleted += file.path in self._before

    def _embed(
        self, contents: dict[str, tuple[FoundFile, bytes]]
    ) -> tuple[dict[str, _Embedded], dict[str, str]]:
        """Vectors by content key, and the reasons of those that have none."""
        if not contents:
            return {}, {}
        names = [file.path for file, _ in contents.values()]
        data = [data for _, data in contents.values()]
        vectors, errors = self._embedder.embed_images(data, names)
        new: dict[str, _Embedded] = {}
        broken: dict[str, str] = {}
        for key, name, image, vector, error in zip(contents, names, data, vectors, errors, strict=True):
            try:
                if error is not None:
                    raise error
                if not np.isfinite(vector).all() or not vector.any():
                    raise ImageError(f"{name}: the matcher gave no vector for it.")
                new[key] = _Embedded(vector, upright_size(image, name))
            except ImageError as error_:
                broken[key] = str(error_).removeprefix(f"{name}: ")
        return new, broken
