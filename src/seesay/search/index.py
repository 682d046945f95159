"""An index: a folder that answers a sentence or an image with the nearest images or sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Self

from seesay.data.corpus import CorpusImage
from seesay.data.remote import is_folder, path_of
from seesay.data.sources import FileSource
from seesay.errors import SeesayError
from seesay.paths import disk_errors, locked, sweep
from seesay.runs.embedder import Embedder
from seesay.runs.images import read_texts
from seesay.seal import is_sealed
from seesay.search.look import Look, find_images, look
from seesay.search.quantise import check_recall
from seesay.search.roots import Root
from seesay.search.searcher import DEFAULT_RUN, Searcher, load_embedder
from seesay.search.sqlite_file import Kind
from seesay.search.store import FILE, Store
from seesay.search.stores import store_address
from seesay.search.update import Progress, UpdateReport, add_sentences, update_images


class Index(Searcher):
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

    _recall_is_new = False

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

    def info(self) -> dict[str, object]:
        """Describe the index without loading its run: folders, run, counts, bytes on disk and faults.

        `changed` is when it was last written, in UTC; `faults` says why files could not be indexed.

        Raises:
            SeesayError: the index is damaged or closed, or its folder cannot be read.
        """
        self.check_readable()
        with disk_errors(self.folder):
            sizes = {file: file.stat() for file in self.folder.rglob("*") if file.is_file()}
        written = max(status.st_mtime for file, status in sizes.items() if file.name in (FILE, f"{FILE}-wal"))
        absent = {root.folder for root in self.absent()}
        return {
            "index": str(self.folder),
            "run": self.run_name,
            "folders": {str(root.folder): root.folder not in absent for root in self.roots()},
            "images": self.count("image"),
            "sentences": self.count("sentence"),
            "bytes": sum(status.st_size for status in sizes.values()),
            "changed": datetime.fromtimestamp(written, UTC).isoformat(timespec="seconds"),
            "not_read": self.store.not_read(),
            "faults": {path: reason for path, (*_, reason) in sorted(self.store.skipped().items())},
        }

    def set_recall(self, recall: float) -> None:
        """Choose lists of vectors by their recall@10, from the next update on.

        More than 50,000 vectors are searched in inverted lists of half-precision vectors. With a recall, the
        lists of the fewest bytes are made whose recall@10 reaches it; see `seesay.search.quantise`.

        Args:
            recall: from 0.5 to 1, measured for unrelated sentences and for images of the index.

        Raises:
            SeesayError: it is out of that range, or the vectors are in a database.
        """
        if "store" in self.store.meta:
            raise SeesayError("recall: is for vectors in this process; a database has settings of its own.")
        if check_recall(recall) != self.store.recall():
            with self.store.write() as writer:
                writer.set_recall(recall)
            self._recall_is_new = True

    def _record(self, run: Embedder) -> None:
        """Name the run as it was loaded: it is the index's, but its folder may have been moved."""
        if (run.name, run.detector) != (self.run_name, self.detector):
            detector = str(run.detector or "")
            with self.store.write() as writer:
                writer.set_embedder(run.name, detector)
            self.store.meta |= {"embedder": run.name, "detector": detector}

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
            self._judge.learn(run)
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
            self._judge.learn(run)
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

    def encode_on_cluster(self, folders: Iterable[str | Path], address: str) -> None:
        """Encode the new and changed images of folders on a Ray cluster, for an update to find in the cache.

        Args:
            folders: which every node must find at the same paths or URLs; by default all of the index.
            address: of the cluster, see `fill_stores_on_cluster`.

        Raises:
            SeesayError: there is no cluster, or the index is not of a run with image encoders alone; or as
                `update_images` does.
            MissingExtraError: Ray is not installed.
        """
        from seesay.encoders.feature_store import stores_folder
        from seesay.encoders.images.cluster import fill_stores_on_cluster
        from seesay.runs.run import Run

        run = self.run
        if not isinstance(run, Run):
            raise SeesayError(
                f"--cluster: {run.name} is not a run of image encoders alone; index without the option."
            )
        seen = self.look(folders)
        before = {seen.path_now(item.path or ""): item.state for item in self.store.items().values()}
        images = [
            CorpusImage(file.path, "", FileSource(seen.file(file.path)))
            for file in seen.there.files.values()
            if before.get(file.path) != file.state
        ]
        fill_stores_on_cluster(run.encoders, stores_folder(), images, address)

    def _save(self, kind: Kind) -> None:
        kinds = list(self._near) if self._recall_is_new else [kind]
        for each in kinds:
            with self.using(each) as near:
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
