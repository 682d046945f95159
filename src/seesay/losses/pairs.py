"""Losses of sampled pairs: m-CNN's (eq. 10) and the similarity network's (eq. 7 of its paper)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss, check_equal_shapes, check_number, check_scores
from seesay.losses.settings import LossSettings, register_loss

Negatives = Literal["random", "hardest"]


class PairMarginSettings(LossSettings):
    """Settings of `PairMarginLoss`."""

    kind: Literal["pair-margin"] = "pair-margin"
    margin: float = Field(0.5, gt=0)
    negatives: Negatives = "random"


class LogisticSettings(LossSettings):
    """Settings of `LogisticLoss`."""

    kind: Literal["logistic"] = "logistic"


@register_loss(PairMarginSettings)
class PairMarginLoss(Loss):
    """Contrastive sampling of m-CNN, eq. 10: each pair against one negative of its batch, in both directions.

    The mean over the pairs of max(0, μ - s(x, y) + s(x, y')) + max(0, μ - s(x, y) + s(x', y)). Pairs without
    a negative in the batch are left out.

    Args:
        margin: μ.
        negatives: "random" ones, as in the paper, or the "hardest", those with the highest scores.

    Example:
        >>> import torch
        >>> from seesay.losses import PairMarginLoss
        >>> PairMarginLoss(margin=0.5, negatives="hardest")(torch.zeros(2, 2), torch.tensor([0, 1]))
        tensor(1.)
    """

    needs = ("encode_images", "encode_sentences", "score_encoded", "score_pairs")

    def __init__(self, margin: float = 0.5, negatives: Negatives = "random") -> None:
        super().__init__()
        check_number("margin", margin)
        if negatives not in get_args(Negatives):
            raise SeesayError(f"negatives: wanted 'random' or 'hardest', got {negatives!r}.")
        self.margin, self.negatives = margin, negatives

    def forward(self, scores: Tensor, image_ids: Tensor) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,)."""
        check_scores(scores, image_ids)
        usable, others = self._choose(image_ids, lambda: scores)
        if not len(usable):
            return scores.sum() * 0
        negative = torch.stack([scores[usable, others[:, 0]], scores[others[:, 1], usable]])
        return self._hinges(scores.diagonal()[usable], negative)

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a pair matcher, which scores the sampled pairs alone."""
        images, sentences = matcher.encode_images(batch.images), matcher.encode_sentences(batch.sentences)
        usable, others = self._choose(batch.image_ids, lambda: matcher.score_encoded(images, sentences))
        if not len(usable):
            return [images.sum() * 0]
        left = torch.cat([usable, usable, others[:, 1]])
        right = torch.cat([usable, others[:, 0], usable])
        matching, *negative = matcher.score_pairs(images[left], sentences[right]).float().chunk(3)
        return [self._hinges(matching, torch.stack(negative))]

    def _choose(self, image_ids: Tensor, scores: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        """Positions (k,) that have negatives, and a negative sentence and image of each, (k, 2)."""
        if self.negatives == "random":
            return draw_negatives(image_ids, 2)
        same = image_ids[:, None] == image_ids[None, :]
        usable = (~same).any(dim=1).nonzero()[:, 0]
        if not len(usable):
            return usable, usable.new_empty(0, 2)
        with torch.no_grad():  # the gradient flows through the chosen pairs alone
            negative = scores().masked_fill(same, -torch.inf)
        return usable, torch.stack([negative.argmax(dim=1), negative.argmax(dim=0)], dim=1)[usable]

    def _hinges(self, matching: Tensor, negative: Tensor) -> Tensor:
        return functional.relu(self.margin - matching + negative).sum() / len(matching)


@register_loss(LogisticSettings)
class LogisticLoss(Loss):
    """Logistic loss on pairs, eq. 7: the mean of log(1 + exp(-z·p)) over scores p and labels z.

    Example:
        >>> import torch
        >>> from seesay.losses import LogisticLoss
        >>> LogisticLoss()(torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]))  # log 2
        tensor(0.6931)
    """

    needs = ("encode_images", "encode_sentences", "score_pairs")

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of scores (n,) with labels (n,) of +1 and -1."""
        check_equal_shapes(scores=scores, labels=labels)
        if not bool((labels.abs() == 1).all()):
            raise SeesayError("labels: wanted +1 and -1 only, got other numbers.")
        return functional.softplus(-labels * scores).mean() if len(scores) else scores.sum()

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss on each pair (x, y) and on (x, y') with a random y' that does not describe x."""
        images, texts = matcher.encode_images(batch.images), matcher.encode_sentences(batch.sentences)
        usable, drawn = draw_negatives(batch.image_ids, 1)
        if not len(usable):
            return [images.sum() * 0]
        images, negative = images[usable], texts[drawn[:, 0]]
        scores = torch.cat(
            [matcher.score_pairs(images, texts[usable]), matcher.score_pairs(images, negative)]
        )
        labels = torch.ones_like(scores)
        labels[len(images) :] = -1
        return [self(scores.float(), labels)]


def draw_negatives(image_ids: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """Return positions (k,) that have negatives in the batch, and `times` random ones of each, (k, times)."""
    others = (image_ids[:, None] != image_ids[None, :]).float()
    usable = others.any(dim=1).nonzero()[:, 0]
    if not len(usable):
        return usable, usable.new_empty(0, times)
    return usable, torch.multinomial(others[usable], times, replacement=True)
