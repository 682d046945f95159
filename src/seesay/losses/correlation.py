"""The loss of CCA, which has a closed form."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import Tensor

from seesay.losses.base import Loss
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
