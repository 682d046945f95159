"""Independent component analysis of word vectors: FastICA (Hyvärinen and Oja 2000)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_TOLERANCE = 1e-4
_ITERATIONS = 200


@dataclass(frozen=True)
class Ica:
    """Sources (x - mean) @ unmixing.T, of unit variance and as independent as a linear map makes them.

    Attributes:
        mean: (d,).
        unmixing: (k, d), k at most the rank of the vectors it was fitted to.
    """

    mean: NDArray[np.float64]
    unmixing: NDArray[np.float64]

    def sources(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Independent components of vectors, (n, d) to (n, k)."""
        return (vectors - self.mean) @ self.unmixing.T


def fit_ica(vectors: NDArray[np.float32], seed: int = 0) -> Ica:
    """Symmetric FastICA with the log-cosh contrast on whitened vectors (n, d)."""
    x = vectors.astype(np.float64)
    mean = x.mean(axis=0)
    x -= mean
    values, axes = np.linalg.eigh(x.T @ x / len(x))
    kept = values > values[-1] * 1e-9
    whitening = (axes[:, kept] / np.sqrt(values[kept])).T
    rotation = _rotation(x @ whitening.T, seed)
    return Ica(mean, rotation @ whitening)


def _rotation(white: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """The orthogonal matrix whose rows are directions of extreme non-Gaussianity; `white` is (n, k)."""
    k = white.shape[1]
    rotation = _orthogonal(np.random.default_rng(seed).standard_normal((k, k)))
    for _ in range(_ITERATIONS):
        contrast = np.tanh(white @ rotation.T)
        slope = 1 - np.square(contrast).mean(axis=0)
        turned = _orthogonal(contrast.T @ white / len(white) - slope[:, None] * rotation)
        change = np.abs(np.abs(np.einsum("ij,ij->i", turned, rotation)) - 1).max(initial=0)
        rotation = turned
        if change < _TOLERANCE:
            break
    return rotation


def _orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest orthogonal matrix, (W Wᵀ)^-1/2 W."""
    left, _, right = np.linalg.svd(matrix)
    nearest: NDArray[np.float64] = left @ right
    return nearest
