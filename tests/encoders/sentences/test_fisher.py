from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.feature import fisher_vector
from sklearn.decomposition import FastICA
from sklearn.mixture import GaussianMixture

from seesay.encoders.sentences.fisher import Mixture, fisher_vectors, fit_ica, normalise
from seesay.encoders.sentences.word_vectors import Bags
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
    ours = fisher_vectors(Bags(words, numbers, lengths), words, mixture)
    for row, mine in zip(ours, np.split(numbers, np.cumsum(lengths)[:-1]), strict=True):
        np.testing.assert_allclose(
            row, scikit_image(words[mine], mixture, improved=False), atol=1e-5, rtol=1e-5
        )


def test_normalised_ones_are_its_improved_ones_without_the_weights_gradients():
    mixture = random_mixture(1, "gmm")
    words, numbers, lengths = sentences(1)
    ours = normalise(fisher_vectors(Bags(words, numbers, lengths), words, mixture))
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
    ours = fisher_vectors(Bags(x, np.arange(4), np.array([4])), x, mixture).reshape(2, 2, 3)
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
    bags = Bags(np.ones((1, 4)), np.array([0, 0]), np.array([0, 2, 0]))
    vectors = fisher_vectors(bags, bags.vectors, random_mixture(0))
    assert vectors.any(axis=1).tolist() == [False, True, False]
    scaled = normalise(vectors)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), [0, 1, 0], atol=1e-6)


def test_no_sentences_and_no_words():
    none = np.zeros(0, np.int64)
    bags = Bags(np.zeros((0, 4)), none, none)
    assert fisher_vectors(bags, bags.vectors, random_mixture(0)).shape == (0, 24)


def test_a_word_said_twice_counts_twice():
    rows = np.array([[1.0, 0], [0, 3]], np.float32)
    means = Bags(rows, np.array([0, 0, 1, 1]), np.array([3, 1])).shares() @ rows
    np.testing.assert_allclose(means, [[2 / 3, 1], [0, 3]], rtol=1e-6)


def test_normalising_is_signed_root_then_unit_length():
    found = normalise(np.array([[4, -9, 0]], np.float32))
    np.testing.assert_allclose(found, np.array([[2, -3, 0]]) / np.sqrt(13), rtol=1e-6)


def mixed(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    sources = np.stack([rng.laplace(size=n), rng.uniform(-1, 1, n), rng.exponential(size=n)], axis=1)
    return sources, (sources @ rng.standard_normal((3, 3)) + [5, -3, 1]).astype(np.float32)


def test_it_unmixes_what_was_mixed():
    sources, x = mixed()
    found = fit_ica(x).sources(x)
    likeness = np.abs(np.corrcoef(sources.T, found.T)[:3, 3:])
    np.testing.assert_allclose(np.sort(likeness.max(axis=0)), 1, atol=0.01)
    assert sorted(likeness.argmax(axis=0)) == [0, 1, 2]


def test_sources_equal_scikit_learns_up_to_order_and_sign():
    _, x = mixed()
    theirs = FastICA(whiten="unit-variance", random_state=0, tol=1e-6).fit_transform(x.astype(float))
    likeness = np.abs(np.corrcoef(theirs.T, fit_ica(x).sources(x).T)[:3, 3:])
    np.testing.assert_allclose(likeness.max(axis=0), 1, atol=1e-4)


def test_sources_are_uncorrelated_and_of_unit_variance():
    _, x = mixed()
    np.testing.assert_allclose(np.cov(fit_ica(x).sources(x).T, bias=True), np.eye(3), atol=1e-6)


def test_fewer_vectors_than_dimensions_leave_as_many_sources_as_the_rank():
    x = np.random.default_rng(0).standard_normal((5, 20)).astype(np.float32)
    sources = fit_ica(x).sources(x)
    assert sources.shape == (5, 4)
    assert np.isfinite(sources).all()
