"""Fisher vectors of sentences under a Gaussian mixture, compared with scikit-image and a NumPy loop.

All three compute power- and L2-normalised vectors of the same sentences in one run, in batches of 1,024 and
on one thread. scikit-image's vectors also contain the gradients of the mixture weights, and the sign of
their scale part is reversed. Both are undone, outside the timing, before the vectors are compared.

    python -m benchmarks.fisher
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks._harness import arguments, report, seconds
from seesay.encoders.sentences.fisher import Mixture, fisher_vectors, fit_mixture, normalise
from seesay.encoders.sentences.word_vectors import Bags

Vectors = NDArray[Any]

SENTENCES, BATCH, WORDS, CENTRES = 2048, 1024, 7000, 30
DIMS = (50, 300)
LEAST_RATIO = 3.0
MOST_DIFFERENCE = 1e-5


def make_sentences(seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw word ids by Zipf's law and lengths around eleven, as in captions."""
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(10, SENTENCES) + 1
    shares = 1 / np.arange(1, WORDS + 1)
    return rng.choice(WORDS, lengths.sum(), p=shares / shares.sum()), lengths


def by_seesay(
    words: Vectors, numbers: NDArray[np.int64], lengths: NDArray[np.int64], mixture: Mixture
) -> Vectors:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    parts = []
    for start in range(0, len(lengths), BATCH):
        stop = min(start + BATCH, len(lengths))
        distinct, rows = np.unique(numbers[ends[start] : ends[stop]], return_inverse=True)
        bags = Bags(words[distinct], rows, lengths[start:stop])
        parts.append(normalise(fisher_vectors(bags, words[distinct], mixture)))
    return np.concatenate(parts)


def by_loop(sentences: list[Vectors], mixture: Mixture) -> Vectors:
    rows = []
    for x in sentences:
        _, posteriors = mixture.expect(x)
        z = (x[:, None] - mixture.location) / mixture.scale
        share = (posteriors / np.sqrt(mixture.weights))[:, :, None]
        row = np.stack([(share * z).mean(axis=0), (share * (z**2 - 1)).mean(axis=0) / np.sqrt(2)], axis=1)
        rooted = np.sign(row.ravel()) * np.sqrt(np.abs(row.ravel()))
        rows.append(rooted / np.linalg.norm(rooted))
    return np.array(rows)


def by_scikit_image(sentences: list[Vectors], mixture: Mixture) -> Vectors:
    theirs = GaussianMixture(len(mixture.weights), covariance_type="diag")
    theirs.weights_, theirs.means_ = mixture.weights, mixture.location
    theirs.covariances_, theirs.precisions_cholesky_ = np.square(mixture.scale), 1 / mixture.scale
    return np.array([fisher_vector(x, theirs, improved=True) for x in sentences])


def in_our_layout(rows: Vectors, k: int) -> Vectors:
    location, scale = np.split(rows[:, k:], 2, axis=1)
    laid = np.stack([location.reshape(len(rows), k, -1), -scale.reshape(len(rows), k, -1)], axis=2)
    laid = laid.reshape(len(rows), -1)
    unit: Vectors = laid / np.linalg.norm(laid, axis=1, keepdims=True)
    return unit


def compare(dim: int) -> dict[str, Any]:
    words = np.random.default_rng(1).laplace(size=(WORDS, dim))
    numbers, lengths = make_sentences()
    mixture = fit_mixture(words, "gmm", CENTRES)
    sentences = np.split(words[numbers], np.cumsum(lengths)[:-1])
    ways: dict[str, Callable[[], Vectors]] = {
        "seesay": lambda: by_seesay(words, numbers, lengths, mixture),
        "scikit-image": lambda: by_scikit_image(sentences, mixture),
        "loop": lambda: by_loop(sentences, mixture),
    }
    with threadpool_limits(1):
        rate = {name: SENTENCES / seconds(way, repeats=3) for name, way in ways.items()}
    ours, theirs = ways["seesay"](), in_our_layout(ways["scikit-image"](), CENTRES)
    return {
        "dimensions": f"{dim} · {CENTRES} · 2",
        "seesay /s": rate["seesay"],
        "scikit-image /s": rate["scikit-image"],
        "loop /s": rate["loop"],
        "ratio": rate["seesay"] / rate["scikit-image"],
        "ratio to loop": rate["seesay"] / rate["loop"],
        "largest difference": float(np.abs(ours - theirs).max()),
    }


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    rows = [compare(dim) for dim in DIMS]
    report("fisher", rows, options)
    good = (row["ratio"] >= LEAST_RATIO and row["largest difference"] <= MOST_DIFFERENCE for row in rows)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
