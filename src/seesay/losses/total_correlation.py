"""The loss of deep CCA: how much two networks' outputs correlate over a mini-batch, in all."""

from __future__ import annotations

import torch
from torch import Tensor


def total_correlation(x: Tensor, y: Tensor, ridge: float) -> Tensor:
    """corr(H₁, H₂) = ‖T‖_tr, the sum of all canonical correlations (Andrew et al. 2013, eq. 10), in float64.

    T's singular values are those of L₁⁻¹ Σ₁₂ L₂⁻ᵀ, with Cholesky factors Lᵢ Lᵢᵀ = Σᵢᵢ, since the two differ
    by rotations alone. Its gradient divides by no difference of eigenvalues, as that of Σ^(-1/2) would.

    Args:
        x: H₁, (m, p), a row a pair; not centred.
        y: H₂, (m, q).
        ridge: r, added to each variance.
    """
    x, y = (side.double() - side.double().mean(dim=0) for side in (x, y))
    left, right = (torch.linalg.cholesky(_covariance(side, side, ridge)) for side in (x, y))
    whitened = torch.linalg.solve_triangular(left, _covariance(x, y), upper=False)
    whitened = torch.linalg.solve_triangular(right, whitened.T, upper=False)
    correlations: Tensor = torch.linalg.svdvals(whitened)
    return correlations.sum()


def _covariance(x: Tensor, y: Tensor, ridge: float = 0.0) -> Tensor:
    covariance = x.T @ y / (len(x) - 1)
    return covariance + ridge * torch.eye(*covariance.shape).to(covariance)
