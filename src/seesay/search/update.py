"""Updates of an index: only new and changed contents are embedded."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import content_key, taken_at, upright_size
from seesay.data.suffixes import IMAGE_SUFFIXES, unread_kind, unread_lines
from seesay.errors import ImageError, SeesayError, UnavailableImageError
from seesay.search.embedder import Embedder, SeesObjects
from seesay.search.seal import seal
from seesay.search.store import Item, Store, Writer
from seesay.search.thumbnails import Thumbnails

Progress = Callable[[int, int], None]
"""Called with the number of files or sentences done, and of all to do."""

MAX_FILE_BYTES = 256 * 2**20
"""Larger files are skipped: they are not photographs, and a batch of them would fill the memory."""

_LATEST = 2**63 - 1
"""Nanoseconds that SQLite can hold: a file dated after the year 2262 counts as of that year."""

_BATCH_FILES = 64
_BATCH_BYTES = 64 * 2**20
_SENTENCES_AT_ONCE = 512
_TIMES_AT_ONCE = 1000


@dataclass
class UpdateReport:
    """How many files were added, changed, …

    Attributes:
        skipped: (path, reason) of images that cannot be used.
        not_read: number of files of each kind that is not read, such as "HEIC" or "video".
    """

    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    not_read: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def update_images(
    store: Store, thumbnails: Thumbnails, root: Path, embedder: Embedder, progress: Progress | None = None
) -> UpdateReport:
    """Make the images of `store` those of the folder `root`.

    Every batch is a transaction, so that an interrupted update continues where it stopped.

    Raises:
        SeesayError: `root` is not a folder, holds no image, or is not the folder that the index is of.
    """
    started = time.perf_counter()
    root = _checked_root(root, store)
    there = walk(root, leave_out=store.path.parent.resolve())
    if not there.files:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        others = "".join(f" {line}." for line in unread_lines(there.not_read))
        raise SeesayError(f"{root}: no images ({suffixes}) in it; the index is unchanged.{others}")
    update = _Update(store, root, embedder, there)
    update.run(progress or (lambda _done, _total: None))
    thumbnails.drop(update.finish())
    update.report.seconds = time.perf_counter() - started
    return update.report


def add_sentences(
    store: Store, texts: Sequence[str], embedder: Embedder, progress: Progress | None = None
) -> int:
    """Add the sentences that are new and not empty, and return how many these are."""
    tidy = (" ".join(text.split()) for text in texts)
    keys = {text: content_key(text.encode()) for text in tidy if text}
    known = store.known("sentence", keys.values())
    todo = [text for text, key in keys.items() if key not in known]
    for start in range(0, len(todo), _SENTENCES_AT_ONCE):
        batch = todo[start : start + _SENTENCES_AT_ONCE]
        vectors = finite(embedder.embed_sentences(batch))
        with store.write() as writer:
            for text, vector in zip(batch, vectors, strict=True):
                writer.put_vector("sentence", keys[text], vector)
                writer.put_sentence(text, keys[text])
        if progress:
            progress(start + len(batch), len(todo))
    return len(todo)


def read_sentences(path: Path) -> list[str]:
    """Read the sentences of a text file, one a line, or of a corpus."""
    from seesay.data.readers import read_corpus

    if path.suffix.lower() != ".txt":
        return list(read_corpus(path).texts())
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as failure:
        raise SeesayError(f"{path}: not a UTF-8 text file of sentences ({failure}).") from failure


def finite(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors, or raise a `SeesayError` if one is not finite."""
    if not np.isfinite(vectors).all():
        raise SeesayError("The matcher gave a vector that is not finite; its weights are damaged.")
    return vectors


def _checked_root(root: Path, store: Store) -> Path:
    if not root.is_dir():
        raise SeesayError(f"{root}: not a folder; name the folder that holds the images.")
    root = root.resolve()
    former = store.root()
    # A folder that was moved as a whole is the same folder; two that both exist are not.
    if former is not None and former != root and former.is_dir() and not former.samefile(root):
        raise SeesayError(f"{store.path.parent}: an index of {former}; make another index for {root}.")
    return root


