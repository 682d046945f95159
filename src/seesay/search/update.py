"""Updates of an index: the difference between its store and the files of its folders."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from seesay.encoders.images.encode import in_threads
from seesay.errors import SeesayError
from seesay.runs.run import Run
from seesay.search.contents import Contents
from seesay.search.encoding import EncodedElsewhere, new_photos, read_ahead
from seesay.search.photo import FileState, NewPhoto, Photo
from seesay.search.store import Store
from seesay.search.thumbnails import Thumbnails
from seesay.search.writer import Writer

Progress = Callable[[int, int], None]
"""Called with the number of files or sentences done, and the total."""


@dataclass
class UpdateReport:
    """The outcome of an update: the numbers of files added, changed, …

    Attributes:
        skipped: (path, reason) of images that cannot be used.
        not_read: the number of files of each unsupported kind, such as "raw" or "video".
        absent: missing or empty folders of the index, perhaps of an unmounted drive; their images are kept.
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

    def __init__(self, store: Store, thumbnails: Thumbnails, seen: Contents, embedder: Run) -> None:
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
        self._before = {photo.path: photo for photo in store.photos().values()}
        self._gone: dict[str, list[Photo]] = defaultdict(list)  # by content key, for files that moved
        for path, photo in self._before.items():
            if seen.is_gone(path):
                self._gone[photo.key].append(photo)

    def run(self, progress: Progress | None, elsewhere: EncodedElsewhere | None) -> UpdateReport:
        """Embed new and changed files, and delete photos of missing ones.

        Every batch is a transaction, so an interrupted update continues where it stopped.

        Args:
            progress: called with the number of files done and the total.
            elsewhere: encodes files in place of this process.
        """
        todo = {path: state for path, state in self._files.items() if not self._is_unchanged(path, state)}
        progress = progress or (lambda _done, _total: None)
        done = 0
        progress(done, len(todo))
        for encoded in self._encoded(todo, elsewhere) if todo else ():
            self._write(encoded)
            done += len(encoded)
            progress(done, len(todo))
        self._finish()
        self._report.seconds = time.perf_counter() - self._started
        return self._report

    def _encoded(
        self, todo: Mapping[str, FileState], elsewhere: EncodedElsewhere | None
    ) -> Iterable[dict[str, NewPhoto]]:
        if elsewhere is None:
            known = partial(self._store.known, "image")
            return (new_photos(batch, self._embedder, known) for batch in read_ahead(self._seen.file, todo))
        sizes = {state.size for state in todo.values()}
        # Files of other sizes have other contents.
        keys = {photo.key for photo in self._before.values() if photo.state.size in sizes}
        return elsewhere(self._seen.file, todo, keys)

    def _finish(self) -> None:
        """Delete photos of missing files that have not moved, and the thumbnails that became unused."""
        gone = [photo.id for photos in self._gone.values() for photo in photos]
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
        with self._store.write() as writer:
            for key, photo in contents.items():
                if photo.vector is not None:
                    writer.put_vector("image", key, photo.vector, photo.size, photo.taken)
            for path, photo in encoded.items():
                if not photo.fault:
                    self._put(writer, path, photo.key)
                    continue
                self._report.skipped.append((path, photo.fault))
                if photo.lasts:  # otherwise its photo stays in the index, and the file is tried again
                    writer.put_skipped(path, *self._files[path], photo.fault)
                    self._report.deleted += path in self._before
        new = [photo for photo in contents.values() if photo.thumbnail]
        for _ in in_threads(lambda photo: self._thumbnails.keep(photo.key, photo.thumbnail), new):
            pass  # they wait for the disk

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
