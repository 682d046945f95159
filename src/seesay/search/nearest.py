"""Where the nearest vectors are found: in this process (`seesay.search.neighbours`), or in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seesay.search.filters import Filter
from seesay.search.hits import Place

Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Ids and scores (n,) of items, best first."""
Queries = Callable[[], NDArray[np.float32]]
"""Returns vectors (q, dim) of queries such as an index is searched by."""


class Nearest(Protocol):
    """Finds the items of one kind whose vectors are nearest to a query's, by inner product.

    The folder of the index (`Store`) is the source of truth for items, vectors and metadata. Its owner holds
    a lock around each call, unless it is concurrent.

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
    ) -> Ranked:
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


def next_page(best: Callable[[int], Ranked], k: int, after: Place) -> Ranked:
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
