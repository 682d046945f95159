"""Fisher vectors: gradient statistics of a sentence's words under a mixture (Klein et al. 2015).

The contribution of a word only depends on the word. Its gradients are therefore computed once, for nearby
centres, and a sparse product sums them by sentence, without padding. Words are represented by the independent
components of their vectors, found by FastICA (Hyvärinen and Oja 2000).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from seesay.arrays import Floats, Ints, Mask, Vectors
from seesay.encoders.sentences.base import Tensors
from seesay.encoders.sentences.word_vectors import Bags, WordFeatures
from seesay.encoders.settings import EncoderSettings, register_sentence_encoder
from seesay.errors import SeesayError
from seesay.progress import progress

T = TypeVar("T", "Ica", "Mixture")

_ITERATIONS = 100
_TOLERANCE = 1e-3  # gain in the words' mean log-likelihood between two iterations
_MIN_SCALE = 1e-3  # of the dimension's standard deviation, so that no density collapses onto one word


@dataclass(frozen=True)
class Mixture:
    """A mixture of k densities over d dimensions."""

    weights: Floats  # (k,), summing to 1
    location: Floats  # mean of a Gaussian, median of a Laplacian, (k, d)
    scale: Floats  # σ of a Gaussian; mean absolute deviation of a Laplacian, (k, d)
    laplacian: Mask  # where the density is Laplacian, (k, d)

    def expect(self, x: Floats) -> tuple[Floats, Floats]:
        """Compute log-likelihoods of points x (n, d), (n,), and the posteriors of centres, (n, k)."""
        from scipy.special import logsumexp

        gaussian = np.where(self.laplacian, 0, 1 / np.square(self.scale))
        squares = np.square(x) @ gaussian.T - 2 * x @ (gaussian * self.location).T
        squares += (gaussian * np.square(self.location)).sum(axis=1)
        # 2s normalises a Laplacian, σ√2π a Gaussian.
        widths = np.where(self.laplacian, 2, np.sqrt(2 * np.pi)) * self.scale
        logs: Floats = -0.5 * squares - np.log(widths).sum(axis=1) + np.log(self.weights)
        for k in np.flatnonzero(self.laplacian.any(axis=1)):
            dims = self.laplacian[k]
            logs[:, k] -= np.abs(x[:, dims] - self.location[k, dims]) @ (1 / self.scale[k, dims])
        totals = logsumexp(logs, axis=1, keepdims=True)
        return totals.ravel(), np.exp(logs - totals)


def fit_mixture(x: Floats, kind: str, centres: int = 30) -> Mixture:
    """Fit a mixture to points (n, d) by expectation-maximisation from a k-means partition.

    There are `centres` centres, at most one per ten points. With "hglmm", each centre has the likelier of the
    two densities in each dimension.
    """
    from scipy.cluster.vq import kmeans2

    centres = min(centres, max(len(x) // 10, 1))
    with warnings.catch_warnings():
        # An empty cluster becomes a centre without weight, for example if points are equal.
        warnings.simplefilter("ignore")
        _, owner = kmeans2(x, centres, minit="++", seed=np.random.default_rng(0))
    order = None if kind == "gmm" else np.argsort(x, axis=0)
    min_scale = _MIN_SCALE * x.std(axis=0).clip(1e-12)
    mixture = _maximise(x, np.eye(centres)[owner], kind, order, min_scale)
    before = -np.inf
    with progress(f"Mixture of {len(x)} words", _ITERATIONS, "iterations") as advance:
        for _ in range(_ITERATIONS):
            likelihoods, posteriors = mixture.expect(x)
            if (likelihood := likelihoods.mean()) - before < _TOLERANCE:
                break
            before = likelihood
            mixture = _maximise(x, posteriors, kind, order, min_scale)
            advance(1)
    return mixture


def _maximise(x: Floats, posteriors: Floats, kind: str, order: Ints | None, min_scale: Floats) -> Mixture:
    """The M-step; `order` sorts the points in each dimension, for the medians."""
    mass = posteriors.sum(axis=0)[:, None].clip(1e-12)
    weights = mass[:, 0] / mass.sum()
    mean = posteriors.T @ x / mass
    deviation = np.sqrt((posteriors.T @ np.square(x) / mass - np.square(mean)).clip(0)).clip(min_scale)
    if order is None:
        return Mixture(weights, mean, deviation, np.zeros(mean.shape, bool))
    median = _medians(x, posteriors, order)
    spread = np.stack([posteriors[:, k] @ np.abs(x - median[k]) for k in range(len(mass))]) / mass
    spread = spread.clip(min_scale)
    if kind == "lmm":
        return Mixture(weights, median, spread, np.ones(mean.shape, bool))
    # A centre's expected log-likelihood in one dimension is -log(width) - 1/2 as the best Gaussian and
    # -log(width) - 1 as the best Laplacian.
    laplacian = np.log(2 * spread) + 1 < np.log(np.sqrt(2 * np.pi) * deviation) + 0.5
    location, scale = np.where(laplacian, median, mean), np.where(laplacian, spread, deviation)
    return Mixture(weights, location, scale, laplacian)


def _medians(x: Floats, weights: Floats, order: Ints) -> Floats:
    """Weighted medians (k, d) of points (n, d) under weights (n, k)."""
    weights = np.ascontiguousarray(weights.T)
    medians = np.empty((len(weights), x.shape[1]))
    for d, rows in enumerate(order.T):
        below = np.cumsum(weights.take(rows, axis=1), axis=1)
        medians[:, d] = x[rows[(below >= below[:, -1:] / 2).argmax(axis=1)], d]
    return medians


# A centre less likely than this, given the word, changes no normalised vector by more than 1e-5.
_MIN_POSTERIOR = 1e-12
_ON_MEDIAN = 1e-6  # distance from a Laplacian's location, in units of its scale
_ICA_TOLERANCE, _ICA_ITERATIONS = 1e-4, 200


def fisher_vectors(bags: Bags, words: Floats, mixture: Mixture) -> Vectors:
    """Average the Fisher-normalised log-likelihood gradients over the words of each of m sentences.

    `words` (v, d) are the distinct words' vectors as the mixture of k centres models them. Returns
    (m, k · 2 · d): for each centre the gradient for its location, then for its scale; zeros without words.
    """
    k, d = mixture.location.shape
    shares = bags.shares().tocsc()
    _, posteriors = mixture.expect(words)
    means = np.zeros((len(bags.lengths), k, 2, d), np.float32)
    for centre in range(k):
        near = np.flatnonzero(posteriors[:, centre] > _MIN_POSTERIOR)
        gradients = _word_gradients(words[near], posteriors[near, centre], mixture, centre)
        means[:, centre] = (shares[:, near] @ gradients.reshape(len(near), 2 * d)).reshape(-1, 2, d)
    return means.reshape(len(bags.lengths), 2 * k * d)


def _word_gradients(words: Floats, posteriors: Floats, mixture: Mixture, centre: int) -> Vectors:
    """Compute Fisher-normalised gradients of log-likelihood by one centre's location and scale, (v, 2, d).

    The Fisher information is w/σ² for a Gaussian's μ, 2w/σ² for its σ, and w/s² for both m and s of a
    Laplacian, where w is the centre's weight; gradients are divided by its square root. `posteriors` (v,) are
    those of the centre.
    """
    laplacian = mixture.laplacian[centre]
    z = ((words - mixture.location[centre]) / mixture.scale[centre]).astype(np.float32)
    gradients = np.stack([z, (np.square(z) - 1) * np.float32(0.5**0.5)], axis=1)
    if laplacian.any():
        sides = z[:, laplacian]
        # A Laplacian's location is a median, so some word is at it; rounding must not choose its side.
        gradients[:, 0, laplacian] = np.where(np.abs(sides) < _ON_MEDIAN, 0, np.sign(sides))
        gradients[:, 1, laplacian] = np.abs(z[:, laplacian]) - 1
    gradients *= (posteriors / np.sqrt(mixture.weights[centre])).astype(np.float32)[:, None, None]
    return gradients


def normalise(vectors: Vectors) -> Vectors:
    """Take the signed square root, then scale to unit length (Perronnin et al. 2010), in place."""
    np.copysign(np.sqrt(np.abs(vectors)), vectors, out=vectors)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors


@dataclass(frozen=True)
class Ica:
    """Sources (x - mean) @ unmixing.T, of unit variance and as independent as a linear map can make them."""

    mean: Floats  # (d,)
    unmixing: Floats  # (k, d), k at most the rank of the vectors it was fitted to

    def sources(self, vectors: Vectors) -> Floats:
        """Compute the independent components of vectors, (n, d) to (n, k)."""
        return (vectors - self.mean) @ self.unmixing.T


def fit_ica(vectors: Vectors) -> Ica:
    """Fit symmetric FastICA with the log-cosh contrast to vectors (n, d), which are whitened."""
    from scipy.linalg import polar

    x = vectors.astype(np.float64)
    mean = x.mean(axis=0)
    x -= mean
    values, axes = np.linalg.eigh(x.T @ x / len(x))
    kept = values > values[-1] * 1e-9
    whitening = (axes[:, kept] / np.sqrt(values[kept])).T
    white, k = x @ whitening.T, len(whitening)
    # The rows of the orthogonal matrix become directions of extreme non-Gaussianity.
    rotation = polar(np.random.default_rng(0).standard_normal((k, k)))[0]
    for _ in range(_ICA_ITERATIONS):
        contrast = np.tanh(white @ rotation.T)
        slope = 1 - np.square(contrast).mean(axis=0)
        turned = polar(contrast.T @ white / len(white) - slope[:, None] * rotation)[0]
        change = np.abs(np.abs(np.einsum("ij,ij->i", turned, rotation)) - 1).max(initial=0)
        rotation = turned
        if change < _ICA_TOLERANCE:
            break
    return Ica(mean, rotation @ whitening)


@register_sentence_encoder("gmm")
@register_sentence_encoder("lmm")
@register_sentence_encoder("hglmm")
@register_sentence_encoder("gmm+hglmm")
class FisherVectors(WordFeatures):
    """Fisher vectors of word vectors under a Gaussian, Laplacian or hybrid mixture (gmm, lmm, hglmm)."""

    ica: Ica
    mixtures: list[Mixture]

    def __init__(self, settings: EncoderSettings) -> None:
        super().__init__(settings)
        self.kinds = settings.kind.split("+")  # several kinds are side by side

    def fit(self, texts: Sequence[str], images: Ints) -> None:  # noqa: ARG002
        """Fit ICA and mixtures to the distinct words of sentences."""
        vectors = self.bags(texts).vectors
        if len(vectors) < 2:
            raise SeesayError(
                f"Fisher vectors need words with a vector, but the {len(texts)} training sentences have "
                f"{len(vectors)}. Are they in English? If not, name a file of word vectors."
            )
        self.ica = fit_ica(vectors)
        sources = self.ica.sources(vectors)
        self.mixtures = [fit_mixture(sources, kind) for kind in self.kinds]

    def tensors(self) -> Tensors:
        parts = {"ica": self.ica} | {f"mixture{i}": mixture for i, mixture in enumerate(self.mixtures)}
        return {f"{p}.{key}": array for p, part in parts.items() for key, array in vars(part).items()}

    def restore(self, tensors: Tensors) -> None:
        def unpacked(part: type[T], prefix: str) -> T:
            return part(**{field.name: tensors[f"{prefix}.{field.name}"] for field in fields(part)})

        self.ica = unpacked(Ica, "ica")
        self.mixtures = [unpacked(Mixture, f"mixture{i}") for i in range(len(self.kinds))]

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Compute power- and L2-normalised Fisher vectors, (m, sum of k · 2 · d)."""
        bags = self.bags(texts)
        sources = self.ica.sources(bags.vectors)
        return np.hstack([normalise(fisher_vectors(bags, sources, mixture)) for mixture in self.mixtures])
