"""Fisher vectors: gradient statistics of a sentence's words under a mixture (Klein et al. 2015).

A word's share in them depends on the word alone. So each distinct word's gradients are computed once, for
the centres that are near it, and a sparse product adds them up by sentence: no padding, whatever the
sentences' lengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from seesay.encoders.sentences.mixture import Floats, Mixture

Vectors = NDArray[np.float32]

# A centre less likely than this, given the word, changes no normalised vector by more than 1e-5.
_LEAST_POSTERIOR = 1e-12


def fisher_vectors(
    words: Floats, numbers: NDArray[np.int64], lengths: NDArray[np.int64], mixture: Mixture
) -> Vectors:
    """Mean over each sentence's words of the gradient of their log-likelihood, Fisher-normalised.

    Args:
        words: the distinct words' vectors, (v, d).
        numbers: rows of `words`, one sentence behind the other, (total,).
        lengths: words in each sentence, (m,); a sentence without words becomes zeros.
        mixture: k centres over d dimensions.

    Returns:
        (m, k · 2 · d): for each centre the gradient for its location, then for its scale.
    """
    k, d = mixture.location.shape
    counts = _shares(numbers, lengths, len(words)).tocsc()
    posteriors = mixture.posteriors(words)
    means = np.zeros((len(lengths), k, 2, d), np.float32)
    for centre in range(k):
        near = np.flatnonzero(posteriors[:, centre] > _LEAST_POSTERIOR)
        gradients = word_gradients(words[near], posteriors[near, centre], mixture, centre)
        means[:, centre] = (counts[:, near] @ gradients.reshape(len(near), 2 * d)).reshape(-1, 2, d)
    return means.reshape(len(lengths), 2 * k * d)


def word_gradients(words: Floats, posteriors: Floats, mixture: Mixture, centre: int) -> Vectors:
    """Gradients of each word's log-likelihood by one centre's location and scale, Fisher-normalised.

    The Fisher information is w/σ² for a Gaussian's μ and 2w/σ² for its σ, and w/s² for a Laplacian's m
    and s alike, w the centre's weight; gradients are divided by its square root.

    Args:
        words: (v, d).
        posteriors: of the centre given each word, (v,).
        mixture: the mixture.
        centre: its number.

    Returns:
        By location and by scale, (v, 2, d).
    """
    laplacian = mixture.laplacian[centre]
    z = ((words - mixture.location[centre]) / mixture.scale[centre]).astype(np.float32)
    gradients = np.stack([z, (np.square(z) - 1) * np.float32(0.5**0.5)], axis=1)
    if laplacian.any():
        gradients[:, 0, laplacian] = np.sign(z[:, laplacian])
        gradients[:, 1, laplacian] = np.abs(z[:, laplacian]) - 1
    gradients *= (posteriors / np.sqrt(mixture.weights[centre])).astype(np.float32)[:, None, None]
    return gradients


def sentence_means(rows: Vectors, numbers: NDArray[np.int64], lengths: NDArray[np.int64]) -> Vectors:
    """Mean of each sentence's rows: (v, D) to (m, D); `numbers` and `lengths` as in `fisher_vectors`."""
    means: Vectors = _shares(numbers, lengths, len(rows)) @ rows
    return means


def _shares(numbers: NDArray[np.int64], lengths: NDArray[np.int64], words: int) -> csr_array:
    """Each word's share of each sentence, (m, words)."""
    share = np.repeat(1 / lengths.clip(1), lengths).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array((share, numbers, starts), shape=(len(lengths), words))


def normalise(vectors: Vectors) -> Vectors:
    """Signed square root, then unit length (Perronnin et al. 2010), in place; zeros stay zeros."""
    np.copysign(np.sqrt(np.abs(vectors)), vectors, out=vectors)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors
