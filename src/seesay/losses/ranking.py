"""Ranking losses, from the score matrix of a mini-batch of matching pairs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seesay.losses.base import LossSettings, ScoreLoss, check_scores, register_loss


class MarginSettings(LossSettings):
    """Settings of `MarginLoss`."""

    kind: Literal["margin"] = "margin"
    margin: float = Field(0.5, gt=0)


class SoftMarginSettings(LossSettings):
    """Settings of `SoftMarginLoss`."""

    kind: Literal["soft-margin"] = "soft-margin"
    margin: float = Field(0.5, gt=0)
    top_k: int = Field(5, gt=0)


class HingeRankSettings(LossSettings):
    """Settings of `HingeRankLoss`."""

    kind: Literal["hinge-rank"] = "hinge-rank"
    margin: float = Field(0.1, gt=0)


@register_loss(MarginSettings)
class MarginLoss(ScoreLoss):
    """IRMatchH's hard margin, eq. 4-6: the sum over all negatives of the batch, in both directions.

    Args:
        margin: m of max(0, m - s⁺ + s⁻).

    Example:
        >>> import torch
        >>> from seesay.losses import MarginLoss
        >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.5]])
        >>> MarginLoss(margin=0.2)(scores, torch.tensor([0, 1]))
        tensor(0.3000)
    """

    def __init__(self, margin: float = 0.5) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,)."""
        by_image, by_sentence = violations(scores, image_ids, self.margin)
        return (by_image.sum() + by_sentence.sum()) / len(scores)


@register_loss(SoftMarginSettings)
class SoftMarginLoss(ScoreLoss):
    """IRMatchS's soft margin, eq. 7-9: the sum over the `top_k` largest violations of each query.

    That is the minimum over a slack ε ≥ 0 of C·ε + Σ max(0, m - ε - s⁺ + s⁻) at the price C = `top_k`, which
    the paper leaves open. With all negatives it is the hard margin, with one the loss of VSE++.

    Args:
        margin: m.
        top_k: C.

    Example:
        >>> import torch
        >>> from seesay.losses import SoftMarginLoss
        >>> SoftMarginLoss(margin=0.2, top_k=1)(torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))
        tensor(0.4000)
    """

    def __init__(self, margin: float = 0.5, top_k: int = 5) -> None:
        super().__init__()
        self.margin, self.top_k = margin, top_k

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,)."""
        by_image, by_sentence = violations(scores, image_ids, self.margin)
        largest = min(self.top_k, len(scores))
        return (by_image.topk(largest).values.sum() + by_sentence.topk(largest).values.sum()) / len(scores)


@register_loss(HingeRankSettings)
class HingeRankLoss(ScoreLoss):
    """The hinge rank loss of DeViSE: the hard margin's violations of images as queries alone.

    Args:
        margin: m.

    Example:
        >>> import torch
        >>> from seesay.losses import HingeRankLoss
        >>> HingeRankLoss(margin=0.1)(torch.zeros(3, 3), torch.tensor([0, 1, 2]))
        tensor(0.2000)
    """

    def __init__(self, margin: float = 0.1) -> None:
        super().__init__()
        self.margin = margin

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,)."""
        return violations(scores, image_ids, self.margin)[0].sum() / len(scores)


def violations(scores: Tensor, image_ids: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return max(0, m - s⁺ + s⁻) of every negative, both (n, n); zero where there is no negative.

    Returns:
        Sentences against each image (row i: the query is image i), and images against each
        sentence (row j: the query is sentence j).
    """
    check_scores(scores, image_ids)
    negative = image_ids[:, None] != image_ids[None, :]
    matching = scores.diagonal()
    by_image = functional.relu(margin - matching[:, None] + scores) * negative
    by_sentence = functional.relu(margin - matching[:, None] + scores.T) * negative
    return by_image, by_sentence
