import numpy as np
from sklearn.decomposition import FastICA

from seesay.encoders.sentences.fisher import fit_ica


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
