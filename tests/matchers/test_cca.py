"""CCA against scikit-learn's, against unstreamed covariances, and against what CCA must satisfy."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cross_decomposition import CCA as ReferenceCCA

from seesay.errors import SeesayError
from seesay.matchers.cca import CCA, Covariances, solve_cca


def pairs(n=400, p=7, q=5, shared=3, seed=0):
    """Two views of `shared` common causes, each with its own noise, off the origin."""
    rng = np.random.default_rng(seed)
    causes = rng.standard_normal((n, shared)) * np.linspace(2, 0.7, shared)
    x = causes @ rng.standard_normal((shared, p)) + rng.standard_normal((n, p)) + 5
    y = causes @ rng.standard_normal((shared, q)) + rng.standard_normal((n, q)) - 3
    return torch.from_numpy(x), torch.from_numpy(y)


def covariances_of(x, y, batch=None):
    result = Covariances()
    for start in range(0, len(x), batch or len(x)):
        result.add(x[start : start + (batch or len(x))], y[start : start + (batch or len(x))])
    return result


def projections(solution, x, y):
    return (x - solution.x_mean) @ solution.x_map, (y - solution.y_mean) @ solution.y_map


@pytest.mark.parametrize(("p", "q"), [(7, 5), (4, 9), (6, 6)])
def test_cca_equals_that_of_scikit_learn(p, q):
    x, y = pairs(p=p, q=q)
    solution = solve_cca(covariances_of(x, y, batch=64), 3, 0, 0)
    reference = ReferenceCCA(n_components=3, max_iter=100_000, tol=1e-14).fit(x.numpy(), y.numpy())
    scores = reference.transform(x.numpy(), y.numpy())
    for ours, theirs in zip(projections(solution, x, y), scores, strict=True):
        unit = theirs / theirs.std(0)
        np.testing.assert_allclose(ours, unit * np.sign((ours.numpy() * unit).sum(0)), atol=1e-4)
    expected = [np.corrcoef(scores[0][:, i], scores[1][:, i])[0, 1] for i in range(3)]
    np.testing.assert_allclose(solution.correlations, expected, atol=1e-7)


def test_projections_are_white_and_correlate_pairwise_only():
    x, y = pairs()
    solution = solve_cca(covariances_of(x, y), 5, 0, 0)
    left, right = projections(solution, x, y)
    torch.testing.assert_close(left.T @ left / len(x), torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(right.T @ right / len(x), torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(left.T @ right / len(x), solution.correlations.diag())


@pytest.mark.parametrize("batch", [1, 3, 64, 399, 400])
def test_streamed_equals_unstreamed(batch):
    x, y = pairs()
    streamed = covariances_of(x, y, batch)
    joint = np.cov(np.hstack([x, y]).T, bias=True)
    assert streamed.n == 400
    np.testing.assert_allclose(np.concatenate(streamed.means), np.hstack([x, y]).mean(0))
    for ours, theirs in (
        (streamed.parts[0], joint[:7, :7]),
        (streamed.parts[1], joint[7:, 7:]),
        (streamed.parts[2], joint[:7, 7:]),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_mean_far_from_zero_does_not_reduce_precision():
    x, y = pairs()
    x = torch.sort(x + 1000.0, dim=0)[0].float()  # sorted: the batches' means drift
    ours = covariances_of(x, y.float(), batch=50)
    assert ours.precision == torch.float32
    expected = np.cov(x.double().numpy().T, bias=True)
    np.testing.assert_allclose(ours.parts[0], expected, rtol=1e-5)
    assert np.abs(np.cov(x.numpy().T, bias=True, dtype=np.float32) / expected - 1).max() < 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 6), st.floats(0.01, 10))
@settings(max_examples=60)
def test_correlations_fall_within_0_and_1_and_a_ridge_lowers_them(seed, p, q, ridge):
    x, y = pairs(n=40, p=p, q=q, shared=1, seed=seed)
    plain, damped = (solve_cca(covariances_of(x, y), min(p, q), r, r).correlations for r in (0, ridge))
    for correlations in (plain, damped):
        assert correlations.tolist() == sorted(correlations.tolist(), reverse=True)
        assert 0 <= correlations[-1] <= correlations[0] <= 1
    assert damped[0] <= plain[0] + 1e-9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_an_invertible_map_of_one_side_changes_no_projection(seed):
    x, y = pairs(n=60, seed=seed)
    rng = np.random.default_rng(seed)
    mixing = torch.from_numpy(np.linalg.qr(rng.standard_normal((7, 7)))[0] * rng.uniform(0.3, 3, 7))
    plain, mixed = (solve_cca(covariances_of(view, y), 3, 0, 0) for view in (x, x @ mixing + 2))
    torch.testing.assert_close(mixed.correlations, plain.correlations)
    gram = [left @ left.T for left in (projections(plain, x, y)[0], projections(mixed, x @ mixing + 2, y)[0])]
    torch.testing.assert_close(gram[1], gram[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("issue", ["a sum of others", "constant", "fewer pairs than features"])
def test_singular_data_needs_a_ridge_and_works_with_one(issue, dtype):
    x, y = pairs(n=300, p=20)
    if issue == "a sum of others":
        x[:, 11] = x[:, 3] - 2 * x[:, 17]
    elif issue == "constant":
        x[:, 0] = 4.25
    else:
        x, y = x[:15], y[:15]
    covariances = covariances_of(x.to(dtype), y.to(dtype), batch=32)
    with pytest.raises(SeesayError, match=r"20 image features .* larger ridge"):
        solve_cca(covariances, 3, 0, 0)
    solution = solve_cca(covariances, 3, 1e-3, 1e-3)
    assert all(bool(part.isfinite().all()) for part in solution)
    left, right = projections(solution, x, y)
    assert np.corrcoef(left[:, 0], right[:, 0])[0, 1] > 0.8


def test_components_without_correlation_are_zero_not_noise():
    x, _ = pairs(n=100, p=4)
    y = torch.cat([x[:, :1], torch.zeros(100, 2, dtype=torch.float64)], dim=1)
    solution = solve_cca(covariances_of(x, y), 3, 0, 1e-6)
    assert solution.correlations[0] == pytest.approx(1, abs=1e-5)
    assert solution.correlations[1:].tolist() == [0, 0]
    assert not solution.x_map[:, 1:].any()
    assert not solution.y_map[:, 1:].any()


def test_scores_are_those_of_gongs_eigenvalue_problem():
    x, y = (side.float() for side in pairs())
    matcher = CCA(7, 5, dim=4, power=3)
    matcher.solve(covariances_of(x, y, batch=100), ridge=0)
    # All covariances against those within a side; eigenvectors hold both sides' projections.
    joint = np.cov(torch.hstack([x, y]).double().numpy().T, bias=True)
    within = scipy.linalg.block_diag(joint[:7, :7], joint[7:, 7:])
    values, vectors = (part[..., ::-1][..., :4] for part in scipy.linalg.eigh(joint, within))
    left = (x - x.mean(0)).numpy() @ vectors[:7] * values**3
    right = (y - y.mean(0)).numpy() @ vectors[7:] * values**3
    norms = np.linalg.norm(left, axis=1)[:, None] * np.linalg.norm(right, axis=1)
    np.testing.assert_allclose(matcher(x, y), left @ right.T / norms, atol=1e-4)


def test_held_out_pairs_match_and_the_state_dict_is_complete():
    x, y = (side.float() for side in pairs(n=300, p=30, q=20, shared=15, seed=3))
    matcher = CCA(30, 20, dim=15)
    matcher.solve(covariances_of(x[:200], y[:200]), ridge=1e-3)
    scores = matcher(x[200:], y[200:])
    assert (scores.argmax(1) == torch.arange(100)).float().mean() > 0.5
    other = CCA(30, 20, dim=15)
    other.load_state_dict(matcher.state_dict())
    torch.testing.assert_close(other(x[200:], y[200:]), scores, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(4, 2), torch.zeros(5, 2), r"\(4, 2\) and \(5, 2\)"),
        (torch.zeros(4), torch.zeros(4, 2), r"must be \(b, p\)"),
        (torch.zeros(4, 3), torch.zeros(4, 2), r"widths \(3, 2\) after batches"),
        (
            torch.full((4, 2), torch.inf),
            torch.zeros(4, 2),
            "NaN or infinity in the image features of pairs 3 to 6",
        ),
        (torch.zeros(4, 2), torch.full((4, 2), torch.nan), "sentence features"),
    ],
)
def test_batches_that_do_not_fit_are_refused(x, y, message):
    covariances = Covariances()
    covariances.add(torch.rand(3, 2), torch.rand(3, 2))
    with pytest.raises(SeesayError, match=message):
        covariances.add(x, y)


def test_too_few_pairs_and_too_many_dimensions_are_refused():
    with pytest.raises(SeesayError, match="0 pairs"):
        solve_cca(Covariances(), 1, 0, 0)
    x, y = pairs()
    with pytest.raises(SeesayError, match="dim 6; the narrower features have 5"):
        solve_cca(covariances_of(x, y), 6, 0, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_scores_as_the_cpu():
    x, y = (side.float() for side in pairs())
    here, there = CCA(7, 5, dim=4), CCA(7, 5, dim=4).cuda()
    here.solve(covariances_of(x, y), ridge=0.01)
    there.solve(covariances_of(x.cuda(), y.cuda()), ridge=0.01)
    torch.testing.assert_close(
        there(x.cuda(), y.cuda()).cpu(),
        here(x, y),
        atol=1e-4,
        rtol=0,
    )
