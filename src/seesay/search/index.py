"""An index: a folder that answers a sentence or an image with the nearest images or sentences."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from shlex import quote
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import Photo
from seesay.data.remote import is_folder, is_remote, path_of
from seesay.errors import SeesayError
from seesay.paths import disk_errors, locked, sweep
from seesay.runs.embedder import Embedder
from seesay.runs.images import read_texts
from seesay.search.embedder import DEFAULT_RUN, load_embedder
from seesay.search.gallery import Galleries, unrelated_vectors
from seesay.search.hits import Answer, Place
from seesay.search.look import Look, find_images, look
from seesay.search.prepared import PreparedQuery, embed_image
from seesay.search.quantise import check_recall
from seesay.search.query import Query
from seesay.search.roots import Root, holding
from seesay.search.seal import is_sealed
from seesay.search.searcher import Searcher
from seesay.search.sqlite_file import Kind
from seesay.search.store import FILE, Item, Store
from seesay.search.stores import open_vectors, store_address
from seesay.search.thumbnails import Thumbnails
from seesay.search.update import Progress, UpdateReport, add_sentences, update_images


class Index:
    """Images and sentences with their embeddings by one run, in a folder.

    Any thread may use an index, and another process may update it meanwhile: each answer is of one
    generation, the newest at the time of the query. The run is loaded at the first query or update.

    Layout: `index.sqlite` is the truth; `vectors-*.faiss` and `thumbnails/` can be deleted at any time.

    Example:
        >>> import tempfile
        >>> index = Index.create(tempfile.mkdtemp())  # with the shipped run
        >>> index.add_sentences(["a dog runs on the beach", "a red car"])
        2
        >>> index.search("a cat on a sofa")  # no images yet
        []
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        run: str | Path | Embedder | None = None,
        roots: Mapping[str, Path] | None = None,
        vectors: str = "",
    ) -> None:
        self.folder = folder
        self.store = store
        self._confirmed = dict(roots or {})  # folders by their names
        self.thumbnails = Thumbnails(folder / "thumbnails", store.meta["identity"])
        self._embedder: Embedder | None = None
        self._loading = threading.Lock()
        self._galleries = Galleries(store)
        kinds: tuple[Kind, Kind] = ("image", "sentence")
        self._embedded, self._recall_is_new = not vectors, False
        self._near = {
            kind: open_vectors(
                vectors, store, kind, folder / f"vectors-{kind}.faiss", lambda: unrelated_vectors(self.run)
            )
            for kind in kinds
        }
        self._searcher = Searcher(store, self._near, self._galleries, lambda: self.run)
        if run is not None:
            self._embedder = self._checked(load_embedder(run))

    @classmethod
    def create(cls, folder: str | Path, run: str | Path | Embedder = DEFAULT_RUN, store: str = "") -> Self:
        """Create an empty index in a new or empty folder.

        Args:
            folder: of the index.
            run: the name or folder of the run that embeds, or any `Embedder`.
            store: where vectors are searched, such as "qdrant+http://localhost:6333"; by default in this
                process.

        Raises:
            SeesayError: the folder holds an index or something else, or cannot be made; there is no such
                store; or there is no such run, or it has no embeddings.
        """
        folder, store, embedder = Path(folder), store_address(store), load_embedder(run)
        facts = embedder.name, embedder.fingerprint, embedder.dim  # a run without embeddings leaves no folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            others = [file.name for file in folder.iterdir() if not file.name.startswith(FILE)]
        except OSError as error:
            raise SeesayError(f"{folder}: cannot hold an index ({error.strerror}).") from error
        if others and not (folder / FILE).exists():
            raise SeesayError(f"{folder}: holds other files ({others[0]}, …); choose an empty folder.")
        items = Store.create(folder / FILE, *facts, str(embedder.detector or ""), store)
        return cls(folder, items, embedder, vectors=store)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        run: str | Path | Embedder | None = None,
        root: str | Path | Mapping[str, str | Path] | None = None,
        store: str = "",
    ) -> Self:
        """Open the index in a folder.

        Args:
            folder: of the index.
            run: the run that the vectors are of; by default the one that the index names, loaded when needed.
            root: the folder that its images are in, or, of several, by their names; by default those that
                the index names.
            store: where its vectors are searched; by default where the index says, if you made it here.

        Raises:
            SeesayError: there is no index, it is damaged, its vectors are of another run or in another store,
                or `root` is no folder, or not one of its own.
        """
        given = root if isinstance(root, Mapping) else {} if root is None else {"": root}
        for each in given.values():
            if not is_folder(path_of(each)):
                raise SeesayError(f"{each}: not a folder; name the one that holds the images of the index.")
        items = Store.open(Path(folder) / FILE)
        return cls(
            Path(folder),
            items,
            run,
            _checked_roots(Path(folder), items.roots(), given),
            _checked_address(Path(folder), items, store_address(store)),
        )

    @classmethod
    def open_or_create(
        cls,
        folder: str | Path,
        run: str | Path | Embedder | None = None,
        store: str = "",
        photos: Sequence[Path] | None = None,
    ) -> Self:
        """Open the index in a folder, or create one with the run, by default the shipped one.

        Args:
            folder: of the index.
            run: see `open`.
            store: see `open`.
            photos: the folders that it will be updated with; a new index needs some, which must exist, so
                that nothing is left of a mistyped name.

        Raises:
            SeesayError: as `open` and `create`, or a new index is given no folder, or one that is missing.
        """
        # A kill before the first transaction leaves an empty file, which is not an index yet.
        if Store.exists(Path(folder) / FILE):
            return cls.open(folder, run, store=store)
        if photos is not None and not photos:
            raise SeesayError(f"{folder}: no index there yet; name the folder of your images as well.")
        for each in photos or ():
            if not is_folder(each):
                raise SeesayError(f"{each}: no such folder; name the folder of your images.")
        return cls.create(folder, DEFAULT_RUN if run is None else run, store)

    def __enter__(self) -> Self:
        """Return the index, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the index."""
        self.close()

    def close(self) -> None:
        """Close the index's files and connections."""
        self.store.close()
        for near in self._near.values():
            near.close()

    @property
    def run_name(self) -> str:
        """The name or folder of the run that the vectors are of."""
        return str(self.store.meta["embedder"])

    @property
    def detector(self) -> Path | None:
        """The file of the run's detector of objects; None if it has none."""
        return Path(self.store.meta["detector"]) if self.store.meta["detector"] else None

    @property
    def run(self) -> Embedder:
        """The run that the vectors are of; loaded once.

        Raises:
            SeesayError: there is no such run any more, or its weights or preprocessing have changed.
        """
        with self._loading:
            if self._embedder is None:
                self._check_there()
                self._embedder = self._checked(load_embedder(self.run_name, self.detector))
            return self._embedder

    def _check_there(self) -> None:
        """Raise a SeesayError that says what to do if the folder of the run, or its detector, is gone."""
        options = "--run FOLDER" + (" --detector FILE" if self.detector else "")
        for path in Path(self.run_name), self.detector:
            if path is not None and path.is_absolute() and not path.exists():
                raise SeesayError(
                    f"{self.folder}: its vectors are of {path}, which is not there any more. If it was "
                    f"moved, say where it is now: seesay index --out {quote(str(self.folder))} {options}."
                )

    def set_recall(self, recall: float) -> None:
        """Choose lists of vectors by their recall@10, from the next update on.

        More than 50,000 vectors are searched in inverted lists of half-precision vectors. With a recall, the
        lists of the fewest bytes are made whose recall@10 reaches it; see `seesay.search.quantise`.

        Args:
            recall: from 0.5 to 1, measured for unrelated sentences and for images of the index.

        Raises:
            SeesayError: it is out of that range, or the vectors are in a database.
        """
        if not self._embedded:
            raise SeesayError("recall: is for vectors in this process; a database has settings of its own.")
        if check_recall(recall) != self.store.recall():
            with self.store.write() as writer:
                writer.set_recall(recall)
            self._recall_is_new = True

    def _checked(self, embedder: Embedder) -> Embedder:
        if (embedder.fingerprint, embedder.dim) != (self.store.meta["fingerprint"], self.store.dim):
            raise SeesayError(
                f"{self.folder}: its vectors are of {self.run_name}; this {embedder.name} has different "
                "weights or preprocessing. Open the index with the original run, or re-create it."
            )
        return embedder

    def _record(self, run: Embedder) -> None:
        """Name the run as it was loaded: it is the index's, but its folder may have been moved."""
        if (run.name, run.detector) != (self.run_name, self.detector):
            detector = str(run.detector or "")
            with self.store.write() as writer:
                writer.set_embedder(run.name, detector)
            self.store.meta |= {"embedder": run.name, "detector": detector}

    def roots(self) -> list[Root]:
        """Return the folders of the images, in the order of their names; none before their first update."""
        return [
            replace(root, folder=self._confirmed.get(root.name, root.folder)) for root in self.store.roots()
        ]

    def absent(self) -> list[Root]:
        """Return the folders that are not there now, as on a drive that is not mounted; no URL is asked."""
        return [root for root in self.roots() if not (is_remote(root.folder) or root.folder.is_dir())]

    def check_roots(self) -> None:
        """Check that who opened the index knows which folders it makes readable, before that is published.

        An index that someone else made can name any folder of this machine.

        Raises:
            SeesayError: another user or machine made the index, and it was opened without its roots.
        """
        foreign = [root for root in self.store.roots() if not self._is_confirmed(root)]
        if foreign:
            options = (
                f"--root {quote(f'{root.name}={root.folder}' if root.name else str(root.folder))}"
                for root in foreign
            )
            raise SeesayError(
                f"{self.folder}: was not made here by you, and would show the images in "
                f"{' and '.join(str(root.folder) for root in foreign)}. Confirm where its images are with "
                f"{' '.join(options)}, or name these folders to `seesay index`."
            )

    def _is_confirmed(self, root: Root) -> bool:
        """Whether who opened the index named a root now, or when they made it."""
        sealed = self.store.meta["identity"], root.folder, root.seal
        return root.name in self._confirmed or is_sealed(*sealed)

    def check_readable(self) -> None:
        """Check that the index can be read and is still in its folder.

        Raises:
            SeesayError: it is damaged or closed, or was deleted or replaced.
        """
        self.store.generation()
        self.store.check_in_place()

    def count(self, kind: Kind) -> int:
        """Count the items of a kind, "image" or "sentence"."""
        return self.store.count(kind)

    def update_images(
        self, folders: str | Path | Iterable[str | Path] = (), progress: Progress | None = None
    ) -> UpdateReport:
        """Make the images of the index those of its folders; only new contents are embedded.

        Images of a folder that is not there, or empty, are kept: its drive may not be mounted.

        Args:
            folders: to look at, by default all that the index is of; new ones are added to it. A folder may
                be a URL, such as "s3://bucket/photos".
            progress: called with the number of files done, and of all to do.

        Raises:
            SeesayError: the index is of no folder yet, or somebody else made it and no folder is named; one
                is no folder, is new and holds no image, or lies in another; none is there; or another process
                is updating the index.
        """
        given = [folders] if isinstance(folders, str | PurePath) else folders
        run = self.run
        with self._sole_writer():
            self._record(run)
            seen = self.look(given)
            report = update_images(self.store, self.thumbnails, seen, run, progress)
            self._galleries.learn(run)
            self._save("image")
        return report

    def look(self, folders: Iterable[str | Path] = ()) -> Look:
        """Find the images of folders, by default of all of the index; raise as `update_images` does."""
        roots = self.roots()
        named = [path_of(folder) for folder in folders]
        if not (named or roots):
            raise SeesayError(f"{self.folder}: of no folder yet; name the one that holds the images.")
        if not named:  # nobody has named them now, and an update seals them
            self.check_roots()
        return look(self.store, roots, named or [root.folder for root in roots])

    def remove_images(self, folder: str | Path) -> int:
        """Take a folder and its images out of the index, and return how many images these were.

        The files stay as they are.

        Args:
            folder: one that the index is of, or its name, or a subfolder of one in which no image is
                left; it need not be there.

        Raises:
            SeesayError: the index is not of that folder, or another process is updating the index.
        """
        run = self.run
        with self._sole_writer():
            roots = self.roots()
            there = path_of(folder).resolve()
            found = [root for root in roots if root.folder == there]
            found += [root for root in roots if root.name and root.name == str(folder)]
            inside = Root(self.path_of(there) or "", there)  # without a name it would hold everything
            if inside.name and self.store.paths(inside) and not find_images(there, self.folder).files:
                found.append(inside)
            if not found:
                folders = ", ".join(str(root.folder) for root in roots) or "none"
                raise SeesayError(f"{folder}: not a folder of {self.folder}; there is {folders}.")
            with self.store.write() as writer:
                removed = writer.delete_root(found[0])
                unused = writer.drop_orphans()
            self.thumbnails.drop(unused)
            self._galleries.learn(run)
            self._save("image")
        return removed

    def add_sentences(self, texts: Sequence[str], progress: Progress | None = None) -> int:
        """Add the sentences that are new and not empty, and return how many these are.

        Raises:
            SeesayError: `texts` is not a list of strings, or another process is updating the index.
        """
        texts, run = read_texts(texts, "texts"), self.run
        with self._sole_writer():
            self._record(run)
            added = add_sentences(self.store, texts, run, progress)
            self._save("sentence")
        return added

    def search(
        self,
        query: str | Path | bytes | Query | PreparedQuery,
        k: int = 10,
        where: str | None = None,
        after: Place | None = None,
    ) -> Answer:
        """Return the `k` images that fit a query best, best first.

        Args:
            query: a text such as "beach - people" in the grammar of `seesay.search.query`, an image's file
                as a `Path`, an encoded image, a `Query`, or one that `prepare` has prepared.
            k: number of results; images that the query names by their id are not among them.
            where: a filter such as "taken:2019 folder:italy", see `seesay.search.filters`; the best of the
                images that it lets through are found, whatever else there is.
            after: the `end` of the page before, of the same query and filter.

        Raises:
            ImageError: an image of the query cannot be read or decoded.
            QueryError: the query is empty or against the grammar, its parts cancel each other out, or it
                names an id that the index does not have.
        """
        return self._searcher.search(query, k, where, after)

    def similar(self, image: bytes | str | Path, k: int = 10) -> Answer:
        """Return the `k` images most similar to an encoded image or an image file, best first.

        Raises:
            ImageError: the image cannot be read or decoded.
        """
        return self.search(image if isinstance(image, bytes) else Path(image), k)

    def sentences_for(self, image: Photo | bytes | str | Path, k: int = 10) -> Answer:
        """Return the `k` sentences that describe a photo, encoded image or image file best, best first.

        Raises:
            ImageError: the image cannot be read or decoded.
        """
        return self._searcher.sentences_for(image, k)

    def item(self, id_: int) -> Item | None:
        """Return the item of that id; None if there is none."""
        return self.store.items([id_]).get(id_)

    def file_of(self, item: Item) -> Path | None:
        """Return the file of an image; None if it is gone or no longer lies under its root."""
        return None if item.path is None else self.file_at(item.path)

    def file_at(self, path: str) -> Path | None:
        """Return the file of a hit's path; None if it is gone or no longer lies under its root.

        Whether a file at a URL is gone is seen when it is read. It is None if somebody else made the index,
        until an update or `root` confirms the URL.
        """
        root = holding(self.roots(), path)
        if root is None:
            return None
        file = root.file(path).resolve()
        if is_remote(root.folder):
            return file if file.is_relative_to(root.folder) and self._is_confirmed(root) else None
        return file if file.is_relative_to(root.folder.resolve()) and file.is_file() else None

    def path_of(self, file: Path) -> str | None:
        """Return the path in the index of a resolved file; None if it lies under no root."""
        for root in self.roots():
            folder = root.folder.resolve()
            if file.is_relative_to(folder):
                return root.path(file.relative_to(folder).as_posix())
        return None

    def embed_image(self, image: Photo | bytes | str | Path, query: bool = False) -> NDArray[np.float32]:
        """Return the vector (dim,) of an image, see `embed_image` in `seesay.search.prepared`."""
        return embed_image(self.run, image, query)

    def prepare(self, queries: Sequence[Query]) -> list[PreparedQuery | SeesayError]:
        """Correct and embed queries, or say why one cannot be searched for; all are embedded at once."""
        return self._searcher.prepare(queries)

    def _save(self, kind: Kind) -> None:
        kinds = list(self._near) if self._recall_is_new else [kind]
        for each in kinds:
            with self._searcher.using(each) as near:
                near.save()
        self._recall_is_new = False

    @contextmanager
    def _sole_writer(self) -> Iterator[None]:
        self.store.check_in_place()
        busy = f"{self.folder}: another update is running; wait until it has finished."
        with disk_errors(self.folder), locked(self.folder / "update.lock", busy):
            sweep(self.folder)  # what a killed writer left
            yield


def _checked_roots(folder: Path, roots: Sequence[Root], given: Mapping[str, str | Path]) -> dict[str, Path]:
    """Where the images of an index are, by the names of its folders.

    Raises:
        SeesayError: the index has no folder of a name.
    """
    names = [root.name for root in roots]
    for name in given:
        if names and name not in names:
            known = " and ".join(f"{each}=FOLDER" if each else "FOLDER" for each in names)
            raise SeesayError(f"{folder}: say where its images are by {known}.")
    return {name: path_of(each).resolve() for name, each in given.items()}


def _checked_address(folder: Path, items: Store, given: str) -> str:
    """Where the vectors of an index are searched; an index from elsewhere could name any server.

    Raises:
        SeesayError: they are in another store than the given one, or nobody has confirmed the index's own.
    """
    address: str = items.meta.get("store", "")
    if given and given != address:
        there = address or "in its folder"
        raise SeesayError(f"{folder}: its vectors are {there}, not {given}; make a new index for that store.")
    if address and not given and not is_sealed(items.meta["identity"], address, items.meta["store_seal"]):
        raise SeesayError(
            f"{folder}: was not made here by you, and its vectors are in {address}. Confirm that with "
            f"--store {address}."
        )
    return address
