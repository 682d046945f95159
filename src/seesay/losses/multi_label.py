"""The loss of SCO's multi-label CNN."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss, check_equal_shapes
from seesay.losses.settings import register_loss


@register_loss("multi-label")
class MultiLabelLoss(Loss):
    """Logistic loss on each concept of each image, SCO's eq. 1.

    The sum over concepts of log(1 + exp(-y z)), its mean over images. The paper prints y in {0, 1}
    and sigmoid(z) in place of z; an absent concept would then cost log 2 whatever its score, and nothing
    would keep scores from all being 1. With y in {-1, 1} and the logit z it is the logistic loss, the
    cross-entropy of the sigmoid, computed stably, without overflow.

    Example:
        >>> import torch
        >>> from seesay.losses import MultiLabelLoss
        >>> MultiLabelLoss()(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]]))  # 3 log 2
        tensor(2.0794)
    """

    learns_concepts = True

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of logits z, (n, K), of concepts that are there or not, (n, K), 1 or 0."""
        check_equal_shapes(logits=logits, targets=targets)
        if not bool(((targets >= 0) & (targets <= 1)).all()):
            raise SeesayError("targets: wanted numbers in 0..1, got others.")
        signs = 2 * targets.to(logits.dtype) - 1
        losses = functional.softplus(-signs * logits).sum(dim=1)
        return losses.mean() if len(losses) else losses.sum()

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a classifier of concepts."""
        if batch.targets is None:
            raise SeesayError("The multi-label loss learns concepts; give the batch targets.")
        return [self(matcher(batch.images).float(), batch.targets)]
