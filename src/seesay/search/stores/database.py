"""The common part of vector stores in databases: synchronisation, ties and pages.

A collection contains the vectors of one kind of an index, with the metadata of images for filters. Its mark,
which the index also stores, identifies the generation that it was updated to. The mark is written last, so an
interrupted update is repeated. The next update reloads lost vectors, or all vectors if the index does not
know the mark, which then belongs to another copy of its folder.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, first_line
from seesay.search.filters import Filter, Limit
from seesay.search.hits import Place
from seesay.search.sqlite_file import Kind
from seesay.search.store import Facts, Store
from seesay.search.stores import Found, Queries, next_page

Client = TypeVar("Client")
Columns = dict[str, Any]
"""Metadata of an image by the columns that filters compare."""


# By database and address, each with the collections that use it.
_CLIENTS: dict[tuple[type, str], tuple[Any, WeakSet[Any]]] = {}
_CONNECTING = threading.Lock()  # prevents two clients of one address

MARK = "seesay_mark"
NO_MARK = "0"  # of a collection that is not filled
SECONDS = 60  # that a request may take
FOLDER = 16_383  # characters of the path of a folder that are compared
_AT_ONCE = 1000  # vectors in a request, at most


class Collection(ABC, Generic[Client]):
    """Vectors of one kind in a collection of a database.

    Args:
        address: of the database.
        store: of the items.
        kind: of the items.
        queries: the queries for measuring recall, in databases with a configurable search.

    Attributes:
        title: of the database, for messages.
        secret: the environment variable with the credentials.
        errors: that the database raises.
        concurrent: see `VectorStore`.
        numbers_at_once: the limit of a request; about 10 MB as text.
    """

    title: ClassVar[str]
    secret: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    concurrent = True
    numbers_at_once = 500_000

    def __init__(self, address: str, store: Store, kind: Kind, queries: Queries) -> None:
        self._queries = queries
        self.address, self.dim = address, store.dim
        self.name = f"seesay_{store.meta['identity']}_{kind}"
        self._has_facts = kind == "image"
        self._store, self._kind = store, kind
        self._seen = -1  # generation of the items at the last look

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the database's errors to a SeesayError."""
        try:
            yield
        except Exception as failure:
            if (told := self._told(failure)) is None:
                raise
            raise SeesayError(f"{self.address}: {told}") from failure

    def _told(self, failure: Exception) -> str | None:
        """Return what an error of the database means and what to do; None for any other error."""
        if not isinstance(failure, self.errors):
            return None
        reason = first_line(failure)[:200]
        return f"{self.title} cannot be used ({reason}); start it, or check the address and {self.secret}."

    @abstractmethod
    def _marked(self) -> str | None:
        """Return the last mark, `NO_MARK` without a mark, or None without a collection."""

    @abstractmethod
    def _create(self) -> None:
        """Create the collection."""

    @abstractmethod
    def _put(self, ids: list[int], vectors: NDArray[np.float32], columns: Sequence[Columns]) -> None:
        """Write vectors (n, dim) with the metadata of images, replacing those with the same ids."""

    @abstractmethod
    def _mark(self, mark: str) -> None:
        """Write a mark of the collection."""

    @abstractmethod
    def _count(self) -> int:
        """Count the vectors."""

    @abstractmethod
    def _ids(self) -> Iterator[Sequence[int]]:
        """Iterate over all ids."""

    @abstractmethod
    def _delete(self, ids: list[int]) -> None:
        """Delete vectors."""

    @abstractmethod
    def _nearest(self, query: NDArray[np.float32], count: int, among: Any, exact: bool) -> Found:
        """Return ids and scores of the `count` nearest or fewer, best first; `exact` compares all vectors."""

    def _value(self, limit: Limit) -> Any:
        """Return what a comparison's column is compared with.

        That of "folder" is a list of folders: databases compare whole values, or only their beginning.
        """
        if limit.field == "folder":
            return [folder[:FOLDER] for folder in self._store.folders_with(str(limit.value))]
        return moment(str(limit.value)) if limit.field == "time" else limit.value

    @abstractmethod
    def passing(self, where: Filter) -> Any:
        """Return the filter in the language of the database, which applies it."""

    def _settle(self) -> None:
        """Build structures that the database does not build itself, after an update."""

    @abstractmethod
    def _connect(self) -> Client:
        """Return a new client of the address."""

    def _disconnect(self, client: Any) -> None:
        """Close a client."""
        client.close()

    @property
    def client(self) -> Client:
        """The client of the address, which all collections there share."""
        key = type(self), self.address
        client: Client
        with _CONNECTING:
            if key not in _CLIENTS:
                _CLIENTS[key] = self._connect(), WeakSet()
            client, users = _CLIENTS[key]
            users.add(self)
        return client

    def close(self) -> None:
        """Close the client once no other collection uses it."""
        key = type(self), self.address
        with _CONNECTING:
            if key not in _CLIENTS:
                return
            client, users = _CLIENTS[key]
            users.discard(self)
            if not users:
                del _CLIENTS[key]
                self._disconnect(client)

    def refresh(self) -> None:
        """Check once per generation that the collection exists; updates of the index fill it."""
        generation = self._store.generation()
        if self._seen == generation:
            return
        with self._errors():
            if self._marked() in (None, NO_MARK) and self._store.count(self._kind):
                raise SeesayError(
                    f"{self.address}: has no vectors of this index; run `seesay index` again to load them."
                )
        self._seen = generation

    def save(self) -> None:
        """Write vectors that the collection lacks, and delete those that the index no longer has."""
        with self._errors():
            mark = self._marked()
            since = self._store.marked(self._kind, mark) if mark else None
            if since == self._store.generation():
                return
            if mark is None:
                self._create()
            elif since is None:  # of another copy of the folder: nothing may remain
                self._mark(NO_MARK)
            with self._store.write() as writer:
                new = writer.add_mark(self._kind)
            changes = self._store.changes(self._kind, since or 0)
            self._write(changes.ids)
            if self._count() != len(changes.alive):
                self._write(self._lost(changes.alive))
            self._settle()
            self._mark(new)
            if self._marked() != new:
                raise SeesayError(
                    f"{self.address}: the database cannot store metadata of a collection, so every "
                    f"update would load all vectors again; upgrade it."
                )

    def _write(self, ids: NDArray[np.int64]) -> None:
        """Write vectors and facts of items to the collection."""
        at_once = min(_AT_ONCE, max(self.numbers_at_once // self.dim, 1))
        for start in range(0, len(ids), at_once):
            here, rows = self._store.vectors(ids[start : start + at_once].tolist())
            those = here.tolist()
            known = self._store.facts(those) if self._has_facts else {}
            columns = [columns_of(known[id_]) if id_ in known else _UNKNOWN for id_ in those]
            self._put(those, rows.astype(np.float32), columns)

    def _lost(self, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Delete vectors that are not alive, and return missing ones."""
        there = [np.empty(0, np.int64)]
        for some in self._ids():
            there.append(np.asarray(some, np.int64))
            if gone := np.setdiff1d(there[-1], alive).tolist():
                self._delete(gone)
        return np.setdiff1d(alive, np.concatenate(there))

    def search(
        self, query: NDArray[np.float32], k: int, among: Any = None, after: Place | None = None
    ) -> Found:
        """See `VectorStore`; pages after the first compare all vectors."""
        with self._errors():
            if not self._store.count(self._kind):  # there may be no collection
                return np.empty(0, np.int64), np.empty(0, np.float32)
            if after is None:
                return self._best(query, k, among, exact=False)
            return next_page(lambda asked: self._best(query, asked, among, exact=True), k, after)

    def _best(self, query: NDArray[np.float32], k: int, among: Any, exact: bool) -> Found:
        asked = k + 1
        while True:
            ids, scores = self._nearest(query, asked, among, exact)
            # Of equal scores those with the lowest ids are wanted, but a database returns any: ask for all.
            if len(ids) < asked or scores[-1] < scores[k - 1]:
                order = np.lexsort((ids, -scores))[:k]
                return ids[order], scores[order]
            asked *= 2


def columns_of(facts: Facts) -> Columns:
    """The metadata of an image for filters."""
    orientation = "square" if facts.width == facts.height else "landscape"
    return {
        "folder": facts.folder[:FOLDER],
        "orientation": "portrait" if facts.height > facts.width else orientation,
        "time": moment(facts.time),
        "width": facts.width,
        "height": facts.height,
        "added": facts.added,
    }


# Of sentences, in databases in which every column has a value.
_UNKNOWN: Columns = {"folder": "", "orientation": "", "time": 0, "width": 0, "height": 0, "added": 0.0}


def moment(text: str) -> int:
    """Convert "2019-06-30T12:00:00", or a prefix, to 20190630120000."""
    return int("".join(letter for letter in text if letter.isdigit()).ljust(14, "0"))
