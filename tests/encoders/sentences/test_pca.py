import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from seesay.encoders.sentences.base import fit_pca


def rows(n: int = 200, d: int = 12, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.linspace(3, 0.5, d) + 7).astype(np.float32)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), batch=st.integers(1, 200))
def test_components_are_scikit_learns_whatever_the_batches(seed: int, batch: int):
    x = rows(seed=seed)
    ours = fit_pca((x[start : start + batch] for start in range(0, len(x), batch)), 5)
    theirs = PCA(12, svd_solver="full").fit(x.astype(float))
    np.testing.assert_allclose(
        ours.project(x).var(axis=0), theirs.explained_variance_[:5] * 199 / 200, rtol=1e-3
    )
    np.testing.assert_allclose(ours.mean, theirs.mean_, rtol=1e-5)


def test_projections_are_scikit_learns_up_to_sign():
    x = rows()
    expected = PCA(3, svd_solver="full").fit_transform(x.astype(float))
    found = fit_pca([x], 3).project(x)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-3)


def test_no_more_components_than_the_rank():
    thin = rows(d=3) @ np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    pca = fit_pca([thin[:50], thin[50:]], 20)
    assert pca.components.shape == (40, 3)
    np.testing.assert_allclose(pca.components.T @ pca.components, np.eye(3), atol=1e-5)


def test_far_from_the_origin_small_variance_is_kept():
    x = rows() * 1e-3 + 50
    expected = PCA(12, svd_solver="full").fit(x.astype(float)).explained_variance_
    np.testing.assert_allclose(
        fit_pca([x[:3], x[3:]], 12).project(x).var(axis=0, ddof=1), expected, rtol=0.05
    )


def test_equal_rows_keep_one_component_and_project_to_zero():
    pca = fit_pca([np.ones((4, 3), np.float32)], 2)
    assert pca.components.shape == (3, 1)
    assert not pca.project(np.ones((2, 3), np.float32)).any()


def test_no_rows_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        fit_pca([], 2)
