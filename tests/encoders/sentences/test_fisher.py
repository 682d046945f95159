from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import laplace, norm
from skimage.feature import fisher_vector
from sklearn.decomposition import FastICA
from sklearn.mixture import GaussianMixture

from seesay.encoders.sentences import fisher as module
from seesay.encoders.sentences.fisher import Mixture, fisher_vectors, fit_ica, fit_mixture, normalise
from seesay.encoders.sentences.word_vectors import Bags

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


@settings(max_examples=20)
@given(seed=st.integers(0, 999))
def test_gaussian_fisher_vectors_are_scikit_images(seed: int):
    mixture = random_mixture(seed, "gmm")
    words, numbers, lengths = sentences(seed)
    ours = fisher_vectors(Bags(words, numbers, lengths), words, mixture)
    for row, mine in zip(ours, np.split(numbers, np.cumsum(lengths)[:-1]), strict=True):
        np.testing.assert_allclose(
            row, scikit_image(words[mine], mixture, improved=False), atol=1e-5, rtol=1e-5
        )


def test_normalised_vectors_lack_only_the_gradients_of_the_weights():
    mixture = random_mixture(1, "gmm")
    words, numbers, lengths = sentences(1)
    ours = normalise(fisher_vectors(Bags(words, numbers, lengths), words, mixture))
    for row, mine in zip(ours, np.split(numbers, np.cumsum(lengths)[:-1]), strict=True):
        expected = scikit_image(words[mine], mixture, improved=True)
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-5)


def mean_log_likelihood(x: np.ndarray, mixture: Mixture, name: str, k: int, d: int, step: float) -> float:
    moved = getattr(mixture, name).copy()
    moved[k, d] += step
    return float(replace(mixture, **{name: moved}).expect(x)[0].mean())


@settings(max_examples=15)
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


def random_mixture(seed: int, kind: str = "hglmm", k: int = 3, d: int = 4) -> Mixture:
    rng = np.random.default_rng(seed)
    laplacian = {
        "gmm": np.zeros((k, d), bool),
        "lmm": np.ones((k, d), bool),
        "hglmm": rng.random((k, d)) < 0.5,
    }
    weights = rng.uniform(0.2, 1, k)
    return Mixture(
        weights / weights.sum(), rng.standard_normal((k, d)), rng.uniform(0.5, 2, (k, d)), laplacian[kind]
    )


