"""Fisher vectors: gradient statistics of a sentence's words under a mixture (Klein et al. 2015).

A word's share in them depends on the word alone. So each distinct word's gradients are computed once, and
a sparse product adds them up by sentence: no padding, whatever the sentences' lengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from seesay.text.mixture import Floats, Mixture

Vectors = NDArray[np.float32]


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
    return sentence_means(word_gradients(words, mixture), numbers, lengths)


def sentence_means(rows: Vectors, numbers: NDArray[np.int64], lengths: NDArray[np.int64]) -> Vectors:
    """Mean of each sentence's rows: (v, D) to (m, D); `numbers` and `lengths` as in `fisher_vectors`."""
    share = np.repeat(1 / lengths.clip(1), lengths).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    means: Vectors = csr_array((share, numbers, starts), shape=(len(lengths), len(rows))) @ rows
    return means


def word_gradients(words: Floats, mixture: Mixture) -> Vectors:
    """Gradients of each word's log-likelihood by every location and scale, Fisher-normalised.

    The Fisher information is w/σ² for a Gaussian's μ and 2w/σ² for its σ, and w/s² for a Laplacian's m
    and s alike, w the centre's weight; gradients are divided by its square root.

    Returns:
        (v, k · 2 · d), laid out as in `fisher_vectors`.
    """
    share = mixture.posteriors(words) / np.sqrt(mixture.weights)
    gradients = np.empty((len(words), len(mixture.weights), 2, words.shape[1]), np.float32)
    for k, laplacian in enumerate(mixture.laplacian):
        z = (words - mixture.location[k]) / mixture.scale[k]
        by_location = np.where(laplacian, np.sign(z), z)
        by_scale = np.where(laplacian, np.abs(z) - 1, (np.square(z) - 1) / np.sqrt(2))
        gradients[:, k, 0] = share[:, k, None] * by_location
        gradients[:, k, 1] = share[:, k, None] * by_scale
    return gradients.reshape(len(words), 2 * mixture.location.size)


def normalise(vectors: Vectors) -> Vectors:
    """Signed square root, then unit length (Perronnin et al. 2010), in place; zeros stay zeros."""
    np.copysign(np.sqrt(np.abs(vectors)), vectors, out=vectors)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors
