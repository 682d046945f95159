"""Losses: what training minimises, from a score matrix of a mini-batch of matching pairs.

In every function `scores` is (n, n): row i an image, column j a sentence, pair i on the diagonal;
`images` (n,) says which image each row is. Two pairs of one image never count as each other's
negatives. The result is the mean over the pairs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.recipes.schema import ContrastiveSettings, HingeRankSettings, MarginSettings, SoftMarginSettings

_NEVER = -1e4  # a score whose share of any batch is zero


def violations(scores: Tensor, images: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """max(0, m - s⁺ + s⁻) of every negative, both (n, n); zero where there is no negative.

    Returns:
        Sentences against each image (row i: the query is image i), and images against each
        sentence (row j: the query is sentence j).
    """
    negative = images[:, None] != images[None, :]
    matching = scores.diagonal()
    by_image = functional.relu(margin - matching[:, None] + scores) * negative
    by_sentence = functional.relu(margin - matching[:, None] + scores.T) * negative
    return by_image, by_sentence


def hard_margin(scores: Tensor, images: Tensor, margin: float) -> Tensor:
    """IRMatchH, eq. 4-6: the sum over all in-batch negatives, in both directions."""
    by_image, by_sentence = violations(scores, images, margin)
    return (by_image.sum() + by_sentence.sum()) / len(scores)


def soft_margin(scores: Tensor, images: Tensor, margin: float, slack: int) -> Tensor:
    """IRMatchS, eq. 7-9, with one slack a query at the price C = `slack`.

    For each query the minimum over ε ≥ 0 of C·ε + Σ max(0, m - ε - s⁺ + s⁻) is the sum of the C
    largest violations. The paper leaves the price open. C of all negatives is the hard margin,
    C = 1 the max-violation loss of VSE++.
    """
    by_image, by_sentence = violations(scores, images, margin)
    largest = min(slack, len(scores))
    return (by_image.topk(largest).values.sum() + by_sentence.topk(largest).values.sum()) / len(scores)


def hinge_rank(scores: Tensor, images: Tensor, margin: float) -> Tensor:
    """The hinge rank loss of DeViSE: the hard margin's violations where an image asks, and they alone."""
    by_image, _ = violations(scores, images, margin)
    return by_image.sum() / len(scores)


def contrastive(scores: Tensor, images: Tensor, scale: float) -> Tensor:
    """Cross-entropy of the matching pair among the batch, the mean of both directions."""
    same = images[:, None] == images[None, :]
    same.fill_diagonal_(False)
    logits = (scores * scale).masked_fill(same, float("-inf"))
    target = torch.arange(len(scores), device=scores.device)
    return (functional.cross_entropy(logits, target) + functional.cross_entropy(logits.T, target)) / 2


def distillation(scores: Tensor, teacher: Tensor, images: Tensor, scale: float) -> Tensor:
    """How far a query's shares of the batch are from a teacher's, the mean of both directions.

    Hinton, Vinyals, Dean 2015: shares are the softmax over the batch of the scores, and of the teacher's
    scores (n, n) times `scale`; the distance is Kullback and Leibler's of the first from the second.
    """
    same = images[:, None] == images[None, :]
    same.fill_diagonal_(False)

    def shares(logits: Tensor) -> Tensor:
        # Finite: nothing times an infinite logarithm is not a number.
        return logits.masked_fill(same, _NEVER).log_softmax(dim=1)

    def distance(ours: Tensor, theirs: Tensor) -> Tensor:
        target = shares(theirs * scale)
        return functional.kl_div(shares(ours), target, reduction="batchmean", log_target=True)

    return (distance(scores, teacher) + distance(scores.T, teacher.T)) / 2


def loss_value(
    settings: MarginSettings | HingeRankSettings | ContrastiveSettings, scores: Tensor, images: Tensor
) -> Tensor:
    """The loss that the recipe names."""
    if isinstance(settings, HingeRankSettings):
        return hinge_rank(scores, images, settings.margin)
    if isinstance(settings, ContrastiveSettings):
        return contrastive(scores, images, settings.scale)
    if isinstance(settings, SoftMarginSettings):
        return soft_margin(scores, images, settings.margin, settings.top_k)
    return hard_margin(scores, images, settings.margin)
