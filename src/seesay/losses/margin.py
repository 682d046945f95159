"""Margin losses: max(0, margin - matching score + negative's score) of the pairs of a mini-batch."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from seesay.device import multiplies_bfloat16
from seesay.losses.base import Batch, Ids, Loss, PairReduction, ScoreLoss, as_pairs, negatives, reduced
from seesay.losses.settings import register_loss
from seesay.settings import Positive

Slack = Literal["query", "negative"]
MeanOver = Literal["pairs", "active"]

_SLACK = 0.5  # of the margin; pairs beyond it have 0.6 % of the loss of a trained mcnn-st with dropout 0.1
_FEW = 0.3  # of all pairs; if there are more, scoring the whole matrix is faster


@register_loss("margin")
class MarginLoss(ScoreLoss):
    """IRMatchH's hard margin, eq. 4-6: the sum over all negatives of the batch, in both directions.

    Args:
        margin: m of max(0, m - s⁺ + s⁻).
        reduction: "mean" over the pairs, their "sum", or "none".

    Example:
        >>> import torch
        >>> from seesay.losses import MarginLoss
        >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.5]])
        >>> MarginLoss(margin=0.2)(scores, torch.tensor([0, 1]))
        tensor(0.3000)
    """

    def __init__(self, margin: Positive = 0.5, reduction: PairReduction = "mean") -> None:
        super().__init__()
        self.margin, self.reduction = margin, reduction

    def forward(self, scores: Tensor, image_ids: Ids, shared: Tensor | None = None) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,), or (n, m); see `ScoreLoss`."""
        scores, negative = as_pairs(scores, image_ids, shared)
        by_image, by_sentence = violations(scores, negative, self.margin)
        return reduced(by_image.sum(dim=1) + by_sentence.sum(dim=1), self.reduction)


@register_loss("soft-margin")
class SoftMarginLoss(ScoreLoss):
    """IRMatchS's soft margin, eq. 7-9: the sum over the `top_k` largest violations of each query.

    This is the minimum over a slack ε ≥ 0 of C·ε + Σ max(0, m - ε - s⁺ + s⁻) with the price C = `top_k`,
    which the paper leaves open. With all negatives it is the hard margin, and with one the loss of VSE++.

    Args:
        margin: m.
        top_k: C.
        reduction: "mean" over the pairs, their "sum", or "none". GVSE's eq. 2 and 3 print the loss of one
            pair; as it clips gradients, mean and sum train differently.
        slack: whether each "query" has a slack or, as in the paper's index, each "negative", whose `top_k`
            largest violations then count.

    Example:
        >>> import torch
        >>> from seesay.losses import SoftMarginLoss
        >>> SoftMarginLoss(margin=0.2, top_k=1)(torch.zeros(4, 4), torch.tensor([0, 1, 2, 3]))
        tensor(0.4000)
    """

    def __init__(
        self,
        margin: Positive = 0.5,
        top_k: PositiveInt = 5,
        reduction: PairReduction = "mean",
        slack: Slack = "query",
    ) -> None:
        super().__init__()
        self.margin, self.top_k, self.reduction, self.slack = margin, top_k, reduction, slack

    def forward(self, scores: Tensor, image_ids: Ids, shared: Tensor | None = None) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,), or (n, m); see `ScoreLoss`."""
        scores, negative = as_pairs(scores, image_ids, shared)
        by_image, by_sentence = violations(scores, negative, self.margin)
        largest, along = min(self.top_k, len(scores)), 1 if self.slack == "query" else 0
        kept = [each.topk(largest, dim=along).values.sum(dim=along) for each in (by_image, by_sentence)]
        return reduced(kept[0] + kept[1], self.reduction)


@register_loss("pair-margin")
class PairMarginLoss(Loss):
    """Contrastive sampling of m-CNN, eq. 10: each pair against negatives of its batch, in both directions.

    The mean over the pairs of Σ max(0, μ - s(x, y) + s(x, y')) + Σ max(0, μ - s(x, y) + s(x', y)). Pairs
    without a negative in the batch are left out.

    Args:
        margin: μ.
        count: the number of different random negatives in each direction, or all if the batch has fewer.
        mean_over: the mean is over the "pairs" or over "active" hinges, so that steps do not shrink as fewer
            negatives violate the margin.
        reduction: "mean", "sum" or "none".

    Example:
        >>> import torch
        >>> from seesay.losses import PairMarginLoss
        >>> PairMarginLoss(margin=0.5)(torch.zeros(2, 2), torch.tensor([0, 1]))
        tensor(1.)
    """

    needs = ("encode_images", "encode_sentences", "score_pairs", "score_encoded")

    def __init__(
        self,
        margin: Positive = 0.5,
        count: PositiveInt = 1,
        mean_over: MeanOver = "pairs",
        reduction: PairReduction = "mean",
    ) -> None:
        super().__init__()
        self.margin, self.count, self.mean_over, self.reduction = margin, count, mean_over, reduction

    def forward(self, scores: Tensor, image_ids: Ids, shared: Tensor | None = None) -> Tensor:
        """Return the loss of scores (n, n) of pairs of these images (n,), or (n, m); see `ScoreLoss`."""
        scores, negative = as_pairs(scores, image_ids, shared)
        return self._of_matrix(scores, *self._choose(negative))

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """Return the loss of a pair matcher, which scores the chosen pairs or, if cheaper, all pairs."""
        images, sentences = matcher.encode_images(batch.images), matcher.encode_sentences(batch.sentences)
        chosen, there = self._choose(negatives(batch.image_ids, batch.shared))
        _, n, count = chosen.shape
        if 1 + 2 * count > n:
            near = scores_near_margin(matcher, images, sentences, self.margin)
            return [self._of_matrix(near, chosen, there)]
        own = torch.arange(n, device=images.device)
        repeated = own.repeat_interleave(count)
        left = torch.cat([own, repeated, chosen[1].flatten()])
        right = torch.cat([own, chosen[0].flatten(), repeated])
        scores = matcher.score_pairs(images[left], sentences[right]).float()
        return [self._hinges(scores[:n], scores[n:].view(2, n, count), there)]

    def _choose(self, negative: Tensor) -> tuple[Tensor, Tensor]:
        """Return negatives by their rows, and which of them exist, both (2, n, count).

        The first are sentences for the image of each pair, the second images for its sentence.
        """
        both_ways = torch.stack([negative, negative.T])
        drawn = torch.rand(both_ways.shape, device=negative.device).masked_fill(~both_ways, -torch.inf)
        chosen = drawn.topk(min(self.count, len(negative)), dim=2).indices
        return chosen, both_ways.gather(2, chosen)

    def _of_matrix(self, scores: Tensor, chosen: Tensor, there: Tensor) -> Tensor:
        negative = torch.stack([scores.gather(1, chosen[0]), scores.T.gather(1, chosen[1])])
        return self._hinges(scores.diagonal(), negative, there)

    def _hinges(self, matching: Tensor, negative: Tensor, there: Tensor) -> Tensor:
        """Return the loss of scores (n,) and the scores of their negatives, (2, n, count)."""
        hinges = functional.relu(self.margin - matching[:, None] + negative) * there
        counted = (hinges > 0) if self.mean_over == "active" else there.any(dim=2).any(dim=0)
        return reduced(hinges.sum(dim=(0, 2)), self.reduction, counted.sum())


def violations(scores: Tensor, negative: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Return max(0, m - s⁺ + s⁻) of every negative in both directions, (n, n) each, with zeros elsewhere.

    Returns:
        Sentences against each image (row i: the query is image i), and images against each
        sentence (row j: the query is sentence j).
    """
    matching = scores.diagonal()
    by_image = functional.relu(margin - matching[:, None] + scores) * negative
    by_sentence = functional.relu(margin - matching[:, None] + scores.T) * negative.T
    return by_image, by_sentence


