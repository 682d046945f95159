"""Losses of a query's shares of a mini-batch: the softmax over it of the query's scores."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, LossSettings, ScoreLoss, check_scores, register_loss

_NEVER = -1e4  # a score whose share of any batch is zero


class ContrastiveSettings(LossSettings):
    """Settings of `ContrastiveLoss`."""

    kind: Literal["contrastive"] = "contrastive"
    scale: float = Field(20.0, gt=0)


class DistillationSettings(LossSettings):
    """Settings of `DistillationLoss`; `teacher` is an embedding matcher's run on the same corpus."""

    kind: Literal["distillation"] = "distillation"
    teacher: str
    scale: float = Field(30.0, gt=0)

    @property
    def teacher_run(self) -> str:
        """The run whose scores are learned from."""
        return self.teacher

    def build(self) -> DistillationLoss:
        """Return the loss."""
        return DistillationLoss(self.scale)


@register_loss(ContrastiveSettings)
class ContrastiveLoss(ScoreLoss):
    """Cross-entropy of the matching pair among the batch, the mean of both directions.

    Args:
        scale: what scores are multiplied by.

    Example:
        >>> import torch
        >>> from seesay.losses import ContrastiveLoss
        >>> ContrastiveLoss(scale=1.0)(torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))  # log 4
        tensor(1.3863)
    """

    def __init__(self, scale: float = 20.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,)."""
        logits = (scores * self.scale).masked_fill(_same_image(scores, image_ids), float("-inf"))
        target = torch.arange(len(scores), device=scores.device)
        return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2


@register_loss(DistillationSettings)
class DistillationLoss(ScoreLoss):
    """How far a query's shares of the batch are from a teacher's, the mean of both directions.

    Hinton, Vinyals, Dean 2015: the distance is Kullback and Leibler's, of the matcher's shares from the
    teacher's.

    Args:
        scale: what the teacher's scores are multiplied by.

    Example:
        >>> import torch
        >>> from seesay.losses import DistillationLoss
        >>> teacher = torch.eye(3)
        >>> DistillationLoss(scale=30.0)(30 * teacher, torch.tensor([0, 1, 2]), teacher)
        tensor(0.)
    """

    def __init__(self, scale: float = 30.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: Tensor, image_ids: Tensor, teacher_scores: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,), given a teacher's scores (n, n)."""
        same = _same_image(scores, image_ids)
        if teacher_scores.shape != scores.shape:
            raise SeesayError(
                f"teacher_scores: wanted shape {tuple(scores.shape)}, got {tuple(teacher_scores.shape)}."
            )

        def shares(logits: Tensor) -> Tensor:
            # Finite: nothing times an infinite logarithm is not a number.
            return logits.masked_fill(same, _NEVER).log_softmax(dim=1)

        def distance(ours: Tensor, theirs: Tensor) -> Tensor:
            target = shares(theirs * self.scale)
            return functional.kl_div(shares(ours), target, reduction="batchmean", log_target=True)

        return (distance(scores, teacher_scores) + distance(scores.T, teacher_scores.T)) / 2

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of each score matrix that the matcher learns by."""
        if batch.teacher_scores is None:
            raise SeesayError("The distillation loss learns from a teacher; give the batch teacher_scores.")
        all_scores = matcher.training_scores(batch.images, batch.sentences)
        return [self(scores.float(), batch.image_ids, batch.teacher_scores) for scores in all_scores]


def _same_image(scores: Tensor, image_ids: Tensor) -> Tensor:
    """Which pairs are of one image but not the same, (n, n)."""
    check_scores(scores, image_ids)
    same = image_ids[:, None] == image_ids[None, :]
    same.fill_diagonal_(False)
    return same
