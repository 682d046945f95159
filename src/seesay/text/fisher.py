"""Fisher vectors: gradient statistics of a sentence's words under a mixture (Klein et al. 2015).

A word's share in them depends on the word alone, and is next to nothing under most centres. So each
distinct word's gradients are computed once, for the centres that count, and a sparse product adds them up
by sentence and centre: no padding, whatever the sentences' lengths.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from seesay.text.mixture import Floats, Mixture

Vectors = NDArray[np.float32]

# A centre less likely than this, given the word, changes no normalised vector by more than 1e-6.
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
    word, centre, gradients = word_gradients(words, mixture)
    k = len(mixture.weights)
    of_word = np.bincount(word, minlength=len(words))
    first = np.cumsum(of_word) - of_word
    # Entry (sentence · k + centre, pair) of the sum is 1/length for each word with that pair.
    repeats = of_word[numbers]
    places = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    pair = np.repeat(first[numbers], repeats) + places
    sentence = np.repeat(np.repeat(np.arange(len(lengths)), lengths), repeats)
    share = np.repeat(np.repeat(1 / lengths.clip(1), lengths), repeats).astype(np.float32)
    total = csr_array((share, (sentence * k + centre[pair], pair)), shape=(len(lengths) * k, len(word)))
    summed: Vectors = (total @ gradients).reshape(len(lengths), -1)
    return summed


def word_gradients(words: Floats, mixture: Mixture) -> tuple[NDArray[np.int64], NDArray[np.int64], Vectors]:
    """Normalised gradients of log p(word) by location and scale, where a centre counts for a word.

    The Fisher information of a Gaussian's μ and σ is w/σ² and 2w/σ², that of a Laplacian's m and s is
    w/s² for both; gradients are divided by its square root.

    Returns:
        Word and centre of each pair, (p,), by word, and the gradients (p, 2 · d).
    """
    posteriors = mixture.posteriors(words)
    word, centre = np.nonzero(posteriors > _LEAST_POSTERIOR)
    share = (posteriors[word, centre] / np.sqrt(mixture.weights[centre]))[:, None]
    z = (words[word] - mixture.location[centre]) / mixture.scale[centre]
    laplacian = mixture.laplacian[centre]
    by_location = np.where(laplacian, np.sign(z), z)
    by_scale = np.where(laplacian, np.abs(z) - 1, (np.square(z) - 1) / np.sqrt(2))
    return word, centre, np.hstack([share * by_location, share * by_scale]).astype(np.float32)


def normalise(vectors: Vectors) -> Vectors:
    """Signed square root, then unit length (Perronnin et al. 2010), in place; zeros stay zeros."""
    np.copysign(np.sqrt(np.abs(vectors)), vectors, out=vectors)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors
