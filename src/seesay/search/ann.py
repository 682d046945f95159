"""Nearest neighbours among a store's vectors: one matrix product for few, else FAISS's inverted lists.

The store is the source of truth: if the cache file is lost, stale or damaged, it is rebuilt from the store.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.progress import tell
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.quantise import (
    REFINED,
    VECTORS,
    Lists,
    is_mapped,
    lists_of_recall,
    make_lists,
    read_lists,
    refined,
    to_memory,
    write_lists,
)
from seesay.search.sqlite_file import Kind
from seesay.search.store import Changes, Store
from seesay.search.stores import Queries, next_page

EXACT_UP_TO = 50_000
"""Number of items up to which search is exact: about 10 ms at 512 dimensions on one core."""

_GROWTH = 2  # times as many items as when lists were made, from which an update makes them again
_GROWTH_UNTIL_MADE_HERE = 8  # the same where queries wait meanwhile, and no update has done it


class Neighbours:
    """The nearest items of one kind by inner product.

    Not thread-safe; its owner holds a lock. Call `refresh` before the first `search`.

    Args:
        store: of the vectors.
        kind: of the items.
        cache: the file of the inverted lists.
        exact_up_to: number of items up to which search is exact.
        probe_divisor: the share of lists that is searched is one in this number; with 8, recall@10 stays
            above 0.98, also for sentences, which are far from all images.
        queries: the queries for measuring recall, if the index asks for one.

    Lists contain the stored vectors unless the index asks for a recall (`Store.recall`). Half precision is
    exact, and as fast as 8-bit codes, whose candidates must be scored again (benchmarks/search.py).

    Attributes:
        generation: the store's generation that is searched; -1 before the first `refresh`.
        trained: number of items when the inverted lists were trained; 0 while search is exact.
        quantiser: of the lists, in FAISS's notation.
    """

    concurrent = False

    def __init__(
        self,
        store: Store,
        kind: Kind,
        cache: Path,
        exact_up_to: int = EXACT_UP_TO,
        probe_divisor: int = 8,
        queries: Queries | None = None,
    ) -> None:
        self._store, self._cache, self._queries = store, cache, queries
        self._kind: Kind = kind
        self._exact_up_to, self._probe_divisor = exact_up_to, probe_divisor
        self._index: Any = None
        self.quantiser = VECTORS
        self._recall: float | None = None
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.generation, self.trained = -1, 0

    def refresh(self) -> None:
        """Read what was written to the store since the last call.

        Building lists takes minutes, during which queries would wait. Lists that have doubled, or have
        another recall than requested, are therefore replaced once the update has written the file (`save`).
        """
        if self.generation != self._store.generation():
            self._take_up(_GROWTH_UNTIL_MADE_HERE, None)

    def search(
        self,
        query: NDArray[np.float32],
        k: int,
        among: NDArray[np.int64] | None = None,
        after: Place | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return ids and scores of the `k` best items, or fewer, for a vector (dim,), best first.

        Args:
            query: (dim,).
            k: number of items.
            among: if given, only these ids are compared, exhaustively.
            after: the end of the previous page; all items after it are compared.

        An exhaustive comparison is exact, except for coded lists, which re-score ten times as many
        candidates.
        """
        if after is None:
            return self._best(query, k, among)
        everything = self._ids if among is None else among
        return next_page(lambda asked: self._best(query, asked, everything), k, after, len(everything))

    def passing(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that match a filter."""
        return self._store.matching(where)

    def close(self) -> None:
        """Do nothing: the vectors are in memory."""

    def _best(
        self, query: NDArray[np.float32], k: int, among: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        if among is not None and among is not self._ids:
            among = among[np.isin(among, self._ids)]
        k = min(k, len(self._ids if among is None else among))
        if k == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        queries = np.ascontiguousarray(query[None], np.float32)
        coded = self.quantiser != VECTORS
        count = k * REFINED if coded else k
        if isinstance(self._index, Exact):
            scores, ids = self._index.search(queries, count, None if among is self._ids else among)
        else:
            scores, ids = _search_lists(self._index, queries, count, k, among)
        ids, scores = ids[0][ids[0] >= 0], scores[0][ids[0] >= 0]
        if coded:
            return refined(*self._store.vectors(ids.tolist()), query, k)
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def save(self) -> None:
        """Write inverted lists to the cache; an exact index is faster to build than to read.

        They are rebuilt if they have doubled or another recall is requested.
        """
        self._take_up(_GROWTH, self._store.recall())
        with suppress(OSError):  # they can be built again
            self._write_cache()

    def _take_up(self, growth: int, recall: float | None) -> None:
        """Bring the vectors up to date; rebuild lists that have grown by a factor.

        Args:
            growth: the factor of growth since lists were built.
            recall: the required recall, or None for any.
        """
        asked, is_new = self._store.recall(), self._index is None
        if is_new:
            self._load()
        changes = self._changes()
        if not (is_new or self._fits(len(changes.alive), _GROWTH, asked)) and self._load():
            changes = self._changes()
        if self._fits(len(changes.alive), growth, self._recall if recall is None else recall):
            self._apply(changes)
        else:
            self._build(changes.alive, asked)
        self.generation = changes.generation

    def _changes(self) -> Changes:
        return self._store.changes(self._kind, since=max(self.generation, 0))

    def _fits(self, count: int, growth: int, recall: float | None) -> bool:
        """Whether the current structure suits that many items and that recall."""
        if self._index is None:
            return False
        if count <= self._exact_up_to:
            return not self.trained
        return count <= growth * self.trained and self._recall == recall

    def _write_cache(self) -> None:
        if not self.trained:
            self._cache.unlink(missing_ok=True)
            return
        if self._cache.is_file() and is_mapped(self._index):
            return  # nothing has changed since they were read
        to_memory(self._index)
        facts = {
            "identity": self._store.meta["identity"],
            "generation": self.generation,
            "trained": self.trained,
            "quantiser": self.quantiser,
            "recall": self._recall,
        }
        write_lists(self._cache, self._index, facts)

    def _load(self) -> bool:
        """Load the lists in the file, unless they are older than the current ones."""
        if not self._cache.is_file():
            return False
        ages = range(max(self.generation, 0), self._store.generation() + 1)
        found = read_lists(self._cache, self._store.meta["identity"], ages)
        if found is None:
            return False
        self._index, facts = found
        self.generation, self.trained = facts["generation"], facts["trained"]
        self.quantiser, self._recall = facts["quantiser"], facts["recall"]
        self._ids = np.sort(_ids_in_lists(self._index))
        return True

    def _apply(self, changes: Changes) -> None:
        # `isin` looks ids up in a table, where set operations sort or hash a million of them.
        kept = np.isin(self._ids, changes.alive) & ~np.isin(self._ids, changes.ids)
        if self.trained and not (kept.all() and not len(changes.ids)):
            to_memory(self._index)
        if not kept.all():
            self._index.remove_ids(self._ids[~kept])
        self._ids = np.setdiff1d(changes.alive, self._add(changes.ids), assume_unique=True)

    def _build(self, ids: NDArray[np.int64], recall: float | None) -> None:
        self._ids, self._recall, self.quantiser = ids, recall, VECTORS
        if len(ids) > self._exact_up_to:
            made = self._lists(ids, recall)
            self.trained, self._index, self.quantiser = len(ids), made.index, made.quantiser
            return
        self.trained = 0
        self._index = Exact(self._store.dim)
        self._ids = np.setdiff1d(ids, self._add(ids), assume_unique=True)

    def _add(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add items, and return the ids of those that were deleted meanwhile."""
        found = [np.empty(0, np.int64)]
        for here, vectors in self._store.parts(ids):
            self._index.add_with_ids(vectors, here)
            found.append(here)
        return np.setdiff1d(ids, np.concatenate(found), assume_unique=True)

    def _lists(self, ids: NDArray[np.int64], recall: float | None) -> Lists:
        if recall is None:
            return make_lists(self._store, ids, divisor=self._probe_divisor)
        queries = np.empty((0, self._store.dim), np.float32) if self._queries is None else self._queries()
        made = lists_of_recall(self._store, ids, queries, recall)
        tell(
            f"Lists of {len(ids)} vectors: {made.quantiser}, {made.index.code_size} bytes a vector, "
            f"{made.index.nprobe} of {made.index.nlist} lists searched; recall@10 {made.recall:.3f}."
        )
        return made


class Exact:
    """Exhaustive search with the interface of FAISS's indexes that is used here.

    Importing FAISS takes longer than searching tens of thousands of vectors exhaustively.
    """

    def __init__(self, dim: int) -> None:
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self._vectors: NDArray[np.float32] = np.empty((0, dim), np.float32)

    def add_with_ids(self, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        """Add vectors (n, dim) under new ids (n,)."""
        self._ids = np.concatenate([self._ids, ids])
        self._vectors = np.concatenate([self._vectors, vectors])

    def remove_ids(self, ids: NDArray[np.int64]) -> None:
        """Remove the vectors with those ids."""
        kept = ~np.isin(self._ids, ids)
        self._ids, self._vectors = self._ids[kept], self._vectors[kept]

    def search(
        self, queries: NDArray[np.float32], k: int, among: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and ids, (1, k) each, of the `k` best for one query (1, dim); `k` must exist.

        With `among`, only these ids (n,) are compared. Ties at the end are broken by the lowest id.
        """
        scores = np.vecdot(self._vectors, queries[0])  # equal vectors score the same wherever they stand
        if among is not None:
            scores[~np.isin(self._ids, among)] = -np.inf
        last = -np.partition(-scores, k - 1)[k - 1]
        above, equal = np.flatnonzero(scores > last), np.flatnonzero(scores == last)
        first = equal[np.argsort(self._ids[equal])][: k - len(above)]
        best = np.concatenate([above, first])
        return scores[None, best], self._ids[None, best]


def _search_lists(
    index: Any, queries: NDArray[np.float32], count: int, least: int, among: NDArray[np.int64] | None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Search inverted lists for the `count` best; more lists than usual if they contain fewer than `least`.

    With `among`, search all lists for the best of these ids (n,).
    """
    import faiss

    library: Any = faiss  # whose stubs are of C++
    lists, selected = index.nprobe, {}
    if among is not None:
        bits = np.zeros(int(among.max()) + 1, bool)
        bits[among] = True
        lists = index.nlist
        selected = {"sel": library.IDSelectorBitmap(np.packbits(bits, bitorder="little"))}
    while True:
        parameters = library.SearchParametersIVF(nprobe=lists, **selected)
        scores, ids = index.search(queries, count, params=parameters)
        if lists >= index.nlist or (ids >= 0).sum() >= least:
            return scores, ids
        lists = min(4 * lists, index.nlist)


def _ids_in_lists(index: Any) -> NDArray[np.int64]:
    import faiss

    lists = index.invlists
    sizes = [(i, lists.list_size(i)) for i in range(index.nlist)]
    parts = [faiss.rev_swig_ptr(lists.get_ids(i), size).copy() for i, size in sizes if size]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
