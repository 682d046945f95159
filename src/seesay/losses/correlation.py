"""Correlation losses: of CCA, which has a closed form, and of deep CCA over a mini-batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss, check_tensors
from seesay.losses.settings import register_loss
from seesay.settings import Positive


@register_loss("correlation")
class CorrelationLoss(Loss):
    """The negative correlation of CCA, whose minimum `CCA.solve` finds in closed form.

    Args:
        ridges: shares of the mean variance that are added to each variance; training keeps the one that is
            best on val.

    Example:
        >>> import torch
        >>> from seesay.losses import CorrelationLoss
        >>> CorrelationLoss()(torch.tensor([0.9, 0.5]))
        tensor(-1.4000)
    """

    needs = ("solve",)
    closed_form = True

    def __init__(
        self, ridges: Annotated[tuple[Positive, ...], Field(min_length=1)] = (0.01, 0.1, 1.0)
    ) -> None:
        super().__init__()
        self.ridges = ridges

    def forward(self, correlations: Tensor) -> Tensor:
        """Return the loss of canonical correlations (k,)."""
        return -correlations.sum()


@register_loss("total-correlation")
class TotalCorrelationLoss(Loss):
    """Negative total correlation of two networks' outputs over a mini-batch (Andrew et al. 2013, eq. 10).

    Args:
        ridge: r, added to each variance.

    Example:
        >>> import torch
        >>> from seesay.losses import TotalCorrelationLoss
        >>> x = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> TotalCorrelationLoss(ridge=1e-9)(x, 2 * x)  # both directions correlate fully
        tensor(-2.0000, dtype=torch.float64)
    """

    needs = ("outputs", "fit_projections")
    full_batches = True  # the fewer the pairs, the more of their correlation is due to chance

    def __init__(self, ridge: Positive = 1e-4) -> None:
        super().__init__()
        self.ridge = ridge

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -‖T‖_tr, minus the sum of all canonical correlations, in float64.

        T's singular values are those of L₁⁻¹ Σ₁₂ L₂⁻ᵀ, with Cholesky factors Lᵢ Lᵢᵀ = Σᵢᵢ, since the two
        differ only by rotations. Unlike the gradient of Σ^(-1/2), its gradient does not divide by differences
        of eigenvalues.

        Args:
            x: H₁, (m, p), one row per pair, not centred.
            y: H₂, (m, q).
        """
        check_tensors(x=x, y=y)
        if x.ndim != 2 or y.ndim != 2 or not 1 < len(x) == len(y):
            raise SeesayError(
                "x and y: expected shapes (m, p) and (m, q) with m of at least 2, "
                f"got {tuple(x.shape)} and {tuple(y.shape)}."
            )
        if not (x.isfinite().all() and y.isfinite().all()):
            return (x.sum() + y.sum()).double() * torch.nan  # there is no Cholesky factor
        x, y = (side.double() - side.double().mean(dim=0) for side in (x, y))
        left, right = (torch.linalg.cholesky(_covariance(side, side, self.ridge)) for side in (x, y))
        whitened = torch.linalg.solve_triangular(left, _covariance(x, y), upper=False)
        whitened = torch.linalg.solve_triangular(right, whitened.T, upper=False)
        correlations: Tensor = torch.linalg.svdvals(whitened)
        return -correlations.sum()

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a deep CCA."""
        return [self(*matcher.outputs(batch.images, batch.sentences))]

    def finish_epoch(self, matcher: Any, pairs: Iterable[tuple[Tensor, Any]]) -> None:
        """Fit the projections to the outputs for all pairs."""
        matcher.fit_projections(pairs, self.ridge)


def _covariance(x: Tensor, y: Tensor, ridge: float = 0.0) -> Tensor:
    covariance = x.T @ y / (len(x) - 1)
    return covariance + ridge * torch.eye(*covariance.shape).to(covariance)
