from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import laplace, norm
from sklearn.mixture import GaussianMixture

from seesay.encoders.sentences import fisher as module
from seesay.encoders.sentences.fisher import Mixture, fit_mixture


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


@settings(max_examples=20, deadline=None)
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
    np.testing.assert_allclose(mixture.log_likelihood(x), logsumexp(expected, axis=1))
    np.testing.assert_allclose(mixture.posteriors(x).sum(axis=1), 1)


@settings(max_examples=30, deadline=None)
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
    assert ours.log_likelihood(x).mean() == pytest.approx(theirs.score(x), abs=2e-3)
    np.testing.assert_allclose(np.sort(ours.weights), np.sort(theirs.weights_), atol=0.01)


def test_the_hybrid_takes_each_group_for_what_it_is():
    x = two_groups(6000)
    mixture = fit_mixture(x, "hglmm", centres=2)
    gaussian, laplacian = np.argsort(mixture.location[:, 0])
    assert not mixture.laplacian[gaussian].any()
    assert mixture.laplacian[laplacian].all()
    np.testing.assert_allclose(mixture.scale[laplacian], 0.5, atol=0.03)
    assert mixture.log_likelihood(x).sum() > fit_mixture(x, "gmm", centres=2).log_likelihood(x).sum()
    assert mixture.log_likelihood(x).sum() > fit_mixture(x, "lmm", centres=2).log_likelihood(x).sum()


@pytest.mark.parametrize("kind", ["gmm", "lmm", "hglmm"])
def test_no_iteration_makes_the_points_less_likely(kind: str):
    x = np.random.default_rng(2).standard_t(3, (300, 4))
    order, least = np.argsort(x, axis=0), np.full(4, 1e-3)
    mixture = random_mixture(3, kind)
    reached = [mixture.log_likelihood(x).sum()]
    for _ in range(15):
        mixture = module._maximise(x, mixture.posteriors(x), kind, order if kind != "gmm" else None, least)
        reached.append(mixture.log_likelihood(x).sum())
    assert (np.diff(reached) > -1e-8).all()
    assert reached[-1] > reached[0]


@pytest.mark.parametrize("kind", ["gmm", "lmm", "hglmm"])
def test_equal_points_and_few_points_stay_finite(kind: str):
    for x in (np.ones((40, 3)), np.arange(6.0).reshape(2, 3)):
        mixture = fit_mixture(x, kind)
        assert all(np.isfinite(getattr(mixture, field.name)).all() for field in fields(mixture))
        assert np.isfinite(mixture.log_likelihood(x + 1)).all()


def test_the_same_seed_gives_the_same_mixture():
    x = two_groups()
    first, second = fit_mixture(x, "hglmm", 5), fit_mixture(x, "hglmm", 5)
    np.testing.assert_array_equal(first.location, second.location)
