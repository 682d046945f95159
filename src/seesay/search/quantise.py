"""Compressed inverted lists: the smallest ones that still reach a recall.

A quantiser stores a code of each vector. The best candidates by code are re-scored with their vectors from
the store, so scores stay exact; codes can only lose candidates.

A file begins with a line of metadata, with a checksum of FAISS's bytes that follow. The checksum is made with
this user's key (see `seesay.seal`), because FAISS trusts its files, and lists in a copied index must not
reach it. Lists are written in parts, because a copy would double the memory, and memory-mapped for reading,
so that all processes share them.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from seesay.errors import SeesayError
from seesay.paths import replacing
from seesay.seal import seal
from seesay.search.store import Store

VECTORS = "SQfp16"  # what the store keeps: half precision, nothing is lost
REFINED = 10  # times as many items as asked for are compared once more by their vectors
_AT = 10  # recall@10
_SAMPLE = 200  # of the items' own vectors, asked for beside the queries that are given
_DIVISORS = (64, 32, 16, 8, 4, 2, 1)  # one list in so many is searched
_TRAINING_VECTORS_A_LIST = 64
_MAGIC = b"seesay vectors 2\n"
_PART = 1 << 24  # bytes of a file
_ROUNDING = 1e-6  # of an inner product in single precision, relative to the lengths of the vectors


@dataclass(frozen=True)
class Lists:
    """Filled inverted lists.

    Attributes:
        index: of FAISS.
        quantiser: in FAISS's notation, such as "PQ64np" or "SQfp16".
        recall: the measured recall@10; None if none was requested.
    """

    index: Any
    quantiser: str
    recall: float | None = None

    @property
    def coded(self) -> bool:
        """Whether they contain codes instead of vectors."""
        return self.quantiser != VECTORS


def check_recall(recall: float) -> float:
    """Check a requested recall; raise SeesayError if it is out of range."""
    if not 0.5 <= recall <= 1:
        raise SeesayError(f"recall {recall:g}: expected a number from 0.5 to 1.")
    return recall


def _quantisers(dim: int) -> list[str]:
    """Return quantisers in FAISS's notation, by ascending number of bytes per vector."""
    # A byte for so many numbers; "np": without an order of codes that takes minutes and that no search uses.
    products = [f"PQ{dim // part}np" for part in (8, 4) if dim % part == 0]
    return [*products, "SQ4", "SQ8", VECTORS]


def make_lists(store: Store, ids: NDArray[np.int64], quantiser: str = VECTORS, divisor: int = 8) -> Lists:
    """Train and fill lists with items (n,), in ascending order of ids; one list in `divisor` is searched."""
    return _Cells(store, ids).lists(quantiser, divisor)


