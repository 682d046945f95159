"""seesay compared with what people use for parts of it: torchmetrics and sentence-transformers.

* R@10 and MAP of image retrieval from a score matrix, with torchmetrics, each in its own process.
* The ten nearest of 100,000 vectors, one query at a time, with semantic_search.

Times are processor times, on one core where code runs in this process, because other work on the machine
hardly affects them.

    pip install sentence-transformers
    python -m benchmarks.peers
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, peak_mib, report

SIZES = (1_000, 5_000)  # images, each with five sentences
PER_IMAGE = 5
VECTORS, QUERIES, NEAREST = 100_000, 200, 10
K = 10

Found = tuple[float, float, list[float]]  # seconds, MiB, values


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    metrics = [_metrics_row(images) for images in SIZES]
    report("peers-metrics", metrics, options)
    report("peers-search", [_search_row()], options)
    return 0 if all(row["ratio"] >= 1 and row["same values"] == "yes" for row in metrics) else 1


def _scores(images: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    owners = np.repeat(np.arange(images), PER_IMAGE)
    scores = np.random.default_rng(0).standard_normal((images, len(owners)), dtype=np.float32)
    scores[owners, np.arange(len(owners))] += 3
    return scores, owners


def _ours(images: int) -> Found:
    from seesay.metrics import average_precision, retrieval_metrics

    scores, owners = _scores(images)
    started = time.process_time()
    found = retrieval_metrics(scores, owners, k=(K,))
    precision = average_precision(scores, owners == np.arange(images)[:, None])
    values = [found[f"I R@{K}"], 100 * float(precision.mean())]
    return time.process_time() - started, peak_mib(), values


def _torchmetrics(images: int) -> Found:
    import torch

    from tests.fit_torchvision import fit_torchvision

    fit_torchvision()
    from torchmetrics.retrieval import RetrievalHitRate, RetrievalMAP

    torch.set_num_threads(1)
    scores, owners = _scores(images)
    started = time.process_time()
    values = torch.from_numpy(np.ascontiguousarray(scores.T)).flatten()
    right = torch.from_numpy(owners[:, None] == np.arange(images)).flatten()
    queries = torch.arange(len(owners)).repeat_interleave(images)
    found = [
        100 * float(metric(values, right, indexes=queries))
        for metric in (RetrievalHitRate(top_k=K), RetrievalMAP())
    ]
    return time.process_time() - started, peak_mib(), found


def _metrics_row(images: int) -> dict[str, Any]:
    (mine, my_mib, ours), (theirs, their_mib, others) = (_apart(w, images) for w in (_ours, _torchmetrics))
    return {
        "scores": f"{images:,} × {images * PER_IMAGE:,}",
        "seesay s": mine,
        "torchmetrics s": theirs,
        "ratio": theirs / mine,
        "seesay MiB": my_mib,
        "torchmetrics MiB": their_mib,
        "same values": "yes" if np.allclose(ours, others, atol=1e-3) else f"no: {ours}, {others}",
    }


def _apart(work: Callable[[int], Found], images: int) -> Found:
    """Return the result of a measurement in a process of its own, for its own peak of memory."""
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sending, work, images))
    process.start()
    sending.close()
    found: Found = receiving.recv()
    process.join()
    return found


def _send(pipe: Connection, work: Callable[[int], Found], images: int) -> None:
    pipe.send(work(images))


def _search_row() -> dict[str, Any]:
    import faiss
    import torch

    from tests.fit_torchvision import fit_torchvision

    fit_torchvision()
    from sentence_transformers.util import dot_score, semantic_search

    from benchmarks.search import Space, fill
    from seesay.search.index import create_store
    from seesay.search.neighbours import Neighbours

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    space = Space()
    images = space.images(VECTORS + QUERIES)
    vectors, queries = images[QUERIES:], space.sentences(images[:QUERIES])
    corpus = torch.from_numpy(vectors)

    def theirs(query: NDArray[np.float32]) -> list[int]:
        [hits] = semantic_search(
            torch.from_numpy(query[None]), corpus, top_k=NEAREST, score_function=dot_score
        )
        return [int(hit["corpus_id"]) for hit in hits]

    with tempfile.TemporaryDirectory() as folder:
        store = create_store(folder, "benchmark", "0", vectors.shape[1])
        fill(store, vectors)
        near = Neighbours(store, "image", Path(folder) / "vectors.f16")
        built = _processor(near.refresh)
        shared = [len({*theirs(q)} & {*(near.search(q, NEAREST)[0] - 1).tolist()}) for q in queries]
        slow = _processor(lambda: [theirs(query) for query in queries]) / QUERIES
        fast = _processor(lambda: [near.search(query, NEAREST) for query in queries]) / QUERIES
    return {
        "vectors": f"{VECTORS:,} × {vectors.shape[1]}",
        "seesay ms": 1e3 * fast,
        "semantic_search ms": 1e3 * slow,
        "ratio": slow / fast,
        "seesay recall@10": float(np.mean(shared)) / NEAREST,
        "seesay build s": built,
    }


def _processor(work: Callable[[], object]) -> float:
    """Return the processor time of a call in seconds."""
    started = time.process_time()
    work()
    return time.process_time() - started


def _bytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