def scores_near_margin(matcher: Any, images: Tensor, sentences: Tensor, margin: float) -> Tensor:
    """Return a pair matcher's score matrix (n, n) of encoded pairs for a hinge loss, float32.

    Pairs that satisfy the margin by more than half of it without dropout may be -inf: they have no
    gradient, or rarely one with dropout. After a few epochs these are nearly all pairs, and only the
    others are scored with gradients. On a GPU all pairs are scored, which is faster than waiting for this
    choice.
    """
    near = None if images.is_cuda else pairs_near_margin(matcher, images, sentences, margin)
    if near is None or near.float().mean() > _FEW:
        scores: Tensor = matcher.score_encoded(images, sentences).float()
        return scores
    left, right = near.nonzero(as_tuple=True)
    scores = matcher.score_pairs(images[left], sentences[right]).float()
    return torch.full_like(near, -torch.inf, dtype=scores.dtype).index_put((left, right), scores)


def pairs_near_margin(matcher: Any, images: Tensor, sentences: Tensor, margin: float) -> Tensor:
    """Find the pairs (n, n) that match, violate the margin, or satisfy it by less than half of it.

    The scores are computed without gradients, in half precision if that is fast, and without dropout
    beyond that of the encodings: the step draws other masks, and drawing them took up to three quarters
    of the time.
    """
    kind, modes = images.device.type, {module: module.training for module in matcher.modules()}
    try:
        with torch.no_grad(), torch.autocast(kind, torch.bfloat16, enabled=multiplies_bfloat16(kind)):
            found: Tensor = matcher.eval().score_encoded(images, sentences).float()
    finally:
        for module, training in modes.items():  # some modules may be in evaluation mode
            module.training = training
    matching, margin = found.diagonal(), margin * (1 + _SLACK)
    near = (matching[:, None] - found < margin) | (matching - found < margin)
    return near.fill_diagonal_(True)
