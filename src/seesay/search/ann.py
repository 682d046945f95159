"""Nearest neighbours among a store's vectors: one matrix product while they are few, then FAISS's lists.

The cache file is never the truth: if it is lost, stale or damaged, it is built again from the store.
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seesay.paths import replacing
from seesay.search.filters import Filter
from seesay.search.hits import Place
from seesay.search.store import Changes, Kind, Store
from seesay.search.stores.base import next_page

EXACT_UP_TO = 50_000
"""Number of items up to which search is exact: about 10 ms at 512 dimensions on one core."""

_MAGIC = b"seesay vectors 1\n"
# Half-precision lists hold the stored vectors unchanged, so that scores are exact, and are as fast as 8-bit
# lists, whose candidates would have to be fetched and scored again (benchmarks/search.py).
_QUANTIZER = "SQfp16"
_TRAINING_VECTORS_A_LIST = 64


class Neighbours:
    """The nearest items of one kind by inner product.

    Not thread-safe; its owner holds a lock. Call `refresh` before the first `search`.

    Args:
        store: of the vectors.
        kind: of the items.
        cache: the file that keeps inverted lists.
        exact_up_to: number of items up to which search is exact.
        probe_divisor: one in so many lists is searched; with 8, recall@10 stays above 0.98, also for
            sentences, which lie far from all images.

    Attributes:
        generation: the store's generation that is searched; -1 before the first `refresh`.
        trained: number of items when the inverted lists were trained; 0 while search is exact.
    """

    def __init__(
        self, store: Store, kind: Kind, cache: Path, exact_up_to: int = EXACT_UP_TO, probe_divisor: int = 8
    ) -> None:
        self._store, self._cache = store, cache
        self._kind: Kind = kind
        self._exact_up_to, self._probe_divisor = exact_up_to, probe_divisor
        self._index: Any = None
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.generation, self.trained = -1, 0

    def refresh(self) -> None:
        """Read what was written to the store since the last call."""
        if self.generation == self._store.generation():
            return
        if self._index is None:
            self._load()
        changes = self._store.changes(self._kind, since=max(self.generation, 0))
        if self._index is not None and not self._outgrown(len(changes.alive)):
            self._apply(changes)
        else:
            if self.generation > 0:
                changes = self._store.changes(self._kind)
            self._build(changes)
        self.generation = changes.generation

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
            among: ids of the only items that count; these are all compared, so that the answer is exact.
            after: the end of the page before; all items behind it are compared.
        """
        if after is None:
            return self._best(query, k, among)
        everything = self._ids if among is None else among
        return next_page(lambda asked: self._best(query, asked, everything), k, after, len(everything))

    def passing(self, where: Filter) -> NDArray[np.int64]:
        """Return the ids (n,) of the images that a filter lets through."""
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
        if among is None:
            scores, ids = self._index.search(queries, k)
        elif isinstance(self._index, Exact):
            scores, ids = self._index.search(queries, k, None if among is self._ids else among)
        else:
            scores, ids = _search_lists(self._index, queries, k, among)
        ids, scores = ids[0][ids[0] >= 0], scores[0][ids[0] >= 0]
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def save(self) -> None:
        """Write inverted lists to the cache; an exact index is built faster than it would be read."""
        self.refresh()
        with suppress(OSError):  # they can be built again
            self._write_cache()

    def _write_cache(self) -> None:
        if not self.trained:
            self._cache.unlink(missing_ok=True)
            return
        import faiss

        body = faiss.serialize_index(self._index).tobytes()
        head = {
            "identity": self._store.meta["identity"],
            "generation": self.generation,
            "trained": self.trained,
            "checksum": hashlib.blake2b(body).hexdigest(),
        }
        with replacing(self._cache) as beside, beside.open("wb") as file:
            file.write(_MAGIC + json.dumps(head).encode() + b"\n")
            file.write(body)

    def _load(self) -> None:
        if not self._cache.is_file():
            return
        import faiss

        try:
            with self._cache.open("rb") as file:
                if file.readline(100) != _MAGIC:
                    return
                head = json.loads(file.readline(1000))
                body = file.read()
            # FAISS trusts its files, so the checksum must keep damaged ones away from it.
            if (
                head["identity"] != self._store.meta["identity"]
                or head["generation"] > self._store.generation()
                or head["checksum"] != hashlib.blake2b(body).hexdigest()
            ):
                return
            self._index = faiss.deserialize_index(np.frombuffer(body, np.uint8))
        except (OSError, ValueError, KeyError, RuntimeError):
            return
        self.generation, self.trained = head["generation"], head["trained"]
        self._ids = np.sort(_ids_in_lists(self._index))

    def _outgrown(self, count: int) -> bool:
        if count <= self._exact_up_to:
            return self.trained > 0
        return count > 2 * self.trained

    def _apply(self, changes: Changes) -> None:
        # `isin` looks ids up in a table, where set operations sort or hash a million of them.
        kept = np.isin(self._ids, changes.alive) & ~np.isin(self._ids, changes.ids)
        if not kept.all():
            self._index.remove_ids(self._ids[~kept])
        if len(changes.ids):
            self._index.add_with_ids(changes.vectors.astype(np.float32), changes.ids)
        self._ids = changes.alive

    def _build(self, changes: Changes) -> None:
        count, dim = changes.vectors.shape
        if count <= self._exact_up_to:
            self.trained = 0
            self._index = Exact(dim)
        else:
            self.trained = count
            self._index = _trained_lists(changes.vectors, self._probe_divisor)
        for start in range(0, count, 65_536):  # no whole copy in single precision
            part = slice(start, start + 65_536)
            self._index.add_with_ids(changes.vectors[part].astype(np.float32), changes.ids[part])
        self._ids = changes.alive


