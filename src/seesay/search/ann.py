"""FAISS over the vectors of a store: exact while they are few, inverted lists above.

The file it caches is never the truth: lost, stale or damaged, it is made again from the store.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from seesay.paths import replacing
from seesay.search.store import Changes, Kind, Store

EXACT_UP_TO = 50_000
"""Items up to which every query meets every vector: about 10 ms at 512 dimensions on one core."""

_MAGIC = b"seesay vectors 1\n"
# Of half-precision lists (benchmarks/search.py): they hold the stored vectors unchanged, so that scores are
# exact, and answer as fast as 8-bit lists, whose candidates would have to be fetched and scored again.
_QUANTIZER = "SQfp16"
# A list in 8 is probed: recall@10 stays above 0.98 also for sentences, which lie far from all images.
_PROBED = 8
_TRAINING_VECTORS_A_LIST = 64


class Neighbours:
    """The nearest items of one kind by inner product.

    Not thread-safe: its owner holds a lock. `refresh` comes before the first `search`.
    """

    def __init__(self, store: Store, kind: Kind, cache: Path) -> None:
        self._store = store
        self._kind: Kind = kind
        self._cache = cache
        self._index: Any = None
        self._trained = 0  # items when the inverted lists were trained; 0 while the index is exact
        self._generation = -1
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def generation(self) -> int:
        """The store's generation that the answers are of; -1 before the first `refresh`."""
        return self._generation

    def refresh(self) -> None:
        """Takes up what was written to the store since the last time."""
        if self._generation == self._store.generation():
            return
        if self._index is None:
            self._load()
        changes = self._store.changes(self._kind, since=max(self._generation, 0))
        if self._index is not None and not self._outgrown(len(changes.alive)):
            self._apply(changes)
        else:
            if self._generation > 0:
                changes = self._store.changes(self._kind)
            self._build(changes)
        self._generation = changes.generation

    def search(self, query: NDArray[np.float32], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and scores, each (k,) or shorter, of the best `k` items for a vector (dim,), best first."""
        k = min(k, len(self._ids))
        if k == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        scores, ids = self._index.search(np.ascontiguousarray(query[None], np.float32), k)
        found = ids[0] >= 0
        ids, scores = ids[0][found], scores[0][found]
        order = np.lexsort((ids, -scores))
        return ids[order], scores[order]

    def save(self) -> None:
        """Writes inverted lists to the cache, under another name first; an exact index is quicker remade."""
        if not self._trained:
            self._cache.unlink(missing_ok=True)
            return
        body = faiss.serialize_index(self._index).tobytes()
        head = {
            "identity": self._store.meta["identity"],
            "generation": self._generation,
            "trained": self._trained,
            "checksum": hashlib.blake2b(body).hexdigest(),
        }
        with replacing(self._cache) as beside, beside.open("wb") as file:
            file.write(_MAGIC + json.dumps(head).encode() + b"\n")
            file.write(body)

    def _load(self) -> None:
        try:
            with self._cache.open("rb") as file:
                if file.readline(100) != _MAGIC:
                    return
                head = json.loads(file.readline(1000))
                body = file.read()
            # FAISS trusts its files; the checksum keeps damaged ones away from it.
            if (
                head["identity"] != self._store.meta["identity"]
                or head["generation"] > self._store.generation()
                or head["checksum"] != hashlib.blake2b(body).hexdigest()
            ):
                return
            self._index = faiss.deserialize_index(np.frombuffer(body, np.uint8))
        except (OSError, ValueError, KeyError, RuntimeError):
            return
        self._generation, self._trained = head["generation"], head["trained"]
        self._ids = np.sort(_ids_in_lists(self._index))

    def _outgrown(self, count: int) -> bool:
        if count <= EXACT_UP_TO:
            return self._trained > 0
        return count > 2 * self._trained

    def _apply(self, changes: Changes) -> None:
        gone = np.union1d(np.setdiff1d(self._ids, changes.alive), np.intersect1d(self._ids, changes.ids))
        if len(gone):
            self._index.remove_ids(gone)
        if len(changes.ids):
            self._index.add_with_ids(changes.vectors.astype(np.float32), changes.ids)
        self._ids = changes.alive

    def _build(self, changes: Changes) -> None:
        count, dim = changes.vectors.shape
        if count <= EXACT_UP_TO:
            self._trained = 0
            self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dim))
        else:
            self._trained = count
            self._index = _trained_lists(changes.vectors)
        for start in range(0, count, 65_536):  # never a whole copy in single precision
            part = slice(start, start + 65_536)
            self._index.add_with_ids(changes.vectors[part].astype(np.float32), changes.ids[part])
        self._ids = changes.alive


def _trained_lists(vectors: NDArray[np.float16]) -> Any:
    """Empty inverted lists for vectors such as these, (n, dim)."""
    count, dim = vectors.shape
    lists = round(2 * math.sqrt(count))
    index: Any = faiss.index_factory(dim, f"IVF{lists},{_QUANTIZER}", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = lists // _PROBED
    index.by_residual = False  # the stored vectors themselves, so that scores are exact
    index.cp.niter = 10
    sample = np.random.default_rng(0).permutation(count)[: lists * _TRAINING_VECTORS_A_LIST]
    index.train(vectors[np.sort(sample)].astype(np.float32))
    return index


def _ids_in_lists(index: Any) -> NDArray[np.int64]:
    lists = index.invlists
    sizes = [(i, lists.list_size(i)) for i in range(index.nlist)]
    parts = [faiss.rev_swig_ptr(lists.get_ids(i), size).copy() for i, size in sizes if size]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
