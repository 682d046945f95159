"""Scoring all pairs with a pair matcher: each side is encoded once, and the matrix is filled in blocks.

Large matrices are stored on disk, row by row. Activations are in half precision on a GPU and in single
precision on a CPU; scores are in single precision.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.encoders.stores import INDEX, ArrayStore
from seesay.errors import SeesayError
from seesay.matchers.base import PairMatcher
from seesay.paths import locked
from seesay.progress import progress

BLOCK = 1 << 17  # pairs, roughly: seconds of work, which is the most that a kill loses
_IMAGES = 256  # in a block, at most: a sentence is scored with all of them at once, at all its positions
_PROBES = 64  # sentences rescored to check that cached rows are still valid
_CLOSE = {torch.float32: 1e-4, torch.float16: 0.02}  # tolerance, as a share of the largest score (at least 1)
_KEPT = 4 << 30  # bytes: eight matrices of 5,000 × 25,000
_SCORES = "scores"
_LOCK = "in-use"
_VERSION = "v2"
_PATIENCE = 7 * 24 * 3600.0  # seconds to wait for another process that computes the same matrix


@torch.inference_mode()
def score_all_pairs(matcher: PairMatcher, images: Tensor, sentences: Tensor, block: int = BLOCK) -> Tensor:
    """Score encoded images and sentences, (n, m), single precision, in CPU memory.

    Args:
        matcher: the pair matcher.
        images: output of its `encode_images`, n rows.
        sentences: output of its `encode_sentences`, m rows.
        block: pairs at a time; at least one image's are scored.
    """
    scores = torch.empty(len(images), len(sentences))
    for top, rows in _blocks(matcher, images, sentences, block):
        scores[top : top + len(rows)] = rows
    return scores


@torch.inference_mode()
def resume_all_pairs(
    matcher: PairMatcher, images: Tensor, sentences: Tensor, folder: Path, block: int = BLOCK
) -> NDArray[np.float32]:
    """Score all pairs like `score_all_pairs`, with progress, resuming from the rows in a folder.

    Args:
        matcher: the pair matcher.
        images: output of its `encode_images`, n rows.
        sentences: output of its `encode_sentences`, m rows.
        folder: of this matrix, created if missing. All rows are cached there; beyond some gigabytes, the
            least recently used folders beside it are removed.
        block: pairs at a time; a matrix of one block is not cached.

    Raises:
        SeesayError: the folder cannot be read or written.
    """
    if len(images) * len(sentences) <= block:
        return score_all_pairs(matcher, images, sentences, block).numpy()
    scores = np.empty((len(images), len(sentences)), np.float32)
    with opened_scores(folder, len(sentences)) as store:
        there = read_rows(store, scores)
        if there and not _is_valid(matcher, images, sentences, scores):
            store.clear()
            there = 0
        left = (len(images) - there) * len(sentences)
        with progress("Scoring", left, "pairs") as advance:
            for top, rows in _blocks(matcher, images, sentences, block, there):
                scores[top : top + len(rows)] = rows
                add_rows(store, top, scores[top : top + len(rows)])
                advance(rows.numel())
    drop_oldest(folder)
    return scores


def _blocks(
    matcher: PairMatcher, images: Tensor, sentences: Tensor, block: int, start: int = 0
) -> Iterator[tuple[int, Tensor]]:
    """Iterate over blocks of rows from row `start` on: the number of the first row, and scores (k, m)."""
    if not len(sentences):
        return
    device = images.device.type
    precision = _precision(device)
    few = min(max(block // len(sentences), 1), _IMAGES)
    images, sentences = images.to(precision), sentences.to(precision)
    for top in range(start, len(images), few):
        with torch.autocast(device, precision, enabled=precision != torch.float32):
            rows = matcher.score_encoded(images[top : top + few], sentences)
        yield top, rows.float().cpu()


def _precision(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.float16


def _is_valid(matcher: PairMatcher, images: Tensor, sentences: Tensor, scores: NDArray[np.float32]) -> bool:
    """Return whether cached scores equal the matcher's, checked on the first image."""
    some = torch.linspace(0, len(sentences) - 1, min(_PROBES, len(sentences))).long()
    fresh = score_all_pairs(matcher, images[:1], sentences[some.to(sentences.device)])[0].numpy()
    within = _CLOSE[_precision(images.device.type)] * max(float(np.abs(fresh).max()), 1.0)
    return np.allclose(scores[0, some.numpy()], fresh, rtol=0, atol=within)


@contextmanager
def opened_scores(folder: Path, columns: int) -> Iterator[ArrayStore]:
    """Open the rows of one score matrix under a lock; other processes wait.

    Args:
        folder: of this matrix.
        columns: m, at least 1.

    Raises:
        SeesayError: the folder cannot be read or written, or another process still uses it after a week.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeesayError(f"{folder}: cannot be read or written ({error.strerror}).") from error
    with locked(folder / _LOCK, f"{folder}: another process computes these scores.", _PATIENCE):
        yield ArrayStore(folder, "scores", {_SCORES: ("<f4", columns)})


def read_rows(store: ArrayStore, into: NDArray[np.float32]) -> int:
    """Copy the cached rows into a matrix (n, m), and return their number."""
    there = 0
    while there < len(into) and _key(there) in store:
        into[there] = store[_key(there)][_SCORES]
        there += 1
    if there:
        os.utime(store.folder / INDEX)  # eviction is by time of last use
    return there


def add_rows(store: ArrayStore, first: int, rows: NDArray[np.float32]) -> None:
    """Add rows (k, m), the first of which is row `first`, and flush them to disk."""
    store.add({_key(first + i): {_SCORES: row[None]} for i, row in enumerate(rows)})


def matrix_name(parts: Iterable[str | NDArray[np.generic]]) -> str:
    """Return the folder name of a matrix: a hash of the parts that it depends on."""
    digest = hashlib.blake2b(_VERSION.encode(), digest_size=16)
    for part in parts:
        if isinstance(part, str):
            digest.update(f"{len(part)} {part}".encode())
        else:
            digest.update(f"{part.shape} {part.dtype}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def drop_oldest(folder: Path, max_bytes: int = _KEPT) -> None:
    """Remove the least recently used matrices beside a folder until they fit into that many bytes.

    Matrices in use are kept; other processes may remove some at the same time.
    """
    found: list[tuple[float, int, Path]] = []
    for file in folder.parent.glob(f"*/{INDEX}"):
        with suppress(FileNotFoundError):
            length = sum(each.stat().st_size for each in file.parent.glob(f"{_SCORES}.*"))
            found.append((file.stat().st_mtime, length, file.parent))
    total = sum(length for _, length, _ in found)
    for _, length, other in sorted(found):
        if total <= max_bytes:
            return
        if other != folder:
            with suppress(SeesayError), locked(other / _LOCK, "in use"):
                for file in (other / INDEX, *other.glob(f"{_SCORES}.*")):
                    file.unlink(missing_ok=True)  # lock files stay: others wait there
                total -= length


def _key(row: int) -> str:
    return f"{row:032x}"
