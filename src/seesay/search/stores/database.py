"""What stores of vectors in databases share: when they are filled, how ties and pages are put in order.

A collection holds the vectors of one kind of an index, and of images the facts that filters ask about. It
names the generation of the index that it has; that is written last, so that an update which is cut off is
made again. What a database loses is loaded again by the next update.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.sqlite_file import Kind
from seesay.search.store import Facts, Store
from seesay.search.stores.base import Found, next_page


class _Closable(Protocol):
    def close(self) -> None: ...


Client = TypeVar("Client", bound=_Closable)

_CLIENTS: dict[tuple[type, str], Any] = {}  # by database and address

GENERATION = "seesay_generation"
SECONDS = 60  # that a request may take
_AT_ONCE = 1000  # vectors in a request: about 2 MB at 512 dimensions


class Collection(ABC, Generic[Client]):
    """Vectors of one kind in a collection of a database.

    Args:
        address: of the database.
        store: of the items.
        kind: of the items.
    """

    def __init__(self, address: str, store: Store, kind: Kind) -> None:
        self.address, self.dim = address, store.dim
        self.name = f"seesay_{store.meta['identity']}_{kind}"
        self._has_facts = kind == "image"
        self._store, self._kind = store, kind
        self._seen = -1  # generation of the items at the last look

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Client]:
        """Return a context with the client, in which the database's errors become a SeesayError."""

    @abstractmethod
    def _generation(self, client: Client) -> int | None:
        """Return the generation that was marked last, 0 if none was; None if there is no collection."""

    @abstractmethod
    def _create(self, client: Client) -> None:
        """Create the collection."""

    @abstractmethod
    def _put(
        self, client: Client, ids: list[int], vectors: NDArray[np.float32], facts: Sequence[Facts | None]
    ) -> None:
        """Write vectors (n, dim) in place of those that their ids had, with the facts of images."""

    @abstractmethod
    def _mark(self, client: Client, generation: int) -> None:
        """Write down the generation that the collection has."""

    @abstractmethod
    def _count(self, client: Client, among: Any = None) -> int:
        """Count the vectors, or those that a filter lets through."""

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

    @abstractmethod
    def passing(self, where: Filter) -> Any:
        """Return the filter in the database's own terms, so that it is applied there."""

    @abstractmethod
    def _connect(self) -> Client:
        """Return a new client of the address."""

    def _disconnect(self, client: Client) -> None:
        """Close a client."""
        client.close()

    def _client(self) -> Client:
        """Return the client of the address, which the kinds of an index share."""
        key = type(self), self.address
        if key not in _CLIENTS:
            _CLIENTS[key] = self._connect()
        client: Client = _CLIENTS[key]
        return client

    def _is_remote(self) -> bool:
        """Whether a server is at the address, and not an edition of the database within this process."""
        return not self.address.startswith("path:")

    def close(self) -> None:
        """Close the client, which the kinds of an index share."""
        if client := _CLIENTS.pop((type(self), self.address), None):
            self._disconnect(client)

    def refresh(self) -> None:
        """Look whether the collection is there, once a generation; who updates the index fills it."""
        generation = self._store.generation()
        if self._seen == generation:
            return
        with self._connected() as client:
            if not self._generation(client) and self._store.count(self._kind):
                raise SeesayError(
                    f"{self.address}: has no vectors of this index; run `seesay index` again to load them."
                )
        self._seen = generation

    def save(self) -> None:
        """Write what the collection has not, and delete what the index has no more."""
        with self._connected() as client:
            since, generation = self._generation(client), self._store.generation()
            if since == generation:
                return
            if since is None:
                self._create(client)
            # Of an older copy of the index's folder, which was put back, everything is written.
            changes = self._store.changes(self._kind, since if since and since < generation else 0)
            for start in range(0, len(changes.ids), _AT_ONCE):
                here, rows = self._store.vectors(changes.ids[start : start + _AT_ONCE].tolist())
                ids = here.tolist()
                known = self._store.facts(ids) if self._has_facts else {}
                self._put(client, ids, rows.astype(np.float32), [known.get(id_) for id_ in ids])
            if self._count(client) != len(changes.alive):
                for some in self._ids(client):
                    if gone := np.setdiff1d(some, changes.alive).tolist():
                        self._delete(client, gone)
            self._mark(client, changes.generation)

    def search(
        self, query: NDArray[np.float32], k: int, among: Any = None, after: Place | None = None
    ) -> Found:
        """See `VectorStore`; all vectors are compared for the pages behind the first."""
        with self._connected() as client:
            if self._generation(client) is None:  # nothing of this kind was ever indexed
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
    """What filters ask about an image; `folders` are all paths of folders above it, and their ends."""
    parts = facts.path.lower().split("/")[:-1]
    folders = ["/".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]
    orientation = "square" if facts.width == facts.height else "landscape"
    return {
        "folders": folders,
        "orientation": "portrait" if facts.height > facts.width else orientation,
        "width": facts.width,
        "height": facts.height,
        "added": facts.added,
    } | ({"taken": moment(facts.taken)} if facts.taken else {})


def moment(text: str) -> int:
    """20190630120000 of "2019-06-30T12:00:00" or of the beginning of one."""
    return int("".join(letter for letter in text if letter.isdigit()).ljust(14, "0"))
