"""FAISS's inverted lists: of half-precision vectors, or of the smallest codes that reach a recall.

A quantiser stores a code of each vector. The best candidates by code are re-scored with their vectors from
the store, so scores stay exact; codes can only lose candidates.

A file of lists is FAISS's own, followed by a line of metadata and a checksum of both. The checksum is made
with this user's key (see `seesay.seal`), because FAISS trusts its files, and lists in a copied index must not
reach it. Files are memory-mapped, so that all processes share them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.paths import replacing
from seesay.seal import seal
from seesay.search.store import Store

VECTORS = "SQfp16"  # what the store keeps: half precision, nothing is lost
REFINED = 10  # candidates per requested item that are re-scored with their vectors
_AT = 10  # recall@10
_SAMPLE = 200  # vectors of items, and at most as many given queries, for which recall is measured
_DIVISORS = (64, 32, 16, 8, 4, 2, 1)  # one list in so many is searched
_TRAINING_VECTORS_A_LIST = 64
_PART = 1 << 24  # bytes of a file
_LONGEST_END = 1000  # bytes of metadata and checksum
_ROUNDING = 1e-6  # of an inner product in single precision, relative to the lengths of the vectors


class Lists(NamedTuple):
    """Filled inverted lists.

    Attributes:
        index: of FAISS.
        quantiser: in FAISS's notation, such as "PQ64np" or "SQfp16".
        recall: the measured recall@10.
    """

    index: Any
    quantiser: str
    recall: float


def make_lists(
    store: Store,
    ids: NDArray[np.int64],
    divisor: int = 8,
    quantiser: str = VECTORS,
    centres: NDArray[np.float32] | None = None,
) -> Any:
    """Train and fill an index of FAISS with inverted lists; one list in `divisor` is searched.

    Only codes and a sample of the vectors are in memory.

    Args:
        store: of the items.
        ids: of the items, (n,), ascending.
        divisor: the share of the lists that is searched is one in this number.
        quantiser: in FAISS's notation.
        centres: of the lists, (l, dim), if they are known.
    """
    count = round(2 * math.sqrt(len(ids)))
    sample = np.random.default_rng(0).permutation(ids)[: count * _TRAINING_VECTORS_A_LIST]
    faiss = load_faiss()
    index = faiss.index_factory(store.dim, f"IVF{count},{quantiser}", faiss.METRIC_INNER_PRODUCT)
    index.nprobe = max(count // divisor, 1)
    if quantiser == VECTORS:
        index.by_residual = False  # the stored vectors themselves, so that scores are exact
    if centres is not None:
        index.quantizer.add(centres)
    index.train(store.vectors(np.sort(sample).tolist())[1].astype(np.float32))
    for here, vectors in store.parts(ids):
        index.add_with_ids(vectors, here)
    return index


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
    asked = asked_for_recall(store, ids, queries, _SAMPLE)
    centres = None
    for quantiser in _quantisers(store.dim):
        index, before = make_lists(store, ids, 1, quantiser, centres), 0.0
        centres = index.quantizer.reconstruct_n(0, index.nlist)
        for probes in sorted({max(index.nlist // divisor, 1) for divisor in _DIVISORS}):
            index.nprobe = probes
            # Sentences are harder than images: each kind of queries has to reach the target.
            found = min(_recall(index, quantiser, store, some, tenth) for some, tenth in asked)
            if found >= recall:
                return Lists(index, quantiser, found)
            if quantiser != VECTORS and found <= before:
                break  # the codes lose what more lists would find
            before = found
    return Lists(index, quantiser, found)  # uncompressed, in all lists: only rounding can miss any


def _quantisers(dim: int) -> list[str]:
    """Return quantisers in FAISS's notation, by ascending number of bytes per vector."""
    # One byte for 8 or 4 numbers; "np": without polysemous training, which takes minutes and is not used.
    products = [f"PQ{dim // part}np" for part in (8, 4) if dim % part == 0]
    return [*products, "SQ4", "SQ8", VECTORS]


