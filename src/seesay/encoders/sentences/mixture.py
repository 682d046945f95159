"""Mixtures of Gaussian and Laplacian densities with independent dimensions, fitted by EM.

Klein et al. 2015, "Fisher vectors derived from hybrid Gaussian-Laplacian mixture models for image
annotation": GMM, LMM, and HGLMM, where each centre is Gaussian in some dimensions and Laplacian in others.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.special import logsumexp

Floats = NDArray[np.float64]
Kind = Literal["gmm", "lmm", "hglmm"]

_ITERATIONS = 100
_TOLERANCE = 1e-3  # of a word's mean log-likelihood between two iterations
_MIN_SCALE = 1e-3  # of the dimension's standard deviation: no density collapses onto one word


@dataclass(frozen=True)
class Mixture:
    """A mixture of k densities over d dimensions."""

    weights: Floats  # (k,), summing to 1
    location: Floats  # mean of a Gaussian, median of a Laplacian, (k, d)
    scale: Floats  # σ of a Gaussian; mean absolute deviation of a Laplacian, (k, d)
    laplacian: NDArray[np.bool_]  # where the density is Laplacian, (k, d)

    def joint(self, x: Floats) -> Floats:
        """Compute log(weight of centre · density of x under it) for points x (n, d): (n, k)."""
        gaussian = np.where(self.laplacian, 0, 1 / np.square(self.scale))
        squares = np.square(x) @ gaussian.T - 2 * x @ (gaussian * self.location).T
        squares += (gaussian * np.square(self.location)).sum(axis=1)
        logs: Floats = (
            -0.5 * squares - np.log(_width(self.scale, self.laplacian)).sum(axis=1) + np.log(self.weights)
        )
        for k in np.flatnonzero(self.laplacian.any(axis=1)):
            dims = self.laplacian[k]
            logs[:, k] -= np.abs(x[:, dims] - self.location[k, dims]) @ (1 / self.scale[k, dims])
        return logs

    def log_likelihood(self, x: Floats) -> Floats:
        """Compute the log-likelihood of each point, (n,)."""
        total: Floats = logsumexp(self.joint(x), axis=1)
        return total

    def posteriors(self, x: Floats) -> Floats:
        """Compute the probability of each centre given each point, (n, k)."""
        logs = self.joint(x)
        shares: Floats = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        return shares


def fit_mixture(x: Floats, kind: Kind, centres: int = 30, seed: int = 0) -> Mixture:
    """Fit a mixture to points (n, d) by expectation-maximisation from a k-means partition.

    Args:
        x: points.
        kind: "gmm", "lmm", or "hglmm": each centre and dimension is what its points make likelier.
        centres: how many, at most one for ten points.
        seed: of k-means' first centres.
    """
    centres = min(centres, max(len(x) // 10, 1))
    with warnings.catch_warnings():
        # An empty cluster is a centre of no weight; equal points cannot be told apart.
        warnings.simplefilter("ignore")
        _, owner = kmeans2(x, centres, minit="++", seed=np.random.default_rng(seed))
    order = None if kind == "gmm" else np.argsort(x, axis=0)
    min_scale = _MIN_SCALE * x.std(axis=0).clip(1e-12)
    mixture = _maximise(x, np.eye(centres)[owner], kind, order, min_scale)
    before = -np.inf
    for _ in range(_ITERATIONS):
        logs = mixture.joint(x)
        totals = logsumexp(logs, axis=1, keepdims=True)
        if (likelihood := totals.mean()) - before < _TOLERANCE:
            break
        before = likelihood
        mixture = _maximise(x, np.exp(logs - totals), kind, order, min_scale)
    return mixture


def _maximise(
    x: Floats, posteriors: Floats, kind: Kind, order: NDArray[np.int64] | None, min_scale: Floats
) -> Mixture:
    """The M-step; `order` sorts the points in each dimension, for the medians."""
    mass = posteriors.sum(axis=0)[:, None].clip(1e-12)
    mean = posteriors.T @ x / mass
    deviation = np.sqrt((posteriors.T @ np.square(x) / mass - np.square(mean)).clip(0)).clip(min_scale)
    if order is None:
        return _mixture(mass, mean, deviation, np.zeros(mean.shape, bool))
    median = _medians(x, posteriors, order)
    spread = np.stack([posteriors[:, k] @ np.abs(x - median[k]) for k in range(len(mass))]) / mass
    spread = spread.clip(min_scale)
    if kind == "lmm":
        return _mixture(mass, median, spread, np.ones(mean.shape, bool))
    # A centre's expected log-likelihood in one dimension is -log(width) - 1/2 as the best Gaussian and
    # -log(width) - 1 as the best Laplacian.
    laplacian = np.log(2 * spread) + 1 < np.log(np.sqrt(2 * np.pi) * deviation) + 0.5
    return _mixture(
        mass, np.where(laplacian, median, mean), np.where(laplacian, spread, deviation), laplacian
    )


def _mixture(mass: Floats, location: Floats, scale: Floats, laplacian: NDArray[np.bool_]) -> Mixture:
    return Mixture(mass[:, 0] / mass.sum(), location, scale, laplacian)


def _medians(x: Floats, weights: Floats, order: NDArray[np.int64]) -> Floats:
    """Weighted medians (k, d) of points (n, d) under weights (n, k)."""
    weights = np.ascontiguousarray(weights.T)
    medians = np.empty((len(weights), x.shape[1]))
    for d, rows in enumerate(order.T):
        below = np.cumsum(weights.take(rows, axis=1), axis=1)
        medians[:, d] = x[rows[(below >= below[:, -1:] / 2).argmax(axis=1)], d]
    return medians


def _width(scale: Floats, laplacian: NDArray[np.bool_]) -> Floats:
    """What normalises each density: 2s of a Laplacian, σ√2π of a Gaussian."""
    width: Floats = np.where(laplacian, 2, np.sqrt(2 * np.pi)) * scale
    return width
