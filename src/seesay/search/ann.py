"""Nearest neighbours among a store's vectors: exhaustive search for few, FAISS's inverted lists for many.

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
    is_mapped,
    lists_of_recall,
    load_faiss,
    make_lists,
    read_lists,
    refined,
    to_memory,
    write_lists,
)
from seesay.search.sqlite_file import Kind
from seesay.search.store import Changes, Store
from seesay.search.stores import Found, Queries, next_page

_SPARSE = 64  # largest id per number of ids, above which ids are selected by a set instead of a bitmap
_GROWTH = 2  # factor of growth since lists were built, above which an update rebuilds them
_GROWTH_UNTIL_MADE_HERE = 8  # the same for a search, which waits meanwhile, if no update has done it


class Neighbours:
    """The nearest items of one kind by inner product.

    Not thread-safe; its owner holds a lock. Call `refresh` before the first `search`.

    Lists contain the stored vectors unless the index asks for a recall (`Store.recall`). Half precision is
    exact, and as fast as 8-bit codes, whose candidates must be scored again (benchmarks/search.py).

    Lists are not changed for a few items: new ones are searched exhaustively beside them, and deleted ones
    are skipped. Writing the lists of a million vectors takes seconds, and as much memory as they have bytes.

    Args:
        store: of the vectors.
        kind: of the items.
        cache: the file of the inverted lists.
        queries: the queries for measuring recall, if the index asks for one.

    Attributes:
        generation: the store's generation that is searched; -1 before the first `refresh`.
        trained: number of items when the inverted lists were trained; 0 while search is exact.
        quantiser: of the lists, in FAISS's notation.
        exact_up_to: number of items up to which search is exact: about 10 ms at 512 dimensions on one core.
        probe_divisor: one list in this number is searched; with 8, recall@10 stays above 0.98, also for
            sentences, which are far from all images.
    """

    concurrent = False
    exact_up_to = 50_000
    probe_divisor = 8

    def __init__(self, store: Store, kind: Kind, cache: Path, queries: Queries | None = None) -> None:
        self._store, self._cache, self._queries = store, cache, queries
        self._kind: Kind = kind
        self._recall: float | None = None
        self.quantiser, self.generation, self.trained = VECTORS, -1, 0
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)  # of all items, ascending
        self._in_file_of = -1  # generation of the lists in the file that were read last
        self._valid: Any = None  # selects `_listed`, if the lists contain other ids too
        self._take_lists(None, self._ids)

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
    ) -> Found:
        """Return ids and scores of the `k` best items, or fewer, for a vector (dim,), best first.

        An exhaustive comparison is exact, except for coded lists, which re-score ten times as many
        candidates.

        Args:
            query: (dim,).
            k: number of items.
            among: if given, only these ids are compared, exhaustively.
            after: the end of the previous page; all items after it are compared.
        """
        if after is None:
            return self._best(query, k, among)
        everything = self._ids if among is None else among
        return next_page(lambda asked: self._best(query, asked, everything), k, after)

    def passing(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that match a filter."""
        return self._store.matching(where)

    def close(self) -> None:
        """Do nothing: the vectors are in memory, or in a file that is mapped."""

    def _best(self, query: NDArray[np.float32], k: int, among: NDArray[np.int64] | None) -> Found:
        query = np.ascontiguousarray(query, np.float32)
        ids, scores = self._exact.best(query, k, None if among is self._ids else among)
        if self.trained:
            there, found = self._best_in_lists(query, k, among)
            ids, scores = np.concatenate([ids, there]), np.concatenate([scores, found])
        order = np.lexsort((ids, -scores))[:k]
        return ids[order], scores[order]

    def _best_in_lists(self, query: NDArray[np.float32], k: int, among: NDArray[np.int64] | None) -> Found:
        """As `_best`; with `among` all lists are searched, else more than usual if few are found."""
        index = self._lists
        only, lists = self._valid, index.nprobe if among is None else index.nlist
        if among is None or among is self._ids:
            among = self._listed
        else:
            among = among[np.isin(among, self._listed)]
            only = _selector(among)
        k = min(k, len(among))
        if k == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        is_coded = self.quantiser != VECTORS
        wanted = min(REFINED * k, len(among)) if is_coded else k
        selected = {} if only is None else {"sel": only}
        while True:
            parameters = load_faiss().SearchParametersIVF(nprobe=lists, **selected)
            (scores,), (ids,) = index.search(query[None], wanted, params=parameters)
            if lists >= index.nlist or (ids >= 0).sum() >= k:
                break
            lists = min(4 * lists, index.nlist)
        ids, scores = ids[ids >= 0], scores[ids >= 0]
        if not (is_coded and len(ids)):
            return ids, scores
        # In parts, because a deep page needs the vectors of all items.
        parts = [refined(here, vectors, query, k) for here, vectors in self._store.parts(ids)]
        return np.concatenate([ids for ids, _ in parts]), np.concatenate([scores for _, scores in parts])

    def save(self) -> None:
        """Write inverted lists to the cache; an exact index is faster to build than to read.

        They are rebuilt if they have doubled or another recall is requested, and written again once many
        items have changed. Until then, readers take the changes from the store.
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
        asked, is_new = self._store.recall(), self.generation < 0
        if is_new:
            self._load()
        changes = self._changes()
        is_sound = self._fits(len(changes.alive), _GROWTH, asked) and self._recent() <= self._most_recent()
        if not (is_new or is_sound) and self._load():
            changes = self._changes()
        if self._fits(len(changes.alive), growth, self._recall if recall is None else recall):
            self._apply(changes)
        else:
            self._build(changes.alive, asked)
        self.generation = changes.generation

    def _changes(self) -> Changes:
        return self._store.changes(self._kind, max(self.generation, 0), self._ids)

    def _fits(self, count: int, growth: int, recall: float | None) -> bool:
        """Whether the current structure suits that many items and that recall."""
        if count <= self.exact_up_to:
            return not self.trained
        return count <= growth * self.trained and self._recall == recall

    def _recent(self) -> int:
        """The number of changes since the lists were made."""
        return len(self._exact.ids) + self._in_file - len(self._listed) if self.trained else 0

    def _most_recent(self) -> int:
        """The number of changes above which the lists are written again."""
        return max(self.exact_up_to // 5, self.trained // 100)

    def _write_cache(self) -> None:
        if not self.trained:
            self._cache.unlink(missing_ok=True)
            return
        if self._cache.is_file() and is_mapped(self._lists) and self._recent() <= self._most_recent():
            return  # what has changed since they were read is in the store
        self._merge()
        facts = {
            "identity": self._store.meta["identity"],
            "generation": self.generation,
            "trained": self.trained,
            "quantiser": self.quantiser,
            "recall": self._recall,
        }
        write_lists(self._cache, self._lists, facts)
        self._in_file_of = -1
        self._load()  # mapped, in place of the copy in memory

    def _merge(self) -> None:
        """Apply the changes to the lists, in memory: FAISS writes mapped lists as the name of their file."""
        to_memory(self._lists)
        if not self._recent():
            return
        stale = np.setdiff1d(_ids_in_lists(self._lists), self._listed, assume_unique=True)
        if len(stale):
            self._lists.remove_ids(stale)
        if len(self._exact.ids):
            self._lists.add_with_ids(self._exact.vectors, self._exact.ids)
        self._take_lists(self._lists, self._ids)

    def _load(self) -> bool:
        """Load the lists in the file, unless they are not newer than the current ones."""
        if not self._cache.is_file():
            return False
        ages = range(self._in_file_of + 1, self._store.generation() + 1)
        found = read_lists(self._cache, self._store.meta["identity"], ages)
        if found is None:
            return False
        lists, facts = found
        self.generation, self.trained = facts["generation"], facts["trained"]
        self.quantiser, self._recall = facts["quantiser"], facts["recall"]
        self._in_file_of = self.generation
        self._ids = np.sort(_ids_in_lists(lists))
        self._take_lists(lists, self._ids)
        return True

    def _take_lists(self, lists: Any, ids: NDArray[np.int64]) -> None:
        """Use lists with exactly the items of those ids (n,), ascending."""
        self._lists, self._listed, self._in_file, self._valid = lists, ids, len(ids), None
        self._exact = Exact(self._store.dim)

    def _apply(self, changes: Changes) -> None:
        if changes.alive is self._ids and not len(changes.ids):
            return

        # `isin` looks ids up in a table, where set operations sort or hash a million of them.
        def kept(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
            return np.asarray(np.isin(ids, changes.alive) & ~np.isin(ids, changes.ids))

        self._exact.keep(kept(self._exact.ids))
        if self.trained:
            still = kept(self._listed)
            if not still.all():
                self._listed = self._listed[still]
                self._valid = _selector(self._listed)
        self._ids = self._add(changes.ids, changes.alive)

    def _build(self, ids: NDArray[np.int64], recall: float | None) -> None:
        self._recall, self.quantiser, self.trained = recall, VECTORS, 0
        self._take_lists(None, np.empty(0, np.int64))
        if len(ids) > self.exact_up_to:
            lists, self.quantiser = self._made_lists(ids, recall)
            self.trained = len(ids)
            self._ids = np.sort(_ids_in_lists(lists))  # without those deleted meanwhile
            self._take_lists(lists, self._ids)
        else:
            self._ids = self._add(ids, ids)

    def _add(self, ids: NDArray[np.int64], alive: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add items outside the lists; return the ids of all that still exist."""
        found = [np.empty(0, np.int64)]
        for here, vectors in self._store.parts(ids):
            self._exact.add(here, vectors)
            found.append(here)
        there = np.concatenate(found)
        return alive if len(there) == len(ids) else alive[~np.isin(alive, ids) | np.isin(alive, there)]

    def _made_lists(self, ids: NDArray[np.int64], recall: float | None) -> tuple[Any, str]:
        """New lists of items (n,), and their quantiser."""
        if recall is None:
            return make_lists(self._store, ids, self.probe_divisor), VECTORS
        queries = np.empty((0, self._store.dim), np.float32) if self._queries is None else self._queries()
        lists, quantiser, reached = lists_of_recall(self._store, ids, queries, recall)
        tell(
            f"Lists of {len(ids)} vectors: {quantiser}, {lists.code_size} bytes a vector, "
            f"{lists.nprobe} of {lists.nlist} lists searched; recall@10 {reached:.3f}."
        )
        return lists, quantiser


