"""Updates of an index: new and changed contents are decoded once and embedded."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.decoders import read_apart
from seesay.data.images import DecodedImage, content_key
from seesay.data.sources import FileSource
from seesay.encoders.images.encode import CHUNK, in_threads
from seesay.errors import ImageError, SeesayError, UnavailableImageError
from seesay.runs.embedder import Embedder
from seesay.search import thumbnails
from seesay.search.contents import Contents
from seesay.search.preparing import finite, is_finite
from seesay.search.store import Item, State, Store
from seesay.search.thumbnails import Thumbnails
from seesay.search.writer import Writer

Progress = Callable[[int, int], None]
"""Called with the number of files or sentences done, and the total."""

_PIXEL_BYTES = 1 << 26  # of decoded photos that a thread holds before it embeds them
_BATCH_FILES = 64
_BATCH_BYTES = 64 * 2**20
_SENTENCES_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Entry:
    """The data that an index stores about a photo.

    Attributes:
        vector: (dim,).
        size: width and height of the upright photo, in pixels.
        taken: when it was taken, see `EncodedImage.taken`.
        thumbnail: see `seesay.search.thumbnails.make`.
    """

    vector: NDArray[np.float32]
    size: tuple[int, int]
    taken: str
    thumbnail: bytes


def entries_of(
    contents: Mapping[str, tuple[str, bytes]], embedder: Embedder
) -> dict[str, Entry | ImageError]:
    """Create the entries of photos in threads, by content key.

    Args:
        contents: names for error messages, and encoded photos, by content key.
        embedder: that embeds them.

    Returns:
        For each, an entry or the error.
    """
    items = list(contents.items())
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]

    def work(chunk: Sequence[tuple[str, tuple[str, bytes]]]) -> dict[str, Entry | ImageError]:
        found: dict[str, Entry | ImageError] = {}
        for photos in _decoded(chunk, max(embedder.side, thumbnails.SIDE), found):
            found |= _embedded(photos, embedder)
        return found

    return {key: entry for found in in_threads(work, chunks) for key, entry in found.items()}


def _decoded(
    contents: Iterable[tuple[str, tuple[str, bytes]]], side: int, broken: dict[str, Entry | ImageError]
) -> Iterator[list[DecodedImage]]:
    """Yield decoded photos, as many at a time as fit into memory; add errors to `broken`."""
    photos: list[DecodedImage] = []
    for key, (name, data) in contents:
        try:
            photos.append(read_apart(data, name, side, key))
        except ImageError as error:
            broken[key] = error
        if sum(photo.pixels.nbytes for photo in photos) > _PIXEL_BYTES:
            yield photos
            photos = []
    if photos:
        yield photos


def _embedded(photos: Sequence[DecodedImage], embedder: Embedder) -> dict[str, Entry | ImageError]:
    try:
        vectors = embedder.embed_photos(photos)
    except ImageError as error:
        if len(photos) == 1:
            return {photos[0].key: error}
        return {key: entry for photo in photos for key, entry in _embedded([photo], embedder).items()}
    found: dict[str, Entry | ImageError] = {}
    for photo, vector in zip(photos, vectors, strict=True):
        if is_finite(vector) and vector.any():
            found[photo.key] = Entry(vector, photo.size, photo.taken, thumbnails.make(photo))
        else:
            found[photo.key] = ImageError(f"{photo.name}: the matcher returned no embedding.")
    return found


@dataclass(frozen=True, slots=True)
class Made:
    """What was made of some files.

    Attributes:
        keys: the content key of each path, or why it cannot be read.
        entries: by content key, of contents that were not known.
    """

    keys: dict[str, str | OSError]
    entries: dict[str, Entry | ImageError]


def make(batch: Batch, embedder: Embedder, known: Callable[[Iterable[str]], set[str]]) -> Made:
    """Make entries of the contents of files, except of `known` content keys."""
    keys: dict[str, str | OSError] = {}
    contents: dict[str, tuple[str, bytes]] = {}
    for path, data in batch.items():
        if isinstance(data, OSError):
            keys[path] = data
        else:
            keys[path] = key = content_key(data)
            contents.setdefault(key, (path, data))
    for key in known(contents):
        del contents[key]
    return Made(keys, entries_of(contents, embedder))


MadeElsewhere = Callable[[Callable[[str], FileSource], Mapping[str, State], Collection[str]], Iterator[Made]]
"""Makes entries of unknown contents, given a function from path to file, states by path, and known keys."""


@dataclass
class UpdateReport:
    """The outcome of an update: the numbers of files added, changed, …

    Attributes:
        skipped: (path, reason) of images that cannot be used.
        not_read: the number of files of each unsupported kind, such as "raw" or "video".
        absent: missing or empty folders of the index, and emptied subfolders (perhaps of an unmounted drive);
            their images are kept.
    """

    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    not_read: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    seconds: float = 0.0


def add_sentences(
    store: Store, texts: Sequence[str], embedder: Embedder, progress: Progress | None = None
) -> int:
    """Add new, non-empty sentences, and return their number."""
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
    """Read the sentences of a text file (one per line) or a corpus."""
    from seesay.data.readers import read_corpus

    if path.suffix.lower() != ".txt":
        return list(read_corpus(path).texts())
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as failure:
        raise SeesayError(f"{path}: cannot be read ({failure.strerror}).") from failure
    except UnicodeDecodeError as failure:
        raise SeesayError(f"{path}: not a UTF-8 text file of sentences ({failure}).") from failure


class Update:
    """One update of the images of an index: the difference between its store and the files of its folders.

    Args:
        store: of the index, which has recorded its folders.
        thumbnails: of the index.
        seen: the contents of the folders.
        embedder: of the index.
    """

    def __init__(self, store: Store, thumbnails: Thumbnails, seen: Contents, embedder: Embedder) -> None:
        self._started = time.perf_counter()
        self._report = UpdateReport(
            skipped=list(seen.skipped),
            not_read=dict(sum(seen.not_read.values(), Counter())),
            absent=list(map(str, seen.absent)),
        )
        self._store = store
        self._seen = seen
        self._files = seen.files
        self._embedder, self._thumbnails = embedder, thumbnails
        self._skipped = store.skipped()
        self._before = {item.path: item for item in store.items().values()}
        self._gone: dict[str, list[Item]] = defaultdict(list)  # by content key, for files that moved
        self._emptied: dict[int, list[Path]] = {}  # folders above them
        for path, item in self._before.items():
            if seen.is_gone(path):
                self._gone[item.key].append(item)
                self._emptied[item.id] = seen.emptied(path)

    def run(self, progress: Progress | None, elsewhere: MadeElsewhere | None) -> UpdateReport:
        """Embed new and changed files, and delete items of missing ones.

        Every batch is a transaction, so an interrupted update continues where it stopped.

        Args:
            progress: called with the number of files done and the total.
            elsewhere: makes entries in place of this process.
        """
        todo = {path: state for path, state in self._files.items() if not self._is_unchanged(path, state)}
        progress = progress or (lambda _done, _total: None)
        done = 0
        progress(done, len(todo))
        for each in self._made(todo, elsewhere) if todo else ():
            self._write(each)
            done += len(each.keys)
            progress(done, len(todo))
        self._finish()
        self._report.seconds = time.perf_counter() - self._started
        return self._report

    def _made(self, todo: Mapping[str, State], elsewhere: MadeElsewhere | None) -> Iterable[Made]:
        if elsewhere is None:
            batches = read_ahead(self._seen.file, todo)
            return (make(each, self._embedder, partial(self._store.known, "image")) for each in batches)
        sizes = {state.size for state in todo.values()}
        # Files of other sizes have other contents.
        known = {item.key for item in self._before.values() if item.state.size in sizes}
        return elsewhere(self._seen.file, todo, known)

    def _finish(self) -> None:
        """Delete items of missing files that have not moved, and the thumbnails that became unused."""
        unmoved = [item.id for items in self._gone.values() for item in items]
        gone = [id_ for id_ in unmoved if not self._emptied[id_]]
        emptied = (str(folder) for id_ in unmoved for folder in self._emptied[id_])
        self._report.absent = list(dict.fromkeys([*self._report.absent, *emptied]))
        with self._store.write() as writer:
            writer.delete(gone)
            writer.forget_skipped(filter(self._seen.is_gone, self._skipped))
            for path, reason in self._seen.skipped:  # dead links, files that are too large, and others
                if path not in self._before or self._seen.is_gone(path):  # not what cannot be read today
                    writer.put_skipped(path, 0, 0, 0, reason)
            for root in self._seen.roots:
                writer.set_not_read(root, self._seen.not_read[root.name])
            self._thumbnails.drop(writer.drop_orphans())  # before the commit, after which their keys are lost
        self._report.deleted += len(gone)

    def _is_unchanged(self, path: str, state: State) -> bool:
        former = self._before.get(path)
        if former is not None and former.state == state:
            self._report.unchanged += 1
            return True
        known, reason = self._skipped.get(path, (None, ""))
        if known == state:
            self._report.skipped.append((path, reason))
        return known == state

    def _write(self, made: Made) -> None:
        found, first = made.entries, dict[str, str]()  # the path that an error of a content names
        with self._store.write() as writer:
            for content, entry in found.items():
                if isinstance(entry, Entry):
                    writer.put_vector("image", content, entry.vector, entry.size, entry.taken)
            for path, key in made.keys.items():
                if isinstance(key, OSError):  # may be temporary: its item stays, and the file is tried again
                    self._report.skipped.append((path, key.strerror or str(key)))
                    continue
                failure, name = found.get(key), first.setdefault(key, path)
                if not isinstance(failure, ImageError):
                    self._put(writer, path, key)
                    continue
                reason = str(failure).removeprefix(f"{name}: ")
                self._report.skipped.append((path, reason))
                if not isinstance(failure, UnavailableImageError):  # which are tried again, as above
                    writer.put_skipped(path, *self._files[path], reason)
                    self._report.deleted += path in self._before
        kept = [(key, entry.thumbnail) for key, entry in found.items() if isinstance(entry, Entry)]
        for _ in in_threads(lambda each: self._thumbnails.keep(*each), kept):  # which wait for the disk
            pass

    def _put(self, writer: Writer, path: str, key: str) -> None:
        former, state = self._before.get(path), self._files[path]
        if former is not None and former.key == key:
            writer.place(former.id, path, *state)
            self._report.unchanged += 1
        elif former is None and self._gone.get(key):
            writer.place(self._gone[key].pop().id, path, *state)
            self._report.moved += 1
        else:
            writer.put_image(path, key, *state)
            self._report.added += former is None
            self._report.changed += former is not None


Batch = dict[str, bytes | OSError]
"""The bytes of files by path, or why they cannot be read."""


def read_ahead(place: Callable[[str], FileSource], files: Mapping[str, State]) -> Iterator[Batch]:
    """Yield the files' bytes in batches; a thread reads the next batch while the caller works on this one.

    Args:
        place: returns the file of a path.
        files: to read.
    """
    batches = _batches(place, files)
    with ThreadPoolExecutor(1, thread_name_prefix="seesay-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


def _batches(place: Callable[[str], FileSource], files: Mapping[str, State]) -> Iterator[Batch]:
    def read(source: FileSource) -> bytes | OSError:
        try:
            with source.open() as file:
                return file.readall()
        except OSError as error:
            return error

    for batch in _divided(files):
        yield {path: read(place(path)) for path in batch}


def _divided(files: Mapping[str, State]) -> Iterator[list[str]]:
    """Divide files into batches that fit into memory."""
    batch: list[str] = []
    room = _BATCH_BYTES
    for path, state in files.items():
        batch.append(path)
        room -= state.size
        if len(batch) == _BATCH_FILES or room <= 0:
            yield batch
            batch, room = [], _BATCH_BYTES
    if batch:
        yield batch