def refined(
    ids: NDArray[np.int64], vectors: NDArray[np.floating], query: NDArray[np.float32], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return ids and scores of the `k` best items by their vectors (c, dim); ties go to the lower id."""
    scores = np.vecdot(vectors.astype(np.float32), query)
    order = np.lexsort((ids, -scores))[:k]
    return ids[order], scores[order]


def asked_for_recall(
    store: Store, ids: NDArray[np.int64], queries: NDArray[np.float32], most: int
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return queries for which recall is measured, (q, dim), with the scores of their tenth best items, (q,).

    Vectors drawn from the items, and the given queries, are one pair each.

    Args:
        store: of the items.
        ids: of the items, (n,).
        queries: (q, dim); there may be none.
        most: the maximum number of queries of each kind.
    """
    own = store.vectors(np.random.default_rng(0).permutation(ids)[:most].tolist())[1].astype(np.float32)
    asked = [each for each in (own, queries[:most]) if len(each)]
    best = [np.full((len(each), _AT), -np.inf, np.float32) for each in asked]
    for _, vectors in store.parts(ids):
        for each, kept in zip(asked, best, strict=True):
            both = np.concatenate([kept, each @ vectors.T], axis=1)
            kept[:] = -np.partition(-both, _AT - 1, axis=1)[:, :_AT]
    return [(each, kept.min(axis=1)) for each, kept in zip(asked, best, strict=True)]


def _recall(
    index: Any,
    quantiser: str,
    store: Store,
    queries: NDArray[np.float32],
    tenth: NDArray[np.float32],
) -> float:
    """The share of the ten best that the lists find, after re-scoring."""
    wanted = min(_AT, int(index.ntotal))
    _, candidates = index.search(queries, wanted * (1 if quantiser == VECTORS else REFINED))
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
    with replacing(file) as beside:
        try:
            load_faiss().write_index(index, str(beside))
        except RuntimeError as error:
            raise OSError(f"{file}: {error}") from error
        with beside.open("r+b") as opened:
            size = opened.seek(0, os.SEEK_END) + opened.write(b"\n" + json.dumps(facts).encode())
            opened.write(b"\n" + _checksum(opened, size, str(facts["identity"])))


def read_lists(file: Path, identity: str, generations: range) -> tuple[Any, dict[str, Any]] | None:
    """Read lists and their metadata; None if they are damaged, of another index, or outdated.

    Args:
        file: the file of `write_lists`, if it exists.
        identity: the expected identity of the index.
        generations: the accepted generations.
    """
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(size - _LONGEST_END, 0))
            _, line, checksum = opened.read().rsplit(b"\n", 2)
            facts = json.loads(line)
            generation = facts["generation"]
            # A range looks up whole numbers at once, but compares anything else with each of its members.
            if not isinstance(generation, int) or generation not in generations:
                return None
            if facts["identity"] != identity:
                return None
            if not secrets.compare_digest(checksum, _checksum(opened, size - len(checksum) - 1, identity)):
                return None
            opened.seek(0)
            # Not by its name, under which another process may have written other lists meanwhile.
            faiss = load_faiss()
            mapped = faiss.IO_FLAG_MMAP if hasattr(faiss, "OnDiskInvertedLists") else 0
            index = faiss.read_index(f"/dev/fd/{opened.fileno()}", mapped)
            if is_mapped(index):  # a thread for each list of a query takes longer than its search does
                faiss.downcast_InvertedLists(index.invlists).prefetch_nthread = 0
            return index, facts
    except (OSError, ValueError, TypeError, LookupError, RuntimeError, RecursionError):
        return None


def _checksum(opened: BinaryIO, size: int, identity: str) -> bytes:
    """A checksum of the first bytes of a file, which only this user can make for an index.

    Raises:
        OSError: the key cannot be stored.
    """
    key = seal(identity, "lists").encode()
    if not key:
        raise PermissionError("no key can be kept")
    checksum = hashlib.blake2b(key=key)
    opened.seek(0)
    for start in range(0, size, _PART):
        checksum.update(opened.read(min(_PART, size - start)))
    return checksum.hexdigest().encode()


def is_mapped(index: Any) -> bool:
    """Whether the lists are memory-mapped and therefore read-only."""
    return type(load_faiss().downcast_InvertedLists(index.invlists)).__name__ == "OnDiskInvertedLists"


def to_memory(index: Any) -> None:
    """Copy memory-mapped lists into memory, to change them."""
    if not is_mapped(index):
        return
    mapped, lists = index.invlists, load_faiss().ArrayInvertedLists(index.nlist, index.code_size)
    for i in range(index.nlist):
        lists.add_entries(i, mapped.list_size(i), mapped.get_ids(i), mapped.get_codes(i))
    index.replace_invlists(lists, True)
    lists.this.disown()  # they are the index's


def load_faiss() -> Any:
    """Return FAISS, whose stubs are of C++; it is slow to import."""
    import faiss

    return faiss