def lists_of_recall(
    store: Store, ids: NDArray[np.int64], queries: NDArray[np.float32], recall: float
) -> Lists:
    """Build the smallest lists, with the fewest lists searched, whose recall@10 is at least `recall`.

    Args:
        store: of the items.
        ids: of the items, (n,), ascending.
        queries: (q, dim), for which recall is measured, in addition to vectors drawn from the items.
        recall: from 0.5 to 1; lists of uncompressed vectors reach any.
    """
    own = np.random.default_rng(0).permutation(ids)[:_SAMPLE]
    asked = [store.vectors(own.tolist())[1].astype(np.float32), *([queries] if len(queries) else [])]
    truths = tenth_best(store, ids, asked)
    cells = _Cells(store, ids)
    for quantiser in _quantisers(store.dim):
        made, before = cells.lists(quantiser), 0.0
        for probes in sorted({max(made.index.nlist // divisor, 1) for divisor in _DIVISORS}):
            made.index.nprobe = probes
            # Sentences are harder than images: each kind of queries has to reach the target.
            found = min(_recall(made, store, some, truth) for some, truth in zip(asked, truths, strict=True))
            if found >= recall:
                return Lists(made.index, quantiser, found)
            if made.coded and found <= before:
                break  # the codes lose what more lists would find
            before = found
    return Lists(made.index, quantiser, found)  # the vectors themselves in all lists: only rounding is missed


class _Cells:
    """The list of each item, computed once for all kinds of codes.

    Only codes and a sample of the vectors are in memory.

    Args:
        store: of the items.
        ids: of the items, (n,), ascending.
    """

    def __init__(self, store: Store, ids: NDArray[np.int64]) -> None:
        import faiss

        self._store, self._ids = store, ids
        count = round(2 * math.sqrt(len(ids)))
        sample = np.random.default_rng(0).permutation(ids)[: count * _TRAINING_VECTORS_A_LIST]
        self._sample = store.vectors(np.sort(sample).tolist())[1].astype(np.float32)
        self._centres: Any = faiss.Kmeans(store.dim, count, niter=10, spherical=True)
        self._centres.train(self._sample)
        self._of = np.full(len(ids), -1, np.int32)  # what list; -1 until it is known

    def lists(self, quantiser: str, divisor: int = 8) -> Lists:
        """Train and fill lists; one in `divisor` is searched."""
        import faiss

        count, dim = self._centres.centroids.shape
        index: Any = faiss.index_factory(dim, f"IVF{count},{quantiser}", faiss.METRIC_INNER_PRODUCT)
        index.quantizer.add(self._centres.centroids)
        index.nprobe = max(count // divisor, 1)
        if quantiser == VECTORS:
            index.by_residual = False  # the stored vectors themselves, so that scores are exact
        index.train(self._sample)
        pointer = faiss.swig_ptr
        for ids, vectors in self._store.parts(self._ids):
            of = self._assigned(ids, vectors)
            index.add_core(len(ids), pointer(vectors), pointer(ids), pointer(of))
        return Lists(index, quantiser)

    def _assigned(self, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the lists (n,) of items."""
        at = np.searchsorted(self._ids, ids)
        if (self._of[at] < 0).any():
            self._of[at] = self._centres.assign(vectors)[1]
        return self._of[at].astype(np.int64)


def refined(
    ids: NDArray[np.int64], vectors: NDArray[np.floating], query: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return ids and scores of the `k` best items by their vectors (c, dim); ties go to the lower id."""
    scores = np.vecdot(vectors.astype(np.float32), query)
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]


def tenth_best(
    store: Store, ids: NDArray[np.int64], asked: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float32]]:
    """Return the score of the tenth best item for each query, (q,)."""
    best = [np.full((len(queries), _AT), -np.inf, np.float32) for queries in asked]
    for _, vectors in store.parts(ids):
        for queries, kept in zip(asked, best, strict=True):
            both = np.concatenate([kept, queries @ vectors.T], axis=1)
            kept[:] = -np.partition(-both, _AT - 1, axis=1)[:, :_AT]
    return [np.asarray(kept.min(axis=1), np.float32) for kept in best]


def _recall(made: Lists, store: Store, queries: NDArray[np.float32], tenth: NDArray[np.float32]) -> float:
    """The share of the ten best that the lists find, after re-scoring."""
    wanted = min(_AT, int(made.index.ntotal))
    _, candidates = made.index.search(queries, wanted * (REFINED if made.coded else 1))
    ids, vectors = store.vectors(np.unique(candidates).tolist())
    hits = 0
    for query, found, least in zip(queries, candidates, tenth, strict=True):
        among = np.isin(ids, found)
        _, scores = refined(ids[among], vectors[among], query, wanted)
        # Rounding is of the size of the vectors, however small their products are.
        largest = np.linalg.norm(vectors[among].astype(np.float32), axis=1).max(initial=0)
        hits += int((scores >= least - _ROUNDING * np.linalg.norm(query) * largest).sum())
    return hits / (wanted * len(queries))


def write_lists(file: Path, index: Any, facts: Mapping[str, object]) -> None:
    """Write lists with metadata, including the index's identity.

    Raises:
        OSError: the file or the key cannot be written.
    """
    checksum = _new_checksum(str(facts["identity"]))
    with replacing(file) as beside, beside.open("wb") as opened:
        opened.write(_line(facts, checksum))

        def write(part: bytes) -> int:
            checksum.update(part)
            return opened.write(part)

        faiss = _faiss()
        faiss.write_index(index, faiss.PyCallbackIOWriter(write, _PART))
        opened.seek(0)
        opened.write(_line(facts, checksum))  # which is as long as the first


def read_lists(file: Path, identity: str, generations: range) -> tuple[Any, dict[str, Any]] | None:
    """Read lists and their metadata; None if they are damaged, of another index, or outdated.

    Args:
        file: the file of `write_lists`, if it exists.
        identity: the expected identity of the index.
        generations: the accepted generations.
    """
    try:
        with file.open("rb") as opened:
            if opened.readline(100) != _MAGIC:
                return None
            facts = json.loads(opened.readline(1000))
            if facts["identity"] != identity or facts["generation"] not in generations:
                return None
            start = opened.tell()
            if not secrets.compare_digest(str(facts["checksum"]).encode(), _checksum(opened, identity)):
                return None
            opened.seek(0)
            # Not by its name, under which another process may have written other lists meanwhile.
            return _mapped(Path(f"/dev/fd/{opened.fileno()}"), start), facts
    except (OSError, ValueError, KeyError, RuntimeError):
        return None


def is_mapped(index: Any) -> bool:
    """Whether the lists are memory-mapped and therefore read-only."""
    return type(_faiss().downcast_InvertedLists(index.invlists)).__name__ == "OnDiskInvertedLists"


def to_memory(index: Any) -> None:
    """Copy memory-mapped lists into memory, to change them."""
    if not is_mapped(index):
        return
    mapped, lists = index.invlists, _faiss().ArrayInvertedLists(index.nlist, index.code_size)
    for i in range(index.nlist):
        lists.add_entries(i, mapped.list_size(i), mapped.get_ids(i), mapped.get_codes(i))
    index.replace_invlists(lists, True)
    lists.this.disown()  # they are the index's


def _mapped(file: Path, start: int) -> Any:
    """Read an index from a position in a file, memory-mapped if the system supports it."""
    faiss = _faiss()
    reader = faiss.FileIOReader(str(file))
    passed = np.empty(start, np.uint8)
    reader(faiss.swig_ptr(passed), 1, start)
    index = faiss.read_index(reader, faiss.IO_FLAG_MMAP if hasattr(faiss, "OnDiskInvertedLists") else 0)
    if is_mapped(index):  # a thread for each list of a query takes longer than its search does
        faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
    return index


def _line(facts: Mapping[str, object], checksum: Any) -> bytes:
    return _MAGIC + json.dumps({**facts, "checksum": checksum.hexdigest()}).encode() + b"\n"


def _new_checksum(identity: str) -> hashlib.blake2b:
    """A checksum that only this user can make for an index; raise OSError if the key cannot be stored."""
    key = seal(identity, "lists").encode()
    if not key:
        raise PermissionError("no key can be kept")
    return hashlib.blake2b(key=key)


def _checksum(opened: BinaryIO, identity: str) -> bytes:
    checksum = _new_checksum(identity)
    while part := opened.read(_PART):
        checksum.update(part)
    return checksum.hexdigest().encode()


def _faiss() -> Any:
    """FAISS, whose stubs are of C++; slow to import."""
    import faiss

    return faiss