class _Update:
    """One update: the difference between the store and the files of the folder."""

    def __init__(self, store: Store, root: Path, embedder: Embedder, there: Walk) -> None:
        self.report = UpdateReport(skipped=list(there.skipped), not_read=dict(there.not_read))
        self._store = store
        self._root = root
        self._embedder = embedder
        self._there = there
        self._skipped = store.skipped()
        self._before = {item.path: item for item in store.items().values()}
        self._gone: dict[str, list[Item]] = defaultdict(list)  # by content key, for files that moved
        for path, item in self._before.items():
            if path is not None and path not in there.files and there.is_gone(path):
                self._gone[item.key].append(item)

    def run(self, progress: Progress) -> None:
        """Embed the files that are not as they were."""
        todo = [file for file in self._there.files.values() if not self._is_unchanged(file)]
        with self._store.write() as writer:
            writer.set_root(self._root, seal(self._store.meta["identity"], self._root))
        done = 0
        progress(done, len(todo))
        for batch in read_ahead(self._root, todo):
            self._take(batch)
            done += len(batch)
            progress(done, len(todo))
        self._look_at_times()

    def _look_at_times(self) -> None:
        """Read when photos were taken: of new ones, and of those that an earlier version indexed."""
        todo = list(self._store.without_time().items())
        for start in range(0, len(todo), _TIMES_AT_ONCE):
            # Of a file that has gone nothing is said, so that it is looked at when it is back.
            found = [
                (key, taken_at(self._root / path))
                for key, path in todo[start : start + _TIMES_AT_ONCE]
                if path in self._there.files
            ]
            with self._store.write() as writer:
                for key, taken in found:
                    writer.set_time(key, taken)

    def finish(self) -> list[str]:
        """Delete the files that are gone and have not moved; return the content keys that became unused."""
        gone = [item.id for items in self._gone.values() for item in items]
        with self._store.write() as writer:
            writer.delete(gone)
            writer.forget_skipped(path for path in self._skipped if path not in self._there.files)
            orphans = writer.drop_orphans()
            writer.set_not_read(self._there.not_read)
        self.report.deleted += len(gone)
        return orphans

    def _is_unchanged(self, file: FoundFile) -> bool:
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
        contents: dict[str, tuple[str, bytes]] = {}
        keyed: list[tuple[FoundFile, str]] = []
        for file, data in batch:
            if isinstance(data, OSError):  # may be temporary: its item stays, and the file is tried again
                self.report.skipped.append((file.path, data.strerror or str(data)))
                continue
            key = content_key(data)
            keyed.append((file, key))
            contents.setdefault(key, (file.path, data))
        for key in self._store.known("image", contents):
            del contents[key]
        broken: dict[str, ImageError] = {}
        vectors = self._embed(contents, broken)
        with self._store.write() as writer:
            for key, (vector, size) in vectors.items():
                writer.put_vector("image", key, vector, size)
            if isinstance(self._embedder, SeesObjects):
                for key in vectors:
                    writer.put_objects(key, self._embedder.objects(contents[key][1]))
            for file, key in keyed:
                if key not in broken:
                    self._put(writer, file, key)
                elif isinstance(broken[key], UnavailableImageError):  # tried again, as above
                    self.report.skipped.append((file.path, _without_name(broken[key], contents[key][0])))
                else:
                    self._skip(writer, file, _without_name(broken[key], contents[key][0]))

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
            self.report.added += former is None
            self.report.changed += former is not None

    def _skip(self, writer: Writer, file: FoundFile, reason: str) -> None:
        writer.put_skipped(file.path, file.mtime_ns, file.size, reason)
        self.report.skipped.append((file.path, reason))
        self.report.deleted += file.path in self._before

    def _embed(
        self, contents: dict[str, tuple[str, bytes]], broken: dict[str, ImageError]
    ) -> dict[str, tuple[NDArray[np.float32], tuple[int, int]]]:
        """Return vector and size by content key; add to `broken` why a content has none."""
        if not contents:
            return {}
        names, data = zip(*contents.values(), strict=True)
        found = {}
        vectors, errors = self._embedder.embed_image_files(data, names)
        for key, name, image, vector, error in zip(contents, names, data, vectors, errors, strict=True):
            try:
                if error is not None:
                    raise error
                if not np.isfinite(vector).all() or not vector.any():
                    raise ImageError(f"{name}: the matcher gave no embedding of it.")
                found[key] = vector, upright_size(image, name)
            except ImageError as failure:
                broken[key] = failure
        return found


