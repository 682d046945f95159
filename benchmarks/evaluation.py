"""A complete evaluation at the size of COCO's 5,000 test images: recalls, intervals, a paired comparison.

Two score matrices of 5,000 images and 25,000 sentences are read from files and measured as `seesay evaluate
OURS.npy --against THEIRS.npy` does. This is compared with plain code on the same file: one argsort per query,
and a loop over the same bootstrap draws that gathers their ranks. Each runs in a process of its own, and both
must give the same figures.

    python -m benchmarks.evaluation
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._harness import arguments, peak_mib, report
from benchmarks.ranking import loop
from seesay.data.corpus import Corpus, CorpusImage, Sentence
from seesay.metrics.bootstrap import RESAMPLES, RetrievalSample, intervals
from seesay.metrics.ranks import Ranks
from seesay.metrics.recall import metrics_of
from seesay.metrics.significance import compare
from seesay.protocols.subject import ExternalScores

IMAGES, PER_IMAGE = 5_000, 5
MOST_SECONDS, MOST_MIB = 60.0, 4096.0
OURS, THEIRS = "ours.npy", "theirs.npy"

Stages = dict[str, tuple[float, Any]]  # the seconds and the result of each stage
Measured = tuple[Stages, float]  # and the peak of memory in MiB


def owners() -> NDArray[np.int64]:
    return np.repeat(np.arange(IMAGES), PER_IMAGE)


def save_scores(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in (OURS, THEIRS):
        scores = rng.standard_normal((IMAGES, IMAGES * PER_IMAGE), dtype=np.float32)
        scores[owners(), np.arange(len(owners()))] += 3
        np.save(folder / name, scores)


def timed(stages: Stages, stage: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    found = work()
    stages[stage] = time.perf_counter() - start, found
    return found


def ours(folder: Path) -> Measured:
    images = tuple(CorpusImage(str(i), "test") for i in range(IMAGES))
    corpus = Corpus("coco", folder, images, tuple(Sentence("", int(i)) for i in owners()))

    def ranked(name: str) -> list[RetrievalSample]:
        scores = ExternalScores.of(folder / name)
        assert scores is not None
        return [scores.subject(corpus, "test").retrieval_sample()]

    stages: Stages = {}
    found = timed(stages, "recalls", lambda: ranked(OURS))
    stages["recalls"] = stages["recalls"][0], figures(found[0].ranks)
    timed(stages, "intervals", lambda: [list(ends or ()) for ends in intervals(found).values()])
    timed(stages, "comparison", lambda: compare(found, ranked(THEIRS)))
    return stages, peak_mib()


def plain(folder: Path) -> Measured:
    stages: Stages = {}
    ranks = timed(stages, "recalls", lambda: loop(np.load(folder / OURS), owners()))
    stages["recalls"] = stages["recalls"][0], figures(ranks)
    image = ranks.image.reshape(IMAGES, PER_IMAGE)

    def resample() -> list[list[float]]:
        draw = np.random.default_rng(0)
        drawn = []
        for _ in range(RESAMPLES):
            chosen = draw.integers(0, IMAGES, IMAGES)
            drawn.append(figures(Ranks(ranks.sentence[chosen], image[chosen].ravel())))
        ends: list[list[float]] = np.percentile(drawn, [2.5, 97.5], axis=0).round(3).T.tolist()
        return ends

    timed(stages, "intervals", resample)
    return stages, peak_mib()


def figures(ranks: Ranks) -> list[float]:
    return list(metrics_of(ranks).values())


def rows_of(mine: Measured, theirs: Measured) -> list[dict[str, Any]]:
    rows = []
    for stage, (seconds, found) in mine[0].items():
        row = {"stage": stage, "seesay s": seconds, "seesay MiB": mine[1]}
        if stage in theirs[0]:
            slower, expected = theirs[0][stage]
            same = "yes" if _same(found, expected) else "no"
            row |= {
                "plain s": slower,
                "ratio": slower / seconds,
                "plain MiB": theirs[1],
                "same figures": same,
            }
        else:
            row |= dict.fromkeys(("plain s", "ratio", "plain MiB", "same figures"), "–")
        rows.append(row)
    return rows


def _same(found: Any, other: Any) -> bool:
    """Whether numbers are equal up to rounding to three decimals."""
    return bool(np.allclose(found, other, rtol=0, atol=0.0011))


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory() as name, get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        folder = Path(name)
        pool.apply(save_scores, (folder,))
        mine, theirs = (pool.apply(work, (folder,)) for work in (ours, plain))
    rows = rows_of(mine, theirs)
    report("evaluation", rows, options)
    fast = sum(row["seesay s"] for row in rows) <= MOST_SECONDS
    same = all(row["same figures"] != "no" for row in rows)
    return 0 if fast and same and mine[1] <= MOST_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
