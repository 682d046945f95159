"""The interface of stores of vectors, and their registry."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError, did_you_mean, naming_extras
from seesay.registry import Registry
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.sqlite_file import Kind
from seesay.search.store import Store

Found = tuple[NDArray[np.int64], NDArray[np.float32]]
Queries = Callable[[], NDArray[np.float32]]
"""Returns vectors (q, dim) of queries such as an index is searched by."""


class VectorStore(Protocol):
    """Finds the items of one kind whose vectors are nearest to a query's, by inner product.

    The folder of the index (`Store`) is the source of truth for items, vectors and metadata; a vector store
    is updated from there. Its owner holds a lock around each call, unless it is concurrent.

    Attributes:
        concurrent: whether several threads may call it at the same time, so that queries do not wait for each
            other or for an update.
    """

    concurrent: bool

    def refresh(self) -> None:
        """Load the changes of an update; called before each search."""
        ...

    def save(self) -> None:
        """Write changes to the storage of the vectors; called at the end of an update."""
        ...

    def passing(self, where: Filter) -> Any:
        """Return the argument `among` of `search` that restricts it to images matching a filter."""
        ...

    def search(
        self, query: NDArray[np.float32], k: int, among: Any = None, after: Place | None = None
    ) -> Found:
        """Return ids and scores of the `k` best items, or fewer, best first; ties in order of ids.

        Args:
            query: a vector, (dim,).
            k: number of items.
            among: the result of `passing`; None for all items.
            after: the end of the previous page.
        """
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


Opened = Callable[[str, Store, Kind, Queries], VectorStore]
"""Opens the vectors of one kind at an address; it does not connect before a method is first called."""

_DATABASES = ("milvus", "postgresql", "qdrant")  # whose modules need an extra each

VECTOR_STORES: Registry[Opened] = Registry("store", "seesay.stores")
register_store = VECTOR_STORES.register


def open_vectors(address: str, store: Store, kind: Kind, queries: Queries) -> VectorStore:
    """Open the vectors of one kind at an address, such as "qdrant+http://localhost:6333".

    Args:
        address: a registered scheme, "+" and its address, or "postgresql://…".
        store: of the items.
        kind: of the items.
        queries: the queries for measuring recall.

    Raises:
        SeesayError: there is no such store.
        MissingExtraError: its package is not installed.
    """
    name, rest = _divided(address)
    return VECTOR_STORES[name](rest, store, kind, queries)


def store_address(address: str) -> str:
    """Return an address as stored in an index, with absolute paths of folders.

    Raises:
        SeesayError: the store does not exist, or the address is invalid.
        MissingExtraError: its package is not installed.
    """
    if not address:
        return ""
    name, rest = _divided(address)
    if name not in _DATABASES:
        return address
    checked: str = import_module(f"seesay.search.stores.{name}").checked_address(rest)
    return checked


def _divided(address: str) -> tuple[str, str]:
    """Return the name of a registered store, and its address."""
    name, plus, rest = address.partition("+")
    if address.startswith(
        ("postgresql:", "postgres:", "postgresql+")
    ):  # may hold a password, and a plus in it
        name, plus, rest = "postgresql", "+", address
    if not (plus and rest):
        raise SeesayError(f"--store {address}: write STORE+ADDRESS, such as qdrant+http://localhost:6333.")
    if name in _DATABASES:
        with naming_extras():
            import_module(f"seesay.search.stores.{name}")  # which registers itself
    elif name not in VECTOR_STORES:
        known = sorted({*VECTOR_STORES, *_DATABASES})
        near = did_you_mean(name, known) or "."
        raise SeesayError(f"--store {address}: no store '{name}'{near} There are: {', '.join(known)}.")
    return name, rest


def next_page(best: Callable[[int], Found], k: int, after: Place) -> Found:
    """Return the `k` best items after the end of a page.

    Args:
        best: returns that many of the best items, in order, or all if there are fewer.
        k: number of items.
        after: the end of the previous page.
    """
    asked = after.seen + k
    while True:
        ids, scores = best(asked)
        behind = (scores < after.score) | ((scores == after.score) & (ids > after.id))
        # Items may have been added before that place since the previous page was read.
        if behind.sum() >= k or len(ids) < asked:
            return ids[behind][:k], scores[behind][:k]
        asked *= 2
