"""CCA from accumulated covariances, compared with scikit-learn, and alone at the size of Flickr30k's data.

scikit-learn takes all pairs at once and finds the components one after the other by iteration (NIPALS).
Each fit runs in a process of its own, and its memory is the growth of that process after its imports:
seesay's pairs are drawn batch by batch, scikit-learn's are all in memory. The floor is the time of the three
matrix products of each batch, in the same run. `--large` adds a fit to 6,000 features on both sides.

    python -m benchmarks.cca [--large]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from sklearn import cross_decomposition
from torch import Tensor

from benchmarks._harness import arguments, peak_mib, report, seconds
from seesay.matchers.cca import Covariances, solve_cca

Size = tuple[int, int, int, int]  # pairs, image features, sentence features, components

AGAINST_PEER: Size = (3_000, 200, 200, 20)
ALONE: Size = (30_000, 1_280, 3_000, 512)
LARGE: Size = (30_000, 6_000, 6_000, 512)
BATCH, RIDGE = 1_000, 1e-3
LEAST_RATIO = 50.0


def pairs(n: int, p: int, q: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw batches of two noisy views of common factors of decreasing strength."""
    rng = np.random.default_rng(0)
    strength = np.linspace(2, 0.1, min(p, q) // 2, dtype=np.float32)
    maps = [rng.standard_normal((len(strength), width), dtype=np.float32) for width in (p, q)]
    for _ in range(0, n, BATCH):
        causes = rng.standard_normal((BATCH, len(strength)), dtype=np.float32) * strength
        x, y = (causes @ each / np.linalg.norm(strength) for each in maps)
        for view in (x, y):
            view += rng.standard_normal(view.shape, dtype=np.float32)
        yield torch.from_numpy(x), torch.from_numpy(y)


def ours(size: Size, ridge: float) -> dict[str, Any]:
    """Return the seconds of accumulation and of solution, the growth in MiB, and the correlations."""
    n, p, q, dim = size
    before = peak_mib()
    covariances, streamed = Covariances(), 0.0
    for x, y in pairs(n, p, q):
        start = time.perf_counter()
        covariances.add(x, y)
        streamed += time.perf_counter() - start
    start = time.perf_counter()
    correlations = solve_cca(covariances, dim, ridge, ridge).correlations.tolist()
    solved = time.perf_counter() - start
    return {"stream": streamed, "solve": solved, "MiB": peak_mib() - before, "correlations": correlations}


def theirs(size: Size) -> dict[str, Any]:
    """Return the same for scikit-learn, which has no ridge; the correlations are those of its projections."""
    n, p, q, dim = size
    before = peak_mib()
    x, y = (torch.cat(views).numpy() for views in zip(*pairs(n, p, q), strict=True))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some components end at the iteration limit
        fitted = cross_decomposition.CCA(n_components=dim).fit(x, y)
    solved = time.perf_counter() - start
    left, right = fitted.transform(x, y)
    correlations = [float(np.corrcoef(left[:, i], right[:, i])[0, 1]) for i in range(dim)]
    return {"solve": solved, "MiB": peak_mib() - before, "correlations": correlations}


def floor(size: Size) -> float:
    """Return the seconds of the three products of every batch alone."""
    n, p, q, _ = size
    x, y = next(pairs(BATCH, p, q))
    return seconds(lambda: (x.T @ x, y.T @ y, x.T @ y), repeats=3) * n / BATCH


def alone(work: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a function in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(work, *given).result()


def against_peer(size: Size) -> dict[str, Any]:
    mine, reference = alone(ours, size, 0.0), alone(theirs, size)
    total = mine["stream"] + mine["solve"]
    apart = np.abs(np.subtract(mine["correlations"], reference["correlations"])).max()
    return {
        "pairs × features, components": "{} × ({} + {}), {}".format(*size),
        "scikit-learn s": reference["solve"],
        "seesay s": total,
        "ratio": reference["solve"] / total,
        "scikit-learn MiB": reference["MiB"],
        "seesay MiB": mine["MiB"],
        "correlations differ by": float(apart),
    }


def at_size(size: Size) -> dict[str, Any]:
    mine, products = alone(ours, size, RIDGE), alone(floor, size)
    n, p, q, _ = size
    return {
        "pairs × features, components": "{} × ({} + {}), {}".format(*size),
        "stream s": mine["stream"],
        "of it bare products": products / mine["stream"],
        "solve s": mine["solve"],
        "seesay MiB": mine["MiB"],
        "three covariances MiB": (p * p + q * q + p * q) * 8 / 2**20,
        "all features MiB": n * (p + q) * 4 / 2**20,
    }


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--large", action="store_true", help="6,000 features on both sides too")
    options = parser.parse_args()
    compared = against_peer(AGAINST_PEER)
    report("cca", [compared], options)
    report("cca-size", [at_size(size) for size in ((ALONE, LARGE) if options.large else (ALONE,))], options)
    return 0 if compared["ratio"] >= LEAST_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
