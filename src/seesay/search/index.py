"""An index: a folder that answers a sentence or an image with the nearest images or sentences."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.data.pixels import content_key
from seesay.errors import SeesayError
from seesay.search.ann import Neighbours
from seesay.search.embedder import Embedder
from seesay.search.store import Item, Kind, Store
from seesay.search.thumbnails import Thumbnails
from seesay.search.update import Progress, UpdateReport, update_images

_FILE = "index.sqlite"
_SENTENCES_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Hit:
    """An answer. An image has `path` (relative to the index's root), width and height; a sentence `text`.

    Where a run re-ranked it, `score` is that run's, and score and place (from 1) in the shortlist are kept.
    """

    id: int
    score: float
    path: str | None
    text: str | None
    width: int | None = None
    height: int | None = None
    shortlist_score: float | None = None
    shortlist_rank: int | None = None


class Index:
    """Images and sentences with their vectors in one space, in a folder.

    Any thread may use an index, and another process may update it meanwhile: each answer is of one
    generation, the newest at the time of the question.

    Layout: `index.sqlite` is the truth; `vectors-*.faiss` and `thumbnails/` can be deleted at any time.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.thumbnails = Thumbnails(folder / "thumbnails")
        self._lock = threading.Lock()
        kinds: tuple[Kind, Kind] = ("image", "sentence")
        self._near = {kind: Neighbours(store, kind, folder / f"vectors-{kind}.faiss") for kind in kinds}

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is an index in `folder`; not yet, where a kill came before its first transaction."""
        return Store.exists(folder / _FILE)

    @classmethod
    def create(cls, folder: Path, embedder: Embedder) -> Index:
        """A new, empty index in a new or empty folder.

        Raises:
            SeesayError: the folder holds an index or something else, or cannot be made.
        """
        told = embedder.name, embedder.fingerprint, embedder.dim  # a run without vectors leaves no folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            others = [file.name for file in folder.iterdir() if not file.name.startswith(_FILE)]
        except OSError as error:
            raise SeesayError(f"{folder}: no place for an index ({error.strerror}).") from error
        if others and not (folder / _FILE).exists():
            raise SeesayError(f"{folder}: holds other files ({others[0]}, …); give a folder of its own.")
        return cls(folder, Store.create(folder / _FILE, *told))

    @classmethod
    def open(cls, folder: Path) -> Index:
        """The index in `folder`.

        Raises:
            SeesayError: there is none, or it is damaged.
        """
        return cls(folder, Store.open(folder / _FILE))

    def close(self) -> None:
        """Lets go of its files."""
        self.store.close()

    @property
    def embedder_name(self) -> str:
        """The shipped weights or the run that the vectors are of."""
        return str(self.store.meta["embedder"])

    def check(self, embedder: Embedder) -> None:
        """Sees that the vectors are of this embedder.

        Raises:
            SeesayError: they are of another, or of other weights under the same name.
        """
        meta = self.store.meta
        if (embedder.fingerprint, embedder.dim) != (meta["fingerprint"], self.store.dim):
            raise SeesayError(
                f"{self.folder}: its vectors are of {meta['embedder']}, not of this {embedder.name}: other "
                "weights or another preprocessing; use the former, or delete the index and index again."
            )

    def root(self) -> Path | None:
        """The folder of the images, which a hit's `path` is relative to; None before the first update."""
        return self.store.root()

    def count(self, kind: Kind) -> int:
        """How many items of a kind."""
        return self.store.count(kind)

    def update_images(self, root: Path, embedder: Embedder, progress: Progress | None = None) -> UpdateReport:
        """Makes the images of the index those of the folder `root`; see `seesay.search.update`.

        Raises:
            SeesayError: no such folder, no image in it, another folder's or embedder's index, or one that
                another process is updating.
        """
        self.check(embedder)
        with self._sole_writer():
            report = update_images(self.store, self.thumbnails, root, embedder, progress)
            self._refresh_and_save("image")
        return report

    def add_sentences(
        self, texts: Sequence[str], embedder: Embedder, progress: Progress | None = None
    ) -> int:
        """Adds the sentences that are not there yet and not empty; gives their number.

        Raises:
            SeesayError: another embedder's index, or one that another process is updating.
        """
        self.check(embedder)
        tidy = (" ".join(text.split()) for text in texts)
        keys = {text: content_key(text.encode()) for text in tidy if text}
        with self._sole_writer():
            known = self.store.known("sentence", keys.values())
            todo = [text for text, key in keys.items() if key not in known]
            for start in range(0, len(todo), _SENTENCES_AT_ONCE):
                part = todo[start : start + _SENTENCES_AT_ONCE]
                vectors = _checked(embedder.embed_sentences(part))
                with self.store.write() as writer:
                    for text, vector in zip(part, vectors, strict=True):
                        writer.put_vector("sentence", keys[text], vector)
                        writer.put_sentence(text, keys[text])
                if progress:
                    progress(start + len(part), len(todo))
            self._refresh_and_save("sentence")
        return len(todo)

    def search(self, sentence: str, embedder: Embedder, k: int = 10) -> list[Hit]:
        """The `k` images that a sentence describes best, best first.

        Raises:
            SeesayError: the sentence is empty, or the index is another embedder's.
        """
        self.check(embedder)
        if not sentence.strip():
            raise SeesayError("The sentence is empty: say what the images show.")
        return self._nearest("image", _checked(embedder.embed_sentences([sentence], query=True))[0], k)

    def similar(self, image: bytes, embedder: Embedder, k: int = 10) -> list[Hit]:
        """The `k` images most like an encoded image, best first.

        Raises:
            ImageError: it cannot be decoded.
            SeesayError: the index is another embedder's.
        """
        return self._nearest("image", self._embed_image(image, embedder), k)

    def sentences_for(self, image: bytes, embedder: Embedder, k: int = 10) -> list[Hit]:
        """The `k` sentences that describe an encoded image best, best first.

        Raises:
            ImageError: it cannot be decoded.
            SeesayError: the index is another embedder's.
        """
        return self._nearest("sentence", self._embed_image(image, embedder, query=True), k)

    def item(self, id_: int) -> Item | None:
        """One item, None where there is none of that id."""
        return self.store.items([id_]).get(id_)

    def file_of(self, item: Item) -> Path | None:
        """The file of an image; None where it is gone or no longer lies under the root."""
        root = self.store.root()
        if root is None or item.path is None:
            return None
        file = (root / item.path).resolve()
        return file if file.is_relative_to(root.resolve()) and file.is_file() else None

    def _embed_image(self, image: bytes, embedder: Embedder, query: bool = False) -> NDArray[np.float32]:
        self.check(embedder)
        vectors, errors = embedder.embed_images([image], ["the image"], query)
        if errors[0] is not None:
            raise errors[0]
        row: NDArray[np.float32] = _checked(vectors)[0]
        return row

    def _nearest(self, kind: Kind, query: NDArray[np.float32], k: int) -> list[Hit]:
        if k < 1:
            raise SeesayError(f"k is {k}: ask for at least one answer.")
        with self._lock:
            near = self._near[kind]
            near.refresh()
            ids, scores = near.search(query, k)
        items = self.store.items(ids.tolist())
        # What another process deleted since the refresh is left out.
        found = ((items.get(id_), score) for id_, score in zip(ids.tolist(), scores.tolist(), strict=True))
        return [Hit(it.id, score, it.path, it.text, it.width, it.height) for it, score in found if it]

    def _refresh_and_save(self, kind: Kind) -> None:
        with self._lock:
            self._near[kind].refresh()
            self._near[kind].save()

    @contextmanager
    def _sole_writer(self) -> Iterator[None]:
        # A lock that the system lets go of at a kill, on every platform: another SQLite file.
        lock = sqlite3.connect(self.folder / "update.lock", timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            raise SeesayError(f"{self.folder}: another update of it is running; wait for its end.") from error
        try:
            yield
        finally:
            lock.close()


def _checked(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(vectors).all():
        raise SeesayError("The matcher gave a vector that is not finite: its weights are damaged.")
    return vectors
