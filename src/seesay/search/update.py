"""Updates of an index: the difference between its store and the files of its folders."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seesay.data.images import DecodedImage, FileSource, content_key
from seesay.data.texts import read_lines
from seesay.encoders.images.cluster import Columns, Work, check_fingerprint, done_on_cluster
from seesay.encoders.images.encode import SHARED_SIDE, sources_of
from seesay.encoders.stores import CHUNK, in_threads
from seesay.errors import ImageError, UnavailableImageError
from seesay.runs.run import Run
from seesay.search.filters import folded_words
from seesay.search.folder_images import FolderImages
from seesay.search.photo import FileState, Photo, thumbnail_of
from seesay.search.store import Store, is_finite
from seesay.search.tables import Content

if TYPE_CHECKING:
    from seesay.data.ocr import TextLine

_PIXEL_BYTES = 1 << 26  # of decoded photos that a thread holds before it embeds them
_BATCH_FILES = 64
_BATCH_BYTES = 64 * 2**20

Progress = Callable[[int, int], None]
"""Called with the number of files or sentences done, and the total."""


@dataclass(frozen=True, slots=True)
class NewPhoto:
    """The content of a file that an update has read.

    Attributes:
        key: of the content; "" if the file cannot be read.
        content: for the index; None if it has that content, or it cannot be used.
        thumbnail: see `thumbnail_of`.
        fault: why it cannot be used; "" if it can.
        lasts: whether the fault lasts until the file changes. Other files are tried again.
    """

    key: str
    content: Content | None = None
    thumbnail: bytes = b""
    fault: str = ""
    lasts: bool = True


FilesRead = dict[str, bytes | OSError]
"""The bytes of files by path, or why they cannot be read."""

PhotoEncoder = Callable[
    [Callable[[str], FileSource], Mapping[str, FileState], Collection[str]], Iterator[dict[str, NewPhoto]]
]
"""Encodes files, given a function from path to file, states by path, and content keys that need no vector.

