"""Ranking a score matrix by counting, as seesay does, compared with sorting for each query.

The loop is the usual evaluation code: one argsort per query, then a search for the correct result. Both rank
the same matrix in one run. They can only differ where scores are equal; the last column counts these ranks.

    python -m benchmarks.ranking
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, peak_mib, report, seconds
from seesay.metrics.ranks import Ranks, ranks

SIZES = ((1_000, 5_000), (5_000, 25_000))
LEAST_RATIO = 15.0


def loop(scores: NDArray[np.float32], owners: NDArray[np.int64]) -> Ranks:
    sentence = np.empty(len(scores), np.int64)
    for i, row in enumerate(scores):
        order = np.argsort(row)[::-1]
        sentence[i] = np.flatnonzero(owners[order] == i)[0]
    image = np.empty(len(owners), np.int64)
    for j, column in enumerate(scores.T):
        order = np.argsort(column)[::-1]
        image[j] = np.flatnonzero(order == owners[j])[0]
    return Ranks(sentence, image)


def compare(n_images: int, n_sentences: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((n_images, n_sentences), dtype=np.float32)
    owners = np.arange(n_sentences) * n_images // n_sentences
    scores[owners, np.arange(n_sentences)] += 2
    before = peak_mib()
    ours = seconds(lambda: ranks(scores, owners))
    extra = peak_mib() - before
    start = time.perf_counter()
    expected = loop(scores, owners)
    plain = time.perf_counter() - start
    found = ranks(scores, owners)
    differing = int((found.sentence != expected.sentence).sum() + (found.image != expected.image).sum())
    return {
        "matrix": f"{n_images} × {n_sentences}",
        "loop s": plain,
        "seesay s": ours,
        "ratio": plain / ours,
        "extra MiB": extra,
        "matrix MiB": scores.nbytes / 2**20,
        "differing ranks": differing,
    }


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    rows = [compare(*size) for size in SIZES]
    report("ranking", rows, options)
    return 0 if all(row["ratio"] >= LEAST_RATIO for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