class Exact:
    """Vectors that are all compared with a query, with the methods of FAISS's indexes that are used here.

    Importing FAISS takes longer than searching tens of thousands of vectors without it.
    """

    def __init__(self, dim: int) -> None:
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)
        self._vectors: NDArray[np.float32] = np.empty((0, dim), np.float32)

    def add_with_ids(self, vectors: NDArray[np.float32], ids: NDArray[np.int64]) -> None:
        """Add vectors (n, dim) under new ids (n,)."""
        self._ids = np.concatenate([self._ids, ids])
        self._vectors = np.concatenate([self._vectors, vectors])

    def remove_ids(self, ids: NDArray[np.int64]) -> None:
        """Remove the vectors of those ids."""
        kept = ~np.isin(self._ids, ids)
        self._ids, self._vectors = self._ids[kept], self._vectors[kept]

    def search(
        self, queries: NDArray[np.float32], k: int, among: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return scores and ids of the `k` best for one query (1, dim), (1, k) both; there are `k` at least.

        With `among` only these ids (n,) count. Of equal ones at the end, those with the lowest ids are taken.
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
    index: Any, queries: NDArray[np.float32], k: int, among: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Search all inverted lists for the best of some ids (n,)."""
    import faiss

    bits = np.zeros(int(among.max()) + 1, bool)
    bits[among] = True
    library: Any = faiss  # whose stubs are of C++
    selector = library.IDSelectorBitmap(np.packbits(bits, bitorder="little"))
    parameters = library.SearchParametersIVF(sel=selector, nprobe=index.nlist)
    scores, ids = index.search(queries, k, params=parameters)
    return scores, ids


def _trained_lists(vectors: NDArray[np.float16], probe_divisor: int) -> Any:
    """Train empty inverted lists for vectors such as these, (n, dim)."""
    import faiss

    count, dim = vectors.shape
    lists = round(2 * math.sqrt(count))
    index: Any = faiss.index_factory(dim, f"IVF{lists},{_QUANTIZER}", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = lists // probe_divisor
    index.by_residual = False  # the stored vectors themselves, so that scores are exact
    index.cp.niter = 10
    sample = np.random.default_rng(0).permutation(count)[: lists * _TRAINING_VECTORS_A_LIST]
    index.train(vectors[np.sort(sample)].astype(np.float32))
    return index


def _ids_in_lists(index: Any) -> NDArray[np.int64]:
    import faiss

    lists = index.invlists
    sizes = [(i, lists.list_size(i)) for i in range(index.nlist)]
    parts = [faiss.rev_swig_ptr(lists.get_ids(i), size).copy() for i, size in sizes if size]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