class Exact:
    """Exhaustive search.

    Importing FAISS takes longer than searching tens of thousands of vectors exhaustively.

    Attributes:
        ids: of the vectors, (n,).
        vectors: (n, dim).
    """

    def __init__(self, dim: int) -> None:
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.vectors: NDArray[np.float32] = np.empty((0, dim), np.float32)

    def add(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Add vectors (n, dim) under new ids (n,)."""
        self.ids = np.concatenate([self.ids, ids])
        self.vectors = np.concatenate([self.vectors, vectors])

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Remove all vectors but some, (n,)."""
        if not kept.all():
            self.ids, self.vectors = self.ids[kept], self.vectors[kept]

    def best(self, query: NDArray[np.float32], k: int, among: NDArray[np.int64] | None = None) -> Found:
        """Return ids and scores of the `k` best or fewer for a query (dim,), in any order.

        With `among`, only these ids (n,) are compared. Ties at the end are broken by the lowest id.
        """
        ids, vectors = self.ids, self.vectors
        scores = np.vecdot(vectors, query)  # equal vectors score the same wherever they stand
        if among is not None:
            chosen = np.isin(ids, among)
            ids, scores = ids[chosen], scores[chosen]
        if len(ids) <= k:
            return ids, scores
        last = -np.partition(-scores, k - 1)[k - 1]
        above, equal = np.flatnonzero(scores > last), np.flatnonzero(scores == last)
        first = equal[np.argsort(ids[equal])][: k - len(above)]
        best = np.concatenate([above, first])
        return ids[best], scores[best]


def _selector(ids: NDArray[np.int64]) -> Any:
    """Return FAISS's selector of some ids: a bitmap up to the largest one, or a set if that is sparse."""
    faiss, largest = load_faiss(), int(ids.max(initial=0))
    if largest > _SPARSE * len(ids):  # as after many deletions, or in an index that somebody else made
        return faiss.IDSelectorBatch(ids)
    bits = np.zeros(largest + 1, bool)
    bits[ids] = True
    return faiss.IDSelectorBitmap(np.packbits(bits, bitorder="little"))


def _ids_in_lists(index: Any) -> NDArray[np.int64]:
    lists = index.invlists
    sizes = [(i, lists.list_size(i)) for i in range(index.nlist)]
    parts = [load_faiss().rev_swig_ptr(lists.get_ids(i), size).copy() for i, size in sizes if size]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