The contents come by path, those of some files at a time.
"""


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


def read_sentences(path: Path) -> list[str]:
    """Read the sentences of a text file (one per line) or a corpus."""
    from seesay.data.readers import read_corpus

    return read_lines(path) if path.suffix.lower() == ".txt" else list(read_corpus(path).texts())


class Update:
    """One update of an index, whose store has recorded the folders that were seen."""

    def __init__(self, store: Store, seen: FolderImages, encoder: PhotoEncoder) -> None:
        self._started = time.perf_counter()
        self._report = UpdateReport(
            skipped=list(seen.skipped),
            not_read=dict(sum(seen.not_read.values(), Counter())),
            absent=list(map(str, seen.absent)),
        )
        self._store = store
        self._seen = seen
        self._encoder = encoder
        self._skipped = store.skipped()
        self._before = {photo.path: photo for photo in store.photos().values()}
        self._gone: dict[str, list[Photo]] = defaultdict(list)  # by content key, for files that moved
        self._emptied: dict[int, str] = {}  # the empty folders of gone photos, by their ids
        for path, photo in self._before.items():
            if seen.is_gone(path):
                self._gone[photo.key].append(photo)
                if (folder := seen.emptied(path)) is not None:
                    self._emptied[photo.id] = str(folder)

    def run(self, progress: Progress) -> UpdateReport:
        """Embed new and changed files, and delete photos of missing ones.

        Every batch is a transaction, so an interrupted update continues where it stopped.

        Args:
            progress: called with the number of files done and the total.
        """
        todo = {
            path: state for path, state in self._seen.files.items() if not self._is_unchanged(path, state)
        }
        progress(0, len(todo))
        sizes = {state.size for state in todo.values()}
        # Files of other sizes have other contents.
        known = {photo.key for photo in self._before.values() if photo.state.size in sizes}
        done = 0
        for encoded in self._encoder(self._seen.file, todo, known) if todo else ():
            known.update(photo.key for photo in encoded.values() if not photo.fault)
            self._write(encoded)
            done += len(encoded)
            progress(done, len(todo))
        self._finish()
        self._report.seconds = time.perf_counter() - self._started
        return self._report

    def _finish(self) -> None:
        """Delete photos of missing files that have not moved, and the thumbnails that became unused."""
        unmoved = [photo.id for photos in self._gone.values() for photo in photos]
        gone = [id_ for id_ in unmoved if id_ not in self._emptied]
        kept = (self._emptied[id_] for id_ in unmoved if id_ in self._emptied)
        self._report.absent = list(dict.fromkeys([*self._report.absent, *kept]))
        with self._store.write() as writer:
            writer.delete(gone)
            writer.forget_skipped(filter(self._seen.is_gone, self._skipped))
            # Dead links, files that are too large, and others; not what cannot be read today.
            unusable = {
                path: (FileState(0, 0, 0), reason)
                for path, reason in self._seen.skipped
                if path not in self._before or self._seen.is_gone(path)
            }
            writer.put_skipped(unusable)
            for root in self._seen.roots:
                writer.set_not_read(root, self._seen.not_read[root.name])
            # Before the commit, after which their keys are lost.
            self._store.drop_thumbnails(writer.drop_orphans())
        self._report.deleted += len(gone)

    def read_texts(self, progress: Progress) -> None:
        """Read the text in the photos in which it has not been read; several files may have one content."""
        wanted = {key: path for path, key in self._store.without_text().items() if path in self._seen.files}
        texts = list[tuple[str, str, str, str]]()
        try:
            for done, (key, lines, fault, lasts) in enumerate(in_threads(self._text, wanted.items()), 1):
                if fault:
                    self._report.skipped.append((wanted[key], fault))
                if not fault or lasts:  # otherwise it is tried again
                    words = folded_words("\n".join(line.text for line in lines))
                    texts.append((key, words, json.dumps(lines), fault))
                if len(texts) == _BATCH_FILES:
                    self._write_texts(texts)
                progress(done, len(wanted))
        finally:
            self._write_texts(texts)
        self._report.seconds = time.perf_counter() - self._started

    def _write_texts(self, texts: list[tuple[str, str, str, str]]) -> None:
        """Write the texts that have been read, and forget them; readers see the new state once."""
        if texts:
            with self._store.write() as writer:
                for text in texts:
                    writer.put_text(*text)
            texts.clear()

    def _text(self, wanted: tuple[str, str]) -> tuple[str, list[TextLine], str, bool]:
        """Return the content key of a file, its text, or why it cannot be read and whether that lasts."""
        from seesay.data.decoders import OCR

        key, path = wanted
        try:
            data = self._seen.file(path).read()
            if content_key(data) != key:  # it would be kept for all files with the former content
                raise UnavailableImageError(f"{path}: has changed meanwhile.")
            return key, OCR.read_text(data, path), "", True
        except ImageError as error:
            photo = _faulty(key, path, error)
            return key, [], f"its text was not read: {photo.fault}", photo.lasts

    def _is_unchanged(self, path: str, state: FileState) -> bool:
        former = self._before.get(path)
        if former is not None and former.state == state:
            self._report.unchanged += 1
            return True
        known, reason = self._skipped.get(path, (None, ""))
        if known == state:
            self._report.skipped.append((path, reason))
        return known == state

    def _write(self, encoded: Mapping[str, NewPhoto]) -> None:
        contents = {photo.key: photo for photo in encoded.values()}
        usable = {path: photo.key for path, photo in encoded.items() if not photo.fault}
        faulty = {path: photo for path, photo in encoded.items() if photo.fault}
        # Of other faults, the photo stays in the index, and the file is tried again.
        lasting = {path: (self._seen.files[path], each.fault) for path, each in faulty.items() if each.lasts}
        with self._store.write() as writer:
            new = {key: each.content for key, each in contents.items() if each.content is not None}
            writer.put_vectors("image", new)
            writer.move_images(self._moved(usable))
            writer.put_images({path: (key, self._seen.files[path]) for path, key in usable.items()})
            writer.put_skipped(lasting)
        self._report.skipped += [(path, photo.fault) for path, photo in faulty.items()]
        self._report.deleted += len(lasting.keys() & self._before.keys())
        self._store.keep_thumbnails({key: each.thumbnail for key, each in contents.items() if each.thumbnail})

    def _moved(self, contents: Mapping[str, str]) -> dict[int, str]:
        """Count files in the report, by path with their content keys; return paths of moved photos by id."""
        moved = dict[int, str]()
        for path, key in contents.items():
            if (former := self._before.get(path)) is not None:
                self._report.unchanged += former.key == key
                self._report.changed += former.key != key
            elif self._gone.get(key):
                moved[self._gone[key].pop().id] = path
            else:
                self._report.added += 1
        self._report.moved += len(moved)
        return moved


def read_ahead(file_of: Callable[[str], FileSource], files: Mapping[str, FileState]) -> Iterator[FilesRead]:
    """Yield the files' bytes in batches; a thread reads the next batch while the caller works on this one."""
    batches = _batches(file_of, files)
    with ThreadPoolExecutor(1, thread_name_prefix="seesay-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


def _batches(file_of: Callable[[str], FileSource], files: Mapping[str, FileState]) -> Iterator[FilesRead]:
    """Yield as many files at a time as fit into memory."""
    batch, room = FilesRead(), _BATCH_BYTES
    for path, state in files.items():
        try:
            with file_of(path).open() as file:
                batch[path] = file.readall()
        except OSError as error:
            batch[path] = error
        room -= state.size
        if len(batch) == _BATCH_FILES or room <= 0:
            yield batch
            batch, room = FilesRead(), _BATCH_BYTES
    if batch:
        yield batch


def new_photos(
    embedder: Run,
    file_of: Callable[[str], FileSource],
    files: Mapping[str, FileState],
    known: Collection[str],
) -> Iterator[dict[str, NewPhoto]]:
    """Encode files in this process, see `PhotoEncoder`."""
    for batch in read_ahead(file_of, files):
        found, keys = dict[str, NewPhoto](), dict[str, str]()
        contents = dict[str, tuple[str, str, bytes]]()  # key, the path that errors name, and bytes
        for path, data in batch.items():
            if isinstance(data, OSError):
                found[path] = NewPhoto("", fault=data.strerror or str(data), lasts=False)
            else:
                keys[path] = key = content_key(data)
                contents.setdefault(key, (key, path, data))
        photos = {key: NewPhoto(key) for key in contents if key in known}
        new = [content for key, content in contents.items() if key not in photos]
        chunks = [new[start : start + CHUNK] for start in range(0, len(new), CHUNK)]
        for encoded in in_threads(lambda chunk: list(_encoded(chunk, embedder)), chunks):
            photos |= {photo.key: photo for photo in encoded}
        yield found | {path: photos[key] for path, key in keys.items()}


def _encoded(contents: Sequence[tuple[str, str, bytes]], embedder: Run) -> Iterator[NewPhoto]:
    """Decode photos and embed them, as many at a time as fit into memory."""
    from seesay.data.decoders import PHOTOS  # pydantic is slow to import, and no search needs it

    images, side = list[DecodedImage](), max(embedder.side, SHARED_SIDE)
    for key, name, data in contents:
        try:
            images.append(PHOTOS.decode(data, name, side, key=key))
        except ImageError as error:
            yield _faulty(key, name, error)
        if sum(image.pixels.nbytes for image in images) > _PIXEL_BYTES:
            yield from _embedded(images, embedder)
            images = []
    if images:
        yield from _embedded(images, embedder)


def _embedded(images: Sequence[DecodedImage], embedder: Run) -> Iterator[NewPhoto]:
    try:
        vectors = embedder.embed_photos(images)
    except ImageError as error:
        if len(images) == 1:
            yield _faulty(images[0].key, images[0].name, error)
        else:
            for image in images:
                yield from _embedded([image], embedder)
        return
    for image, vector in zip(images, vectors, strict=True):
        if is_finite(vector) and vector.any():
            content = Content(vector, image.size, image.taken)
            yield NewPhoto(image.key, content, thumbnail_of(image))
        else:
            yield NewPhoto(image.key, fault="the matcher returned no embedding.")


def _faulty(key: str, name: str, error: ImageError) -> NewPhoto:
    lasts = not isinstance(error, UnavailableImageError)
    return NewPhoto(key, fault=str(error).removeprefix(f"{name}: "), lasts=lasts)


def on_cluster(run: Run, address: str) -> PhotoEncoder:
    """Return a function that encodes photos on a cluster, see `done_on_cluster` for its address.

    Workers load the run by name. Photos and runs must have the same paths on every node.
    """
    named = run.name, run.fingerprint
    uses_gpu = any(source.uses_gpu for source in sources_of(run.encoders).values())

    def encode(
        file_of: Callable[[str], FileSource], files: Mapping[str, FileState], known: Collection[str]
    ) -> Iterator[dict[str, NewPhoto]]:
        items = ({"path": path, "file": file_of(path), "size": state.size} for path, state in files.items())
        shared = *named, frozenset(known)
        for block in done_on_cluster(address, _photos_on_node, shared, items, uses_gpu):
            yield from block

    return encode


def _photos_on_node(shared: Any) -> Work:
    """Return a function that encodes the files of a block.

    `shared` are the name of the run, its expected fingerprint, and the content keys that need not be encoded.
    """
    from seesay.runs.load import load_run

    name, fingerprint, known = shared
    run = load_run(name)
    check_fingerprint(name, run.fingerprint, fingerprint)

    def encode(block: Columns) -> Iterator[dict[str, NewPhoto]]:
        files = dict(zip(block["path"].tolist(), block["file"], strict=True))
        sizes = zip(files, block["size"].tolist(), strict=True)
        while some := list(islice(sizes, CHUNK)):  # for one thread: each core has a worker
            states = {path: FileState(0, size, 0) for path, size in some}
            yield from new_photos(run, files.__getitem__, states, known)

    return encode
