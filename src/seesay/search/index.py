"""An index, in which the nearest images or sentences to a query are found: in a folder, or in PostgreSQL."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePath

from seesay.data.images import content_key
from seesay.errors import SeesayError, naming_extras
from seesay.paths import is_folder
from seesay.runs.prepare import read_texts
from seesay.runs.run import Run
from seesay.search.folder_images import check_has_images, check_patterns, examine, images_in
from seesay.search.photo import Root
from seesay.search.reader import DEFAULT_RUN, IndexReader, load_embedder
from seesay.search.store import Store, closed_on_error, finite
from seesay.search.tables import KINDS, Content
from seesay.search.update import Progress, Update, UpdateReport, new_photos, on_cluster

_SENTENCES_AT_ONCE = 512


def is_address(place: str | Path) -> bool:
    """Return whether a place is that of a database, not a folder."""
    return str(place).startswith(("postgresql:", "postgres:"))


def store_exists(place: str | Path) -> bool:
    """Return whether there is an index at a place; a kill before the first transaction leaves none."""
    return _kind_of(place).exists(place)


def create_store(place: str | Path, embedder: str, fingerprint: str, dim: int) -> Store:
    """Create an empty store for the vectors of the run `embedder`, in a new folder or under a new address.

    Raises:
        SeesayError: there is one already, or it cannot be written.
    """
    about = {"embedder": embedder, "fingerprint": fingerprint, "dim": str(dim)}
    state = {"identity": uuid.uuid4().hex, "generation": "0", "changed": str(time.time()), "last_id": "0"}
    return _kind_of(place).create(place, about | state)


def store_for_copy(place: str | Path, meta: Mapping[str, str]) -> Store:
    """Return an empty store with the metadata of another one: a new one, or what a killed copy left.

    Raises:
        SeesayError: there is another index, or it cannot be written.
    """
    kind = _kind_of(place)
    store = kind.open(place) if kind.exists(place) else kind.create(place, {**meta, "generation": "0"})
    if (store.meta["identity"], store.generation()) != (meta["identity"], 0):
        store.close()
        raise SeesayError(f"{place}: already exists; copy to another place.")
    return store


def open_store(place: str | Path) -> Store:
    """Open a store.

    Raises:
        SeesayError: there is none, it is not an index, damaged, or made by another version of seesay.
    """
    return _kind_of(place).open(place)


def _kind_of(place: str | Path) -> type[Store]:
    if is_address(place):
        with naming_extras():
            from seesay.search.postgresql import DatabaseStore

            return DatabaseStore
    from seesay.search.file_store import FileStore

    return FileStore


class Index(IndexReader):
    """Images and sentences with their embeddings by a run, in a folder or a database.

    An index is thread-safe, and another process may update it: each answer is consistent with the newest
    state at the time of the query. It does not survive a fork: open it in each process. The run is loaded at
    the first query or update.

    Attributes:
        walked: the folders in which the last update by this object looked for images, roots included.

    Example:
        >>> import tempfile
        >>> index = Index.create(tempfile.mkdtemp())  # with the included run
        >>> index.add_sentences(["a dog runs on the beach", "a red car"])
        2
        >>> index.search("a cat on a sofa")  # no images yet
        []
    """

    walked: Sequence[Path] = ()

    @classmethod
    def create(cls, place: str | Path, run: str | Path | Run = DEFAULT_RUN) -> Index:
        """Create an empty index.

        Args:
            place: a new or empty folder, or an address such as "postgresql://localhost/photos#holidays".
            run: the name or folder of the run that embeds.

        Raises:
            SeesayError: the folder is not empty or cannot be created, the database cannot be used or has that
                index, the run does not exist, or has no embeddings.
        """
        embedder = load_embedder(run)
        about = embedder.name, embedder.fingerprint, embedder.dim  # a run without embeddings leaves no folder
        return cls(create_store(place, *about), embedder)

    @classmethod
    def open(
        cls,
        place: str | Path,
        run: str | Path | Run | None = None,
        root: str | Path | Mapping[str, str | Path] | None = None,
    ) -> Index:
        """Open an index.

        Args:
            place: its folder, or the address of its database.
            run: the run of the vectors; by default the one that the index names, loaded when needed.
            root: the folder of its images, or several by their names; by default those that the index names.

        Raises:
            SeesayError: there is no index, it is damaged, its vectors are of another run, or `root` is not a
                folder or has an unknown name.
        """
        given = root if isinstance(root, Mapping) else {} if root is None else {"": root}
        for each in given.values():
            if not is_folder(Path(each)):
                raise SeesayError(f"{each}: not a folder; name the folder of the index's images.")
        with closed_on_error(open_store(place)) as store:
            roots = store.roots()
            titles = {root.title: root.name for root in roots}  # as `info` shows them
            titles |= {root.name: root.name for root in roots}
            if roots and not given.keys() <= titles.keys():
                known = " and ".join(f"{root.name}=FOLDER" if root.name else "FOLDER" for root in roots)
                raise SeesayError(f"{place}: say where its images are with {known}; seesay info shows them.")
            folders = {titles.get(name, name): Path(each).resolve() for name, each in given.items()}
            return cls(store, run, folders)

    @classmethod
    def open_or_create(
        cls,
        place: str | Path,
        run: str | Path | Run | None = None,
        photos: Sequence[Path] | None = None,
        root: str | Path | Mapping[str, str | Path] | None = None,
    ) -> Index:
        """Open an index, or create one with the run, by default seesay-small.

        Args:
            place: see `open`, as for `run` and `root`.
            run: of the vectors.
            photos: the folders that it will be updated with; those of a new index must contain images, so
                that a mistyped name leaves nothing behind.
            root: of the images.

        Raises:
            SeesayError: as `open` and `create`; or a folder of a new index has no images, or none is given.
        """
        if store_exists(place):
            return cls.open(place, run, root)
        if photos is not None and not photos:
            raise SeesayError(f"{place}: no index there yet; also name the folder of your images.")
        check_has_images(photos or ())
        try:
            return cls.create(place, DEFAULT_RUN if run is None else run)
        except SeesayError:
            if not store_exists(place):
                raise
            return cls.open(place, run, root)  # another process created it meanwhile

    def info(self) -> dict[str, object]:
        """Describe the index without loading its run: folders, run, counts and faults.

        `changed` is the last change in UTC; `faults` are the reasons why files could not be
        indexed, or their text not read.

        Raises:
            SeesayError: the index is damaged or closed, or its folder cannot be read.
        """
        self.check_readable()
        absent = {root.folder for root in self.absent()}
        return {
            "index": self.place,
            "run": self.run_name,
            "folders": [
                {"name": root.title, "folder": str(root.folder), "available": root.folder not in absent}
                for root in self.roots()
            ],
            "images": self.count("image"),
            "sentences": self.count("sentence"),
            "changed": datetime.fromtimestamp(self.store.changed(), UTC).isoformat(timespec="seconds"),
            "exclude": self.store.exclude(),
            "not_read": self.store.not_read(),
            "text": bool(self.store.current("text")),
            "faults": dict(sorted(self.store.faults().items())),
        }

    def copy_to(self, place: str | Path, progress: Progress | None = None) -> None:
        """Copy all that the index holds, bit for bit, to a new folder or address.

        A copy that was killed leaves an empty index, which the same call fills.

        Args:
            place: see `create`.
            progress: called with the number of images and sentences done, and the total.

        Raises:
            SeesayError: there is an index, it cannot be written, or another process updates this one.
        """
        with self.store.sole_writer(), closing(store_for_copy(place, self.store.metadata())) as copy:
            done, total = 0, sum(map(self.count, KINDS))
            with copy.write() as writer:
                for table, rows in self.store.rows():
                    writer.insert(table, rows)
                    keys = [row[2] for row in rows if table == "vectors" and row[1] == "image"]
                    kept = {key: self.store.thumbnail(key) for key in keys}
                    copy.keep_thumbnails({key: data for key, data in kept.items() if data is not None})
                    done += len(rows) * (table == "items")
                    if progress:
                        progress(done, total)
                writer.set_meta(**self.store.metadata())
            for each in KINDS:
                copy.settle(each)

    def _record(self, run: Run) -> None:
        """Record the name of the loaded run, whose folder may have been moved."""
        if run.name != self.run_name:
            with self.store.write() as writer:
                writer.set_meta(embedder=run.name)
            self.store.meta["embedder"] = run.name

    def update_images(
        self,
        folders: str | Path | Iterable[str | Path] = (),
        progress: Progress | None = None,
        cluster: str = "",
        exclude: Sequence[str] | None = None,
        text: bool | None = None,
    ) -> UpdateReport:
        """Update the index from its folders; only new contents are embedded.

        Images of a missing or empty folder are kept, because its drive may not be mounted.

        Args:
            folders: the folders to update, by default all of the index; new ones are added.
            progress: called with the number of files done and the total.
            cluster: the address of a Ray cluster whose workers encode, see `done_on_cluster`.
            exclude: patterns of files and folders to leave out from now on, such as "*.png" or "Screenshots",
                see `check_patterns`; by default the former ones.
            text: whether to read the text in pictures from now on; by default as before.

        Raises:
            SeesayError: the index has no folders yet, or somebody else made it and no folder is named; one is
                not a folder, is new and has no images, or lies in another; all are missing; another process
                is updating the index; or there is no cluster, or it cannot load the run.
            MissingExtraError: Ray or the models that read text are not installed.
        """
        from seesay.data.ocr import check_ocr  # pydantic is slow to import, and no search needs it

        given = [Path(each) for each in ([folders] if isinstance(folders, str | PurePath) else folders)]
        run, progress = self.run, progress or (lambda _done, _total: None)
        if text:
            check_ocr()
        encoder = on_cluster(run, cluster) if cluster else partial(new_photos, run)
        with self.store.sole_writer():
            self._record(run)
            roots = self.roots()
            if not (given or roots):
                raise SeesayError(f"{self.place}: has no folders yet; name the folder of the images.")
            if not given:  # they are sealed below, and this call does not name them
                self.check_roots()
            patterns = self.store.exclude() if exclude is None else exclude
            seen = examine(self.store, roots, given or [root.folder for root in roots], patterns)
            self.walked = seen.walked
            with self.store.write() as writer:
                if exclude is not None:
                    writer.set_meta(exclude=json.dumps(check_patterns(exclude)))
                if text is not None:
                    writer.set_meta(text="yes" if text else "")
                if seen.alone:
                    writer.name_root(seen.alone)
                for root in seen.roots:
                    writer.put_root(root)
            update = Update(self.store, seen, encoder)
            report = update.run(progress)
            self._judge.learn(run, bool(report.added or report.changed or report.deleted))
            self.store.settle("image")
            if self.store.current("text"):  # which takes longest, and photos can be searched for meanwhile
                check_ocr()
                update.read_texts(progress)
            return report

    def folders(self, photos: Iterable[Path] = ()) -> list[Path]:
        """Return the folders of the index, and those to be added."""
        return list(dict.fromkeys([*(root.folder for root in self.roots()), *photos]))

    def remove_images(self, folder: str | Path) -> int:
        """Remove a folder and its images from the index, and return the number of images.

        Files are not touched.

        Args:
            folder: a folder of the index, its name, or a subfolder without images; it need not exist.

        Raises:
            SeesayError: the folder is not in the index, or another process is updating the index.
        """
        run = self.run
        with self.store.sole_writer():
            roots, there = self.roots(), Path(folder).resolve()
            found = [root for root in roots if root.folder == there]
            found += [root for root in roots if root.name and root.name == str(folder)]
            inside = [
                Root(root.path(there.relative_to(root.folder).as_posix()), there)
                for root in roots
                if root.folder in there.parents and not images_in(there).files
            ]
            found += filter(self.store.paths, inside)
            if not found:
                folders = ", ".join(str(root.folder) for root in roots) or "none"
                raise SeesayError(f"{folder}: not a folder of {self.place}; there is {folders}.")
            with self.store.write() as writer:
                removed = writer.delete_root(found[0])
                self.store.drop_thumbnails(writer.drop_orphans())
            self._judge.learn(run, bool(removed))
            self.store.settle("image")
            return removed

    def add_sentences(self, texts: Sequence[str], progress: Progress | None = None) -> int:
        """Add new, non-empty sentences, and return their number.

        Raises:
            SeesayError: `texts` is not a list of strings, or another process is updating the index.
        """
        texts, run = read_texts(texts, "texts"), self.run
        with self.store.sole_writer():
            self._record(run)
            tidy = (" ".join(text.replace("\0", " ").split()) for text in texts)  # PostgreSQL keeps no NUL
            keys = {text: content_key(text.encode()) for text in tidy if text}
            known = self.store.known("sentence", keys.values())
            new = [text for text, key in keys.items() if key not in known]
            for start in range(0, len(new), _SENTENCES_AT_ONCE):
                batch = new[start : start + _SENTENCES_AT_ONCE]
                vectors = finite(run.embed_sentences(batch))
                with self.store.write() as writer:
                    some = {text: keys[text] for text in batch}
                    writer.put_vectors(
                        "sentence", dict(zip(some.values(), map(Content, vectors), strict=True))
                    )
                    writer.put_sentences(some)
                if progress:
                    progress(start + len(batch), len(new))
            self.store.settle("sentence")
            return len(new)