def _without_name(failure: ImageError, name: str) -> str:
    return str(failure).removeprefix(f"{name}: ")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An image file; `path` is relative to the root, with `/`."""

    path: str
    mtime_ns: int
    size: int


@dataclass
class Walk:
    """Files by path, (path, reason) of skipped ones, paths that could not be read, counts of other kinds."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    not_read: Counter[str] = field(default_factory=Counter)

    def is_gone(self, path: str) -> bool:
        """Return True if a path that was not found does not exist, rather than could not be read."""
        return not any(place in (".", path) or path.startswith(f"{place}/") for place in self.unread)


def walk(root: Path, leave_out: Path) -> Walk:
    """Find all image files under `root` (a resolved path), except in the folder `leave_out`.

    Hidden files and folders are ignored. Links are followed to files inside `root` only: a linked folder
    inside is found at its own place, so that no loop can arise.
    """
    result = Walk()

    def unread(error: OSError) -> None:
        folder = _relative(root, Path(error.filename or root))
        result.unread.append(folder)
        result.skipped.append((folder, error.strerror or str(error)))

    for folder, names, files in os.walk(root, onerror=unread):
        here = Path(folder)
        # `os.path.islink` is False where the system refuses to say; the walk then lists the folder as unread.
        links = [name for name in names if os.path.islink(here / name) and not name.startswith(".")]  # noqa: PTH114
        for name in links:
            _look_at_link(here / name, root, result)
        names[:] = sorted(
            name
            for name in names
            if not name.startswith(".") and name not in links and here / name != leave_out
        )
        for name in sorted(files):
            if name.startswith("."):
                continue
            if Path(name).suffix.lower() in IMAGE_SUFFIXES:
                _look_at(here / name, root, result)
            elif kind := unread_kind(name):
                result.not_read[kind] += 1
    return result


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _look_at_link(folder: Path, root: Path, result: Walk) -> None:
    try:
        inside = folder.resolve().is_relative_to(root)
    except (OSError, RuntimeError) as error:  # RuntimeError for a loop, up to Python 3.12
        result.skipped.append((_relative(root, folder), getattr(error, "strerror", None) or str(error)))
    else:
        if not inside:
            result.skipped.append((_relative(root, folder), "a link out of the folder"))


def _look_at(file: Path, root: Path, result: Walk) -> None:
    path = _relative(root, file)
    try:
        path.encode()
    except UnicodeEncodeError:
        printable = path.encode("utf-8", "backslashreplace").decode()
        result.skipped.append((printable, "its name is not valid UTF-8; rename it"))
        return
    try:
        stat = file.stat()
        if file.is_symlink() and not file.resolve(strict=True).is_relative_to(root):
            result.skipped.append((path, "a link out of the folder"))
        elif not file.is_file():
            result.skipped.append((path, "not a regular file"))
        elif stat.st_size > MAX_FILE_BYTES:
            result.skipped.append((path, f"{stat.st_size >> 20} MB, more than {MAX_FILE_BYTES >> 20}"))
        else:
            result.files[path] = FoundFile(path, min(stat.st_mtime_ns, _LATEST), stat.st_size)
    except FileNotFoundError:
        result.skipped.append((path, "a link to nothing"))
    except OSError as error:
        result.unread.append(path)
        result.skipped.append((path, error.strerror or str(error)))


Batch = list[tuple[FoundFile, bytes | OSError]]


def read_ahead(root: Path, files: Iterable[FoundFile]) -> Iterator[Batch]:
    """Yield the files' bytes in batches; a thread reads the next batch while the caller works on this one."""
    batches = _batches(root, files)
    with ThreadPoolExecutor(1, thread_name_prefix="seesay-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


def _batches(root: Path, files: Iterable[FoundFile]) -> Iterator[Batch]:
    batch: Batch = []
    room = _BATCH_BYTES
    for file in files:
        try:
            data: bytes | OSError = (root / file.path).read_bytes()
        except OSError as error:
            data = error
        batch.append((file, data))
        room -= 0 if isinstance(data, OSError) else len(data)
        if len(batch) == _BATCH_FILES or room <= 0:
            yield batch
            batch, room = [], _BATCH_BYTES
    if batch:
        yield batch
