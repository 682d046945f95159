"""The reading half of an index: queries, photos, thumbnails and folders."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from shlex import quote
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seesay.data.images import DecodedImage, read_image
from seesay.encoders.images.encode import SHARED_SIDE
from seesay.errors import QueryError, SeesayError
from seesay.paths import is_folder, open_file
from seesay.runs.run import Run
from seesay.seal import check_seals, is_sealed
from seesay.search.duplicates import stacks
from seesay.search.filters import EVERYTHING, Filter, content_words
from seesay.search.hits import Answer, Hit, PageEnd, TextHit
from seesay.search.judging import Judge
from seesay.search.photo import Photo, Root, root_of, thumbnail_of
from seesay.search.query import Indexed, PreparedQuery, Query, embed_image, prepare_query
from seesay.search.store import Store
from seesay.search.tables import Kind
from seesay.text.words import asks_for_style, description_in, english_for

DEFAULT_RUN = "seesay-small"
_LEAST_OF_A_NAME = 3  # letters with which files, folders and text in pictures are looked for
_MOST_WORDS = 50  # of a query that are looked for in pictures: SQL is not of any length


def load_embedder(run: str | Path | Run) -> Run:
    """Load a run by name or folder; return runs unchanged.

    Raises:
        SeesayError: the run does not exist.
    """
    if not isinstance(run, str | Path):
        return run
    from seesay.runs.load import load_run

    return load_run(str(run))


class IndexReader:
    """The reading half of an index; `seesay.search.index.Index` adds writing.

    Thread-safe; each answer is consistent with the newest state at its time.

    Args:
        store: of its items.
        run: the run of the vectors; by default the one that the store names, loaded on first use.
        roots: the folders of the images, by name; by default those in the store.
    """

    def __init__(
        self,
        store: Store,
        run: str | Path | Run | None = None,
        roots: Mapping[str, Path] | None = None,
    ) -> None:
        self.store = store
        self._confirmed = dict(roots or {})
        self._embedder: Run | None = None
        self._loading = threading.Lock()
        self._judge = Judge(store)
        if run is not None:
            self._embedder = self._checked(load_embedder(run))

    def __enter__(self) -> Self:
        """Return the index, to be closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the index."""
        self.close()

    def close(self) -> None:
        """Close the index's files and connections."""
        self.store.close()

    @property
    def place(self) -> str:
        """The folder or address of the index."""
        return self.store.place

    @property
    def run_name(self) -> str:
        """The name or folder of the run of the vectors."""
        return str(self.store.meta["embedder"])

    @property
    def run(self) -> Run:
        """The run of the vectors, loaded once.

        Raises:
            SeesayError: the run no longer exists, or its weights or preprocessing have changed.
        """
        self.store.check_process()
        with self._loading:
            if self._embedder is None:
                path = Path(self.run_name)
                if path.is_absolute() and not path.exists():
                    raise SeesayError(
                        f"{self.place}: its vectors were computed by {path}, which no longer exists. If you "
                        f"moved it, give its new place: seesay index --out {quote(self.place)} --run FOLDER."
                    )
                self._embedder = self._checked(load_embedder(self.run_name))
            return self._embedder

    def _checked(self, embedder: Run) -> Run:
        if (embedder.fingerprint, embedder.dim) != (self.store.meta["fingerprint"], self.store.dim):
            raise SeesayError(
                f"{self.place}: its vectors were computed by {self.run_name}; this {embedder.name} has "
                f"different weights or preprocessing. Open the index with the original run, or "
                f"re-create it."
            )
        return embedder

    def search(
        self,
        query: str | Path | bytes | Query | PreparedQuery,
        k: int = 10,
        where: str | None = None,
        after: PageEnd | None = None,
    ) -> Answer:
        """Return the `k` images that fit a query best, best first.

        Args:
            query: a text such as "beach - people" in the grammar of `seesay.search.query`, an image's file
                as a `Path`, an encoded image, a `Query`, or one that `prepare` has prepared. A single word
                that looks like a file's name, such as IMG_2021, finds files of that name, if there are any.
            k: the number of results; images that the query refers to by id are left out.
            where: a filter such as "taken:2019 folder:italy", see `seesay.search.filters`; only matching
                images are searched.
            after: the `end` of the previous page of the same query and filter.

        Raises:
            ImageError: an image of the query cannot be read or decoded.
            QueryError: the query is empty or malformed, its parts cancel each other out, or it refers to an
                unknown id; or the filter is malformed.
            SeesayError: `k` is less than 1.
        """
        passing = Filter.parse(where or "")
        asked = query if isinstance(query, PreparedQuery) else self.prepare(Query.of(query))
        named = passing.named(asked.given.name) if asked.given.name else None
        is_name = named is not None and bool(self.store.newest(1, named))
        if named is not None and is_name:  # no other photo is meant
            passing = named
        own = {part.term.id for part in asked.query.parts if isinstance(part.term, Indexed)}
        found = self.nearest("image", asked.vector, k, passing, after, own)
        if is_name:
            return Answer([replace(hit, probability=1.0) for hit in found], end=found.end)
        # The best of the whole gallery may not be among those found.
        is_part = asked.query.is_text and (passing != EVERYTHING or after is not None)
        best: Sequence[Hit] = self.nearest("image", asked.vector, 1) if found and is_part else ()
        chances = self._judge.probabilities(found, asked, self.run, best).tolist() if found else []
        hits = [replace(hit, probability=each) for hit, each in zip(found, chances, strict=True)]
        answer = Answer(hits, asked.unknown, found.end, asked.corrected)
        if after is None and len(asked.given.parts) == 1:
            text = " ".join(asked.given.unquoted)
            answer.query_meant = english_for(text) if text else None
            answer.text_hits = self._reading(" ".join(asked.given.sentences), k, passing)
            if not any(hit.fits for hit in answer) and (found or not where):
                answer.where_meant = self._named_so(text.strip(), where or "")
        answer.asks_for_style = asked.query.is_text and all(map(asks_for_style, asked.query.wanted))
        return answer

    def _named_so(self, text: str, where: str) -> str | None:
        """Return a filter for files or folders with a name that contains a text; None if there are none."""
        if len(text) < _LEAST_OF_A_NAME or '"' in text:
            return None
        for field in ("name", "folder"):
            condition = f'{field}:"{text}"' if " " in text else f"{field}:{text}"
            wanted = f"{where} {condition}".strip()
            with suppress(QueryError):  # it is too long
                if self.store.newest(1, Filter.parse(wanted)):
                    return wanted
        return None

    def _reading(self, text: str, k: int, where: Filter) -> list[TextHit]:
        """Return at most `k` images in which most content words of a text were read, see `TextHit`."""
        words = content_words(description_in(text))
        if len("".join(words)) < _LEAST_OF_A_NAME:
            return []
        found = self.store.with_words(words[:_MOST_WORDS], k, where)
        photos = self.store.photos([id_ for id_, _ in found])
        return [
            TextHit(photo.id, photo.path, photo.width, photo.height, count, min(len(words), _MOST_WORDS))
            for id_, count in found
            if (photo := photos.get(id_))
        ]

    def sentences_for(self, image: DecodedImage | bytes | str | Path, k: int = 10) -> Answer:
        """Return the `k` sentences that best describe a photo, encoded image or image file, best first.

        Raises:
            ImageError: the image cannot be read or decoded.
        """
        return self.nearest("sentence", embed_image(self.run, image, query=True), k)

    def prepare(self, query: Query) -> PreparedQuery:
        """Correct and embed a query, which can then be searched for several times.

        Raises:
            SeesayError: it cannot be embedded.
        """
        return prepare_query(query, self.run, self.store)

    def nearest(
        self,
        kind: Kind,
        vector: NDArray[np.float32],
        k: int,
        where: Filter = EVERYTHING,
        after: PageEnd | None = None,
        without: Collection[int] = (),
    ) -> Answer:
        """Return the `k` items nearest to a vector (dim,), see `Store.nearest`, without those of some ids."""
        if k < 1:
            raise SeesayError(f"k is {k}; ask for at least one result.")
        one_more = k + len(without) + 1  # to know whether there are more
        ids, scores = self.store.nearest(kind, vector, one_more, where, after)
        best = [pair for pair in zip(ids.tolist(), scores.tolist(), strict=True) if pair[0] not in without]
        if kind == "sentence":
            texts = self.store.sentences(ids.tolist())
            hits = [Hit(id_, score, None, texts[id_]) for id_, score in best[:k] if id_ in texts]
        else:  # without those that another process has deleted meanwhile
            photos = self.store.photos(ids.tolist())
            found = [(photos[id_], score) for id_, score in best[:k] if id_ in photos]
            hits = [Hit(each.id, score, each.path, None, each.width, each.height) for each, score in found]
        if len(best) <= k:
            return Answer(hits)
        last, score = best[k - 1]
        seen = (after.seen if after is not None else 0) + k + len(without)
        return Answer(hits, end=PageEnd(score, last, seen))

    def roots(self) -> list[Root]:
        """Return the folders of the images, in the order of their names; none before their first update."""
        return [
            replace(root, folder=self._confirmed.get(root.name, root.folder)) for root in self.store.roots()
        ]

    def absent(self) -> list[Root]:
        """Return the missing folders, for example on an unmounted drive."""
        return [root for root in self.roots() if not is_folder(root.folder)]

    def check_roots(self) -> None:
        """Check that the user has confirmed the folders that the index would publish.

        An index that someone else made can name any folder of this machine.

        Raises:
            SeesayError: another user or machine made the index, and it was opened without its roots.
        """
        foreign = [root for root in self.store.roots() if not self._is_confirmed(root)]
        if foreign:
            check_seals()
            options = (
                f"--root {quote(f'{root.name}={root.folder}' if root.name else str(root.folder))}"
                for root in foreign
            )
            raise SeesayError(
                f"{self.place}: was not made here by you, and would show the images in "
                f"{' and '.join(str(root.folder) for root in foreign)}. Confirm where its images are with "
                f"{' '.join(options)}, or name these folders to `seesay index`."
            )

    def may_show(self, photo: Photo) -> bool:
        """Return whether the user has confirmed the folder of an image, see `check_roots`.

        Another user may have added it since a server started.
        """
        root = root_of(self.store.roots(), photo.path)
        return root is not None and self._is_confirmed(root)

    def _is_confirmed(self, root: Root) -> bool:
        """Whether the user confirmed a root now, or when they made the index."""
        return root.name in self._confirmed or is_sealed(self.store.meta["identity"], root.folder, root.seal)

    def check_readable(self) -> None:
        """Check that the index can be read and is still in its folder.

        Raises:
            SeesayError: the index is damaged, closed, deleted or replaced.
        """
        self.store.generation()
        self.store.check_in_place()

    def count(self, kind: Kind) -> int:
        """Count the items of a kind, "image" or "sentence"."""
        return self.store.count(kind)

    def photo(self, id_: int) -> Photo | None:
        """Return the photo with that id, or None."""
        return self.store.photos([id_]).get(id_)

    def stacks(self) -> list[list[Photo]]:
        """Group copies of one picture, and shots of one burst: the photos of each stack, its first one first.

        Images without a thumbnail, stored or made of their file, are in no stack.
        """
        photos = self.store.photos()
        copies = dict[str, list[int]]()  # by content
        for id_ in sorted(photos):
            copies.setdefault(photos[id_].key, []).append(id_)

        def picture(id_: int) -> bytes | None:
            with suppress(SeesayError, OSError):
                return self.thumbnail(photos[id_])
            return None

        firsts, seconds = [same[0] for same in copies.values()], dict[int, float]()
        for each in firsts:
            if photos[each].dated_by == "camera":
                with suppress(ValueError):  # of a damaged index
                    seconds[each] = datetime.fromisoformat(photos[each].time).replace(tzinfo=UTC).timestamp()
        found = stacks(*self.store.vectors(firsts), picture, seconds)
        stacked = {id_ for group in found for id_ in group}
        found += [same[:1] for same in copies.values() if len(same) > 1 and same[0] not in stacked]
        whole = [[id_ for first in group for id_ in copies[photos[first].key]] for group in found]
        return [[photos[id_] for id_ in group] for group in sorted(whole, key=lambda ids: (-len(ids), ids))]

    def thumbnail(self, photo: Photo) -> bytes:
        """Return the thumbnail of an image, made of its file and kept if it is missing.

        Raises:
            ImageError: the image cannot be decoded.
            OSError: see `open_image`.
        """
        if (kept := self.store.thumbnail(photo.key)) is not None:
            return kept
        from seesay.data.decoders import PHOTOS  # pydantic is slow to import, and no search needs it

        decoded = PHOTOS.decode(self.read_image(photo), "the image", SHARED_SIDE)
        made = thumbnail_of(decoded)
        if decoded.key == photo.key:  # otherwise the file has changed since it was indexed
            self.store.keep_thumbnails({photo.key: made})
        return made

    def read_image(self, photo: Photo) -> bytes:
        """Return the bytes of the file of an image; see `open_image` and `seesay.data.images.read_image`."""
        with self.open_image(photo) as file:
            return read_image(file)

    def open_image(self, photo: Photo) -> FileIO:
        """Open the file of an image, see `open_file`.

        Raises:
            OSError: it is missing, cannot be read, or is outside its root.
        """
        root = root_of(self.roots(), photo.path)
        if root is None:
            raise FileNotFoundError(errno.ENOENT, "in no folder of the index", photo.path)
        return open_file(root.file(photo.path), root.folder)

    def file_at(self, path: str) -> Path | None:
        """Return the file of a hit's path; None if it is missing or outside its root."""
        root = root_of(self.roots(), path)
        if root is None:
            return None
        file = root.file(path).resolve()
        is_there = os.path.isfile(file)  # noqa: PTH113 — is_file raises an error if a disk is missing
        return file if is_there and file.is_relative_to(root.folder.resolve()) else None
