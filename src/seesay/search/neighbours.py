"""The nearest vectors of an index: every one is compared, in half precision.

The store is the source of truth. A file beside it holds many vectors as they are compared, so that they need
not be read from the store, and all processes share one copy in memory. The file contains numbers only and is
never parsed: a wrong one can rank wrongly, like a wrong store, but nothing else.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seesay.paths import replacing
from seesay.search.filters import EVERYTHING, Filter
from seesay.search.hits import Ranked
from seesay.search.tables import Kind

if TYPE_CHECKING:
    from seesay.search.store import Store

_HEAD = struct.Struct("<16sqq")  # the index's identity, the generation, and the number of vectors

_ROWS_AT_ONCE = 65_536
_FILTERS = 16  # whose rows (a mask) are kept in memory until the index changes

Halves = NDArray[np.float16]


class Neighbours:
    """The nearest items of one kind by inner product; exact. Thread-safe.

    Attributes:
        generation: the store's generation that is searched; -1 before the first `refresh`.
        numpy_up_to: the number of vectors up to which NumPy compares them: importing FAISS takes longer.
        most_beside: the number of changes, or a hundredth of the vectors if that is more, up to which they
            are read from the store and the file is not written again.
    """

    numpy_up_to = 50_000
    most_beside = 10_000

    def __init__(self, store: Store, kind: Kind, file: Path) -> None:
        self._store, self._file = store, file
        self._kind: Kind = kind
        self._lock = threading.RLock()
        self.generation = self._generation_of_file = -1
        nothing = np.empty((0, store.dim), np.float16)
        self._blocks: tuple[Halves, Halves] = nothing, nothing  # in the file, and beside it
        self._ids: NDArray[np.int64] = np.empty(0, np.int64)  # of the rows of both
        self._alive: NDArray[np.bool_] = np.empty(0, np.bool_)  # rows that were not deleted or replaced
        self._passing = lru_cache(_FILTERS)(lambda where: np.isin(self._ids, store.matching(where)))
        self._singles = lru_cache(1)(lambda: (np.concatenate(self._blocks).astype(np.float32),))

    def refresh(self) -> None:
        """Read what was written to the store since the last call."""
        with self._lock:
            # What is written while this reads is of a later generation, and read by the next call.
            generation = self._store.generation()
            if self.generation == generation:
                return
            self._map_file()
            new, all_ids = (self._store.ids(self._kind, since) for since in (max(self.generation, 0), 0))
            alive = self._alive & np.isin(self._ids, all_ids) & ~np.isin(self._ids, new)
            ids, rows = self._store.vectors(new.tolist())
            in_file, beside = self._blocks
            self._blocks = in_file, np.concatenate([beside, rows]) if len(beside) else rows
            self._ids = np.concatenate([self._ids, ids])
            self._alive = np.concatenate([alive, np.ones(len(ids), np.bool_)])
            self.generation = generation
            self._forget()

    def save(self) -> None:
        """Write the file again if much has changed; searches go on meanwhile."""
        with self._lock:
            self.refresh()
            generation, blocks, ids, alive = self.generation, self._blocks, self._ids, self._alive
        in_file = len(blocks[0])
        changed = len(ids) - np.count_nonzero(alive[:in_file])
        is_lost = in_file > 0 and not self._file.is_file()
        if not is_lost and changed <= max(self.most_beside, in_file // 100):
            return
        with suppress(OSError):  # the vectors can be read from the store
            with replacing(self._file) as beside, beside.open("wb") as opened:
                identity = bytes.fromhex(self._store.meta["identity"])
                opened.write(_HEAD.pack(identity, generation, np.count_nonzero(alive)))
                opened.write(ids[alive].astype("<i8").tobytes())
                for rows, kept in zip(blocks, np.split(alive, [in_file]), strict=True):
                    for start in range(0, len(rows), _ROWS_AT_ONCE):
                        part = slice(start, start + _ROWS_AT_ONCE)
                        opened.write(rows[part][kept[part]].astype("<f2").tobytes())
            with self._lock:
                self._map_file()

    def search(self, query: NDArray[np.float32], k: int, where: Filter = EVERYTHING) -> Ranked:
        """Return ids and scores of the `k` best items that match a filter, in order; of the last ties any."""
        with self._lock:
            self.refresh()
            ids, rows = self._ids, self._alive
            blocks = self._singles() if len(ids) <= self.numpy_up_to else self._blocks
            if where.values:
                rows = rows & self._passing(where)
        count = int(np.count_nonzero(rows))
        if not min(k, count):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        query = np.ascontiguousarray(query, np.float32)  # compared by several threads at once
        at, scores = scanned(blocks, query, min(k, count), None if count == len(rows) else rows)
        order = np.lexsort((ids[at], -scores))
        return ids[at[order]], scores[order]

    def _forget(self) -> None:
        self._passing.cache_clear()
        self._singles.cache_clear()

    def _map_file(self) -> None:
        """Take the vectors in the file, unless it is cut, of another index, or taken or outdated already."""
        dim, identity = self._store.dim, bytes.fromhex(self._store.meta["identity"])
        with suppress(OSError, ValueError, struct.error), self._file.open("rb") as opened:
            index, generation, count = _HEAD.unpack(opened.read(_HEAD.size))
            start = _HEAD.size + 8 * count
            is_whole = os.fstat(opened.fileno()).st_size == start + 2 * dim * count
            is_new = self._generation_of_file < generation <= self._store.generation()
            if index != identity or not (is_whole and is_new):
                return
            ids = np.fromfile(opened, "<i8", count)
            rows = np.asarray(np.memmap(opened, "<f2", "r", start, (count, dim)))
            self.generation = self._generation_of_file = generation
            self._ids, self._alive = ids, np.ones(count, np.bool_)
            self._blocks = rows, rows[:0]
            self._forget()


def scanned(
    blocks: Sequence[Halves] | tuple[NDArray[np.float32]],
    query: NDArray[np.float32],
    k: int,
    rows: NDArray[np.bool_] | None = None,
) -> Ranked:
    """Return the numbers and scores of the `k` best rows of some blocks, in any order; of ties any.

    FAISS's scalar quantiser compares the vectors where they are: its codes of half precision are the vectors.

    Args:
        blocks: of vectors, (n, dim) each; or one block in single precision, which NumPy compares.
        query: (dim,).
        k: at least 1, at most the number of rows.
        rows: a mask of the rows that are compared; by default all.
    """
    if blocks[0].dtype == np.float32:
        # Unlike a product of matrices, it gives equal vectors equal scores wherever they stand.
        every = np.vecdot(blocks[0], query)
        every = every if rows is None else np.where(rows, every, -np.inf)
        at = np.argpartition(-every, k - 1)[:k]
        return at[np.isfinite(every[at])], every[at][np.isfinite(every[at])]
    import faiss as stubbed  # here, as it takes long

    faiss: Any = stubbed  # whose stubs are of C++
    scalar = faiss.ScalarQuantizer(len(query), faiss.ScalarQuantizer.QT_fp16)
    at, scores, start = np.empty(0, np.int64), np.empty(0, np.float32), 0
    for block in blocks:
        only = None
        if rows is not None:
            bits = np.packbits(rows[start : start + len(block)], bitorder="little")
            only = faiss.IDSelectorBitmap(bits)
        scanner = scalar.select_InvertedListScanner(faiss.METRIC_INNER_PRODUCT, None, True, only, False)
        scanner.set_query(faiss.swig_ptr(query))
        scanner.set_list(0, 0.0)
        best, found = np.full(k, -np.inf, np.float32), np.full(k, -1, np.int64)
        codes, heap = faiss.swig_ptr(block.view(np.uint8)), (faiss.swig_ptr(best), faiss.swig_ptr(found))
        if len(block):
            scanner.scan_codes(len(block), codes, None, *heap, k)
        at = np.concatenate([at, found[found >= 0] + start])
        scores = np.concatenate([scores, best[found >= 0]])
        start += len(block)
    if len(at) > k:
        kept = np.argpartition(-scores, k - 1)[:k]
        at, scores = at[kept], scores[kept]
    found = np.isfinite(scores)  # a file of somebody else may contain anything
    return at[found], scores[found]
