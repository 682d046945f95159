"""Fisher vectors of sentences under a Gaussian mixture, compared with scikit-image and a NumPy loop.

All three compute power- and L2-normalised vectors of the same sentences in one run, in batches of 1,024 and
on one thread. scikit-image's vectors also contain the gradients of the mixture weights, and the sign of
their scale part is reversed. Both are undone, outside the timing, before the vectors are compared.

A second table has the time to fit the printed encoder: words of 300 dimensions, and 18,000 dimensions of
which 6,000 are kept, for 1,024 sentences, and for as many as Flickr30k has by arithmetic from the steps.

    python -m benchmarks.fisher
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import ssyrk
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from benchmarks._harness import arguments, report, seconds
from seesay.encoders.sentences.base import fit_pca
from seesay.encoders.sentences.fisher import Mixture, fisher_vectors, fit_ica, fit_mixture, normalise
from seesay.encoders.sentences.word_vectors import Bags

Vectors = NDArray[Any]

SENTENCES, BATCH, WORDS, CENTRES = 2048, 1024, 7000, 30
DIMS = (50, 300)
FLICKR30K_SENTENCES, FLICKR30K_WORDS, FEW_WORDS = 145_000, 18_000, 3_000  # of its train split; measured
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


def fitting() -> list[dict[str, Any]]:
    """Time the steps of fitting HGLMM at the printed size, each once and on one thread, in processor time."""
    rng = np.random.default_rng(2)
    drawn = rng.laplace(size=(FEW_WORDS, 80)) @ rng.normal(size=(80, 300))
    words = np.asarray(drawn + rng.laplace(size=drawn.shape), np.float32)
    dims = 2 * CENTRES * words.shape[1]
    numbers, lengths = make_sentences()
    numbers = numbers[: lengths[:BATCH].sum()] % FEW_WORDS
    with threadpool_limits(1):
        started = time.process_time()
        sources = fit_ica(words).sources(words)
        mixture = fit_mixture(sources, "hglmm", CENTRES)
        of_words = time.process_time() - started
        batch, of_batch = _timed(lambda: by_seesay(sources, numbers, lengths[:BATCH], mixture))
        _, of_few = _timed(lambda: fit_pca([batch], 6000))
        empty = np.zeros((dims, dims), np.float32, order="F")
        _, of_product = _timed(lambda: ssyrk(1, batch.T, 1, empty, overwrite_c=True))
        half = ssyrk(1, rng.normal(size=(dims // 2, dims // 2)).astype(np.float32))
        _, of_half = _timed(lambda: eigh(half, lower=False, driver="evd", overwrite_a=True))
    batches = FLICKR30K_SENTENCES / BATCH
    of_all_words = of_words * FLICKR30K_WORDS / FEW_WORDS
    return [
        _fit_row(BATCH, FEW_WORDS, of_words, of_batch, of_few, "measured"),
        _fit_row(
            FLICKR30K_SENTENCES,
            FLICKR30K_WORDS,
            of_all_words,
            batches * (of_batch + of_product),
            8 * of_half,
            "these words times 6, this batch and its product times 142, 9,000 components times 8",
        ),
    ]


def _fit_row(
    sentences: int, words: int, of_words: float, of_sentences: float, of_components: float, how: str
) -> dict[str, Any]:
    return {
        "sentences": sentences,
        "words": words,
        "ICA and mixture, min": of_words / 60,
        "features and products, min": of_sentences / 60,
        "components, min": of_components / 60,
        "in all, min": (of_words + of_sentences + of_components) / 60,
        "how": how,
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time that it took, in seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def main() -> int:
    options = arguments(__doc__ or "").parse_args()
    rows = [compare(dim) for dim in DIMS]
    report("fisher", rows, options)
    report("fisher-fit", fitting(), options)
    good = (row["ratio"] >= LEAST_RATIO and row["largest difference"] <= MOST_DIFFERENCE for row in rows)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