def two_groups(n: int = 600) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.concatenate([rng.normal(-4, 1, (n, 3)), rng.laplace(4, 0.5, (n // 2, 3))])


@settings(max_examples=20)
@given(seed=st.integers(0, 999), kind=st.sampled_from(["gmm", "lmm", "hglmm"]))
def test_log_likelihood_is_scipys(seed: int, kind: str):
    mixture = random_mixture(seed, kind)
    x = np.random.default_rng(seed).normal(0, 2, (5, 4))
    expected = np.zeros((5, 3))
    for i in range(5):
        for k in range(3):
            for d in range(4):
                density = laplace if mixture.laplacian[k, d] else norm
                expected[i, k] += density.logpdf(x[i, d], mixture.location[k, d], mixture.scale[k, d])
            expected[i, k] += np.log(mixture.weights[k])
    np.testing.assert_allclose(mixture.expect(x)[0], logsumexp(expected, axis=1))
    np.testing.assert_allclose(mixture.expect(x)[1].sum(axis=1), 1)


@settings(max_examples=30)
@given(seed=st.integers(0, 999))
def test_weighted_medians_halve_the_weight(seed: int):
    rng = np.random.default_rng(seed)
    x, weights = rng.standard_normal((9, 2)), rng.random((9, 3))
    medians = module._medians(x, weights, np.argsort(x, axis=0))
    for k in range(3):
        for d in range(2):
            # The weighted median is the point with the least weighted sum of distances.
            distances = [weights[:, k] @ np.abs(x[:, d] - candidate) for candidate in x[:, d]]
            assert medians[k, d] == x[np.argmin(distances), d]


def test_one_gaussian_is_mean_and_deviation():
    x = two_groups()
    mixture = fit_mixture(x, "gmm", centres=1)
    np.testing.assert_allclose(mixture.location[0], x.mean(axis=0))
    np.testing.assert_allclose(mixture.scale[0], x.std(axis=0))


def test_one_laplacian_is_median_and_mean_deviation_from_it():
    x = two_groups()[:601]
    mixture = fit_mixture(x, "lmm", centres=1)
    np.testing.assert_allclose(mixture.location[0], np.median(x, axis=0))
    np.testing.assert_allclose(mixture.scale[0], np.abs(x - np.median(x, axis=0)).mean(axis=0))


def test_a_gaussian_mixture_is_as_likely_as_scikit_learns():
    x = two_groups()
    theirs = GaussianMixture(2, covariance_type="diag", random_state=0).fit(x)
    ours = fit_mixture(x, "gmm", centres=2)
    assert ours.expect(x)[0].mean() == pytest.approx(theirs.score(x), abs=2e-3)
    np.testing.assert_allclose(np.sort(ours.weights), np.sort(theirs.weights_), atol=0.01)


def test_the_hybrid_takes_each_group_for_what_it_is():
    x = two_groups(6000)
    mixture = fit_mixture(x, "hglmm", centres=2)
    gaussian, laplacian = np.argsort(mixture.location[:, 0])
    assert not mixture.laplacian[gaussian].any()
    assert mixture.laplacian[laplacian].all()
    np.testing.assert_allclose(mixture.scale[laplacian], 0.5, atol=0.03)
    assert mixture.expect(x)[0].sum() > fit_mixture(x, "gmm", centres=2).expect(x)[0].sum()
    assert mixture.expect(x)[0].sum() > fit_mixture(x, "lmm", centres=2).expect(x)[0].sum()


@pytest.mark.parametrize("kind", ["gmm", "lmm", "hglmm"])
def test_no_iteration_makes_the_points_less_likely(kind: str):
    x = np.random.default_rng(2).standard_t(3, (300, 4))
    order, least = np.argsort(x, axis=0), np.full(4, 1e-3)
    mixture = random_mixture(3, kind)
    reached = [mixture.expect(x)[0].sum()]
    for _ in range(15):
        mixture = module._maximise(x, mixture.expect(x)[1], kind, order if kind != "gmm" else None, least)
        reached.append(mixture.expect(x)[0].sum())
    assert (np.diff(reached) > -1e-8).all()
    assert reached[-1] > reached[0]


@pytest.mark.parametrize("kind", ["gmm", "lmm", "hglmm"])
def test_equal_points_and_few_points_stay_finite(kind: str):
    for x in (np.ones((40, 3)), np.arange(6.0).reshape(2, 3)):
        mixture = fit_mixture(x, kind)
        assert all(np.isfinite(getattr(mixture, field.name)).all() for field in fields(mixture))
        assert np.isfinite(mixture.expect(x + 1)[0]).all()


def test_the_same_seed_gives_the_same_mixture():
    x = two_groups()
    first, second = fit_mixture(x, "hglmm", 5), fit_mixture(x, "hglmm", 5)
    np.testing.assert_array_equal(first.location, second.location)


def test_rounding_does_not_choose_the_side_of_a_word_on_a_median() -> None:
    words = np.array([[0.5, -1.0], [2.0, 0.25]])
    mixture = Mixture(np.ones(1), words[:1], np.ones((1, 2)), np.ones((1, 2), bool))
    bags = Bags(words.astype(np.float32), np.array([0, 1]), np.array([2]))
    found = [fisher_vectors(bags, words + error, mixture) for error in (0, 1e-15, -1e-15)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)
    assert found[0][0, :2].tolist() == [0.5, 0.5]  # of the word off the median alone
