from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture

from seesay.encoders.sentences.fisher import fisher_vectors, normalise, sentence_means
from seesay.encoders.sentences.mixture import Mixture
from tests.encoders.sentences.test_mixture import random_mixture

STEP = 1e-6


def as_scikit_learn(mixture: Mixture) -> GaussianMixture:
    theirs = GaussianMixture(len(mixture.weights), covariance_type="diag")
    theirs.weights_, theirs.means_ = mixture.weights, mixture.location
    theirs.covariances_ = np.square(mixture.scale)
    theirs.precisions_cholesky_ = 1 / mixture.scale
    return theirs


def scikit_image(x: np.ndarray, mixture: Mixture, improved: bool) -> np.ndarray:
    """Its location and scale parts in our layout; it gives the scale part the other sign."""
    k, d = mixture.location.shape
    whole = fisher_vector(x, as_scikit_learn(mixture), improved=improved)[k:]
    return np.stack([whole[: k * d].reshape(k, d), -whole[k * d :].reshape(k, d)], axis=1).ravel()


def sentences(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 8)
    return rng.normal(0, 2, (12, 4)), rng.integers(0, 12, lengths.sum()), lengths


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999))
def test_gaussian_fisher_vectors_are_scikit_images(seed: int):
    mixture = random_mixture(seed, "gmm")
    words, numbers, lengths = sentences(seed)
    ours = fisher_vectors(words, numbers, lengths, mixture)
    for row, mine in zip(ours, np.split(numbers, np.cumsum(lengths)[:-1]), strict=True):
        np.testing.assert_allclose(
            row, scikit_image(words[mine], mixture, improved=False), atol=1e-5, rtol=1e-5
        )


def test_normalised_ones_are_its_improved_ones_without_the_weights_gradients():
    mixture = random_mixture(1, "gmm")
    words, numbers, lengths = sentences(1)
    ours = normalise(fisher_vectors(words, numbers, lengths, mixture))
    for row, mine in zip(ours, np.split(numbers, np.cumsum(lengths)[:-1]), strict=True):
        expected = scikit_image(words[mine], mixture, improved=True)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-5)


def mean_log_likelihood(x: np.ndarray, mixture: Mixture, name: str, k: int, d: int, step: float) -> float:
    moved = getattr(mixture, name).copy()
    moved[k, d] += step
    return float(replace(mixture, **{name: moved}).log_likelihood(x).mean())


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), kind=st.sampled_from(["gmm", "lmm", "hglmm"]))
def test_gradients_are_those_of_the_log_likelihood(seed: int, kind: str):
    mixture = random_mixture(seed, kind, k=2, d=3)
    x = np.random.default_rng(seed).normal(0, 2, (4, 3))
    ours = fisher_vectors(x, np.arange(4), np.array([4]), mixture).reshape(2, 2, 3)
    for k in range(2):
        for part, name in enumerate(("location", "scale")):
            for d in range(3):
                ahead = mean_log_likelihood(x, mixture, name, k, d, STEP)
                behind = mean_log_likelihood(x, mixture, name, k, d, -STEP)
                doubled = 2 if name == "scale" and not mixture.laplacian[k, d] else 1
                information = doubled * mixture.weights[k] / mixture.scale[k, d] ** 2
                expected = (ahead - behind) / (2 * STEP) / np.sqrt(information)
                assert ours[k, part, d] == pytest.approx(expected, abs=1e-5, rel=1e-4)


def test_a_sentence_without_words_is_zeros_before_and_after_normalising():
    vectors = fisher_vectors(np.ones((1, 4)), np.array([0, 0]), np.array([0, 2, 0]), random_mixture(0))
    assert vectors.any(axis=1).tolist() == [False, True, False]
    scaled = normalise(vectors)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), [0, 1, 0], atol=1e-6)


def test_no_sentences_and_no_words():
    none = np.zeros(0, np.int64)
    assert fisher_vectors(np.zeros((0, 4)), none, none, random_mixture(0)).shape == (0, 24)


def test_a_word_said_twice_counts_twice():
    rows = np.array([[1.0, 0], [0, 3]], np.float32)
    means = sentence_means(rows, np.array([0, 0, 1, 1]), np.array([3, 1]))
    np.testing.assert_allclose(means, [[2 / 3, 1], [0, 3]], rtol=1e-6)


def test_normalising_is_signed_root_then_unit_length():
    found = normalise(np.array([[4, -9, 0]], np.float32))
    np.testing.assert_allclose(found, np.array([[2, -3, 0]]) / np.sqrt(13), rtol=1e-6)
