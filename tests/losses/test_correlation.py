"""The loss of deep CCA against T as it is printed, and its gradient against the paper's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power

from seesay.losses.correlation import TotalCorrelationLoss

Array = np.ndarray


def outputs(seed: int, m: int = 30, p: int = 4, q: int = 3) -> tuple[Array, Array]:
    """Outputs of m pairs that share something."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(m, 2))
    x = shared @ generator.normal(size=(2, p)) + generator.normal(size=(m, p)) + 5
    y = shared @ generator.normal(size=(2, q)) + generator.normal(size=(m, q)) - 3
    return x, y


def parts(x: Array, y: Array, ridge: float) -> tuple[Array, ...]:
    """Section 3: the centred outputs H̄, Σ₁₁^(-1/2), Σ₂₂^(-1/2) and T."""
    x, y = (side - side.mean(axis=0) for side in (x, y))
    by = len(x) - 1
    left, right = (
        fractional_matrix_power(side.T @ side / by + ridge * np.eye(side.shape[1]), -0.5).real
        for side in (x, y)
    )
    return x, y, left, right, left @ (x.T @ y / by) @ right


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([1e-4, 0.1, 2.0]))
def test_it_is_the_trace_norm_of_the_printed_matrix(seed: int, ridge: float) -> None:
    x, y = outputs(seed)
    t = parts(x, y, ridge)[-1]
    trace_norm = fractional_matrix_power(t.T @ t, 0.5).trace().real
    got = -TotalCorrelationLoss(ridge)(torch.from_numpy(x), torch.from_numpy(y))
    assert float(got) == pytest.approx(trace_norm, abs=1e-6)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([1e-4, 0.1, 2.0]))
def test_its_gradient_is_that_of_eq_11_to_13(seed: int, ridge: float) -> None:
    """∂corr/∂H₁ = (2 ∇₁₁ H̄₁ + ∇₁₂ H̄₂) / (m - 1), there with a column a pair."""
    x, y = outputs(seed)
    first, second, left, right, t = parts(x, y, ridge)
    u, d, v = np.linalg.svd(t, full_matrices=False)
    cross = left @ u @ v @ right
    own = -0.5 * left @ u @ np.diag(d) @ u.T @ left
    expected = (2 * first @ own + second @ cross.T) / (len(x) - 1)
    leaf = torch.from_numpy(x).requires_grad_()
    (-TotalCorrelationLoss(ridge)(leaf, torch.from_numpy(y))).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-3, 0.5])
def test_its_gradient_is_that_of_finite_differences(ridge: float) -> None:
    x, y = (torch.from_numpy(side).requires_grad_() for side in outputs(1, m=8, p=3, q=3))
    assert torch.autograd.gradcheck(TotalCorrelationLoss(ridge), (x, y))


def test_equal_correlations_have_a_gradient() -> None:
    """Where singular values are equal, their difference divides nothing."""
    x, _ = outputs(3)
    leaf = torch.from_numpy(x).requires_grad_()
    loss = TotalCorrelationLoss(1e-9)
    loss(leaf, torch.from_numpy(x.copy())).backward()
    assert torch.isfinite(leaf.grad).all()
    assert float(loss(leaf.detach(), leaf.detach())) == pytest.approx(-4, abs=1e-6)


def test_single_precision_outputs_are_computed_in_double() -> None:
    x, y = (torch.from_numpy(side).float() for side in outputs(2))
    assert TotalCorrelationLoss()(x, y).dtype == torch.float64


def test_what_is_not_finite_has_no_value() -> None:
    x, y = torch.rand(8, 3), torch.rand(8, 3, requires_grad=True)
    x[0, 0] = torch.inf
    loss = TotalCorrelationLoss()(x, y)
    assert loss.isnan()
    loss.backward()  # which an error of the loop's precedes
