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
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, first_line
from seesay.search.filters import Filter, Limit
from seesay.search.hits import Place
from seesay.search.sqlite_file import Kind
from seesay.search.store import Facts, Store
from seesay.search.stores import Found, Queries, next_page


class _Closable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)


@dataclass
class _Shared:
    """A client, shared by the collections that use it."""

    client: Any
    users: WeakSet[Any] = field(default_factory=WeakSet)


_CLIENTS: dict[tuple[type, str], _Shared] = {}  # by database and address
_CONNECTING = threading.Lock()  # to one address twice, which an edition within a process refuses

MARK = "seesay_mark"
NO_MARK = "0"  # of a collection that is not filled
SECONDS = 60  # that a request may take
FOLDER = 16_383  # characters of the path of a folder that are compared: Milvus takes 64 kB
_AT_ONCE = 1000  # vectors in a request, at most


class Collection(ABC, Generic[Client]):
    """Vectors of one kind in a collection of a database.

    Args:
        address: of the database.
        store: of the items.
        kind: of the items.
        queries: the queries for measuring recall, in databases with a configurable search.

    Attributes:
        title: of the database, for people.
        secret: the environment variable that lets one in.
        errors: that the database raises.
        concurrent: see `VectorStore`; True for servers, False for embedded editions.
        numbers_at_once: the limit of a request; about 10 MB as text (Qdrant accepts 32).
    """

    title: ClassVar[str]
    secret: ClassVar[str]
    errors: ClassVar[tuple[type[Exception], ...]]
    numbers_at_once = 500_000

    def __init__(self, address: str, store: Store, kind: Kind, queries: Queries | None = None) -> None:
        self._queries = queries
        self.address, self.dim = address, store.dim
        self.name = f"seesay_{store.meta['identity']}_{kind}"
        self._has_facts = kind == "image"
        self._store, self._kind = store, kind
        self._seen = -1  # generation of the items at the last look
        self._is_there = False  # the collection, as far as is known; to ask takes as long as to search
        self.concurrent = self._is_remote()

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """Yield the client; the database's errors become a SeesayError."""
        try:
            yield self._client()
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
    def _marked(self, client: Client) -> str | None:
        """Return the last mark, `NO_MARK` without a mark, or None without a collection."""

    @abstractmethod
    def _create(self, client: Client) -> None:
        """Create the collection."""

    @abstractmethod
    def _put(
        self, client: Client, ids: list[int], vectors: NDArray[np.float32], facts: Sequence[Facts | None]
    ) -> None:
        """Write vectors (n, dim) with the metadata of images, replacing those with the same ids."""

    @abstractmethod
    def _mark(self, client: Client, mark: str) -> None:
        """Write a mark of the collection."""

    @abstractmethod
    def _count(self, client: Client, among: Any = None) -> int:
        """Count the vectors, or those that match a filter."""

    @abstractmethod
    def _ids(self, client: Client) -> Iterator[Sequence[int]]:
        """Iterate over all ids."""

    @abstractmethod
    def _delete(self, client: Client, ids: list[int]) -> None:
        """Delete vectors."""

    @abstractmethod
    def _nearest(
        self, client: Client, query: NDArray[np.float32], count: int, among: Any, exact: bool
    ) -> Found:
        """Return ids and scores of the `count` nearest or fewer, best first; `exact` compares all vectors."""

    def _folders(self, limit: Limit) -> list[str]:
        """The folders whose path holds that text: databases compare whole values, or only their beginning."""
        return [folder[:FOLDER] for folder in self._store.folders_with(str(limit.value))]

    @abstractmethod
    def passing(self, where: Filter) -> Any:
        """Return the filter in the language of the database, which applies it."""

    def _settle(self, client: Client) -> None:
        """Build structures that the database does not build itself, after an update."""

    @abstractmethod
    def _connect(self) -> Client:
        """Return a new client of the address."""

    def _disconnect(self, client: Client) -> None:
        """Close a client."""
        client.close()

    def _client(self) -> Client:
        """Return the shared client of the address."""
        key = type(self), self.address
        with _CONNECTING:
            if key not in _CLIENTS:
                _CLIENTS[key] = _Shared(self._connect())
            shared = _CLIENTS[key]
            shared.users.add(self)
        client: Client = shared.client
        return client

    def _is_remote(self) -> bool:
        """Whether the address is a server, and not an embedded edition."""
        return not self.address.startswith(("edge:", "path:"))

    def close(self) -> None:
        """Close the client once no other collection uses it."""
        self._is_there = False
        key = type(self), self.address
        with _CONNECTING:
            if (shared := _CLIENTS.get(key)) is None:
                return
            shared.users.discard(self)
            if not shared.users:
                self._disconnect(_CLIENTS.pop(key).client)

    def refresh(self) -> None:
        """Check once per generation that the collection exists; updates of the index fill it."""
        generation = self._store.generation()
        if self._seen == generation:
            return
        with self._connected() as client:
            if self._marked(client) in (None, NO_MARK) and self._store.count(self._kind):
                raise SeesayError(
                    f"{self.address}: has no vectors of this index; run `seesay index` again to load them."
                )
        self._seen = generation

    def save(self) -> None:
        """Write vectors that the collection lacks, and delete those that the index no longer has."""
        with self._connected() as client:
            mark = self._marked(client)
            since = self._store.marked(self._kind, mark) if mark else None
            if since == self._store.generation():
                return
            if mark is None:
                self._create(client)
            elif since is None:  # of another copy of the folder, of which nothing may stay
                self._mark(client, NO_MARK)
            with self._store.write() as writer:
                new = writer.add_mark(self._kind)
            changes = self._store.changes(self._kind, since or 0)
            self._write(client, changes.ids)
            if self._count(client) != len(changes.alive):
                self._write(client, self._lost(client, changes.alive))
            self._settle(client)
            self._mark(client, new)
            if self._marked(client) != new:
                raise SeesayError(
                    f"{self.address}: the database cannot store metadata of a collection, so every "
                    f"update would load all vectors again; upgrade it."
                )

    def _write(self, client: Client, ids: NDArray[np.int64]) -> None:
        """Write vectors and facts of items to the collection."""
        at_once = min(_AT_ONCE, max(self.numbers_at_once // self.dim, 1))
        for start in range(0, len(ids), at_once):
            here, rows = self._store.vectors(ids[start : start + at_once].tolist())
            those = here.tolist()
            known = self._store.facts(those) if self._has_facts else {}
            self._put(client, those, rows.astype(np.float32), [known.get(id_) for id_ in those])

    def _lost(self, client: Client, alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Delete vectors that are not alive, and return missing ones."""
        there = [np.empty(0, np.int64)]
        for some in self._ids(client):
            there.append(np.asarray(some, np.int64))
            if gone := np.setdiff1d(there[-1], alive).tolist():
                self._delete(client, gone)
        return np.setdiff1d(alive, np.concatenate(there))

    def search(
        self, query: NDArray[np.float32], k: int, among: Any = None, after: Place | None = None
    ) -> Found:
        """See `VectorStore`; pages after the first compare all vectors."""
        with self._connected() as client:
            self._is_there = self._is_there or self._marked(client) is not None
            if not self._is_there:  # nothing of this kind was ever indexed
                return np.empty(0, np.int64), np.empty(0, np.float32)
            if after is None:
                return self._best(client, query, k, among, exact=False)
            total = self._count(client, among)
            return next_page(
                lambda asked: self._best(client, query, asked, among, exact=True), k, after, total
            )

    def _best(self, client: Client, query: NDArray[np.float32], k: int, among: Any, exact: bool) -> Found:
        asked = k + 1
        while True:
            ids, scores = self._nearest(client, query, asked, among, exact)
            # Of equal ones those with the lowest ids are wanted, and a database gives any: ask for all.
            if len(ids) < asked or scores[-1] < scores[k - 1]:
                order = np.lexsort((ids, -scores))[:k]
                return ids[order], scores[order]
            asked *= 2


def facts_to_filter(facts: Facts) -> dict[str, Any]:
    """The metadata of an image for filters."""
    orientation = "square" if facts.width == facts.height else "landscape"
    return {
        "folder": facts.folder[:FOLDER],
        "time": moment(facts.time),
        "orientation": "portrait" if facts.height > facts.width else orientation,
        "width": facts.width,
        "height": facts.height,
        "added": facts.added,
    }


def bounds(limit: Limit) -> dict[str, float]:
    """The least and greatest numbers of a limit, by Qdrant's names (`gte`, `lt`, …)."""
    value = moment(str(limit.value)) if limit.field == "time" else float(limit.value)
    names = {">": ("gt",), ">=": ("gte",), "<": ("lt",), "<=": ("lte",), "=": ("gte", "lte")}
    return dict.fromkeys(names[limit.sign], value)


def moment(text: str) -> int:
    """Convert "2019-06-30T12:00:00", or a prefix, to 20190630120000."""
    return int("".join(letter for letter in text if letter.isdigit()).ljust(14, "0"))
