"""Contrastive sampling (m-CNN, eq. 10): a pair against one negative in each direction."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.matchers.base import PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import PairMarginSettings


def pair_margin(
    matcher: PairMatcher,
    images: Tensor,
    sentences: Sentences,
    owners: Tensor,
    settings: PairMarginSettings,
) -> Tensor:
    """Eq. 10 for both tasks, on a mini-batch of matching pairs.

    Args:
        matcher: whose scores.
        images: features (n, d).
        sentences: n of them; sentence i belongs to image i.
        owners: which image each is, (n,); two pairs of one image are no negatives of each other.
        settings: the margin μ, and which negatives.

    Returns:
        The mean over the pairs of max(0, μ - s(x, y) + s(x, y')) + max(0, μ - s(x, y) + s(x', y)), with a
        sentence y' and an image x' of the batch: random ones, or those with the highest scores. Pairs
        without a negative there are left out.
    """
    encoded, texts = matcher.encode_images(images), matcher.encode_sentences(sentences)
    if settings.negatives == "hardest":
        usable, others = hardest_negatives(matcher, encoded, texts, owners)
    else:
        usable, others = draw_negatives(owners, 2)
    if not len(usable):
        return encoded.sum() * 0
    left = torch.cat([usable, usable, others[:, 1]])
    right = torch.cat([usable, others[:, 0], usable])
    scores = matcher.score_pairs(encoded[left], texts[right]).float()
    matching, *negative = scores.chunk(3)
    hinges = functional.relu(settings.margin - matching + torch.stack(negative))
    return hinges.sum() / len(usable)


def draw_negatives(owners: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """Positions (k,) that have negatives among `owners` (n,), and `times` random ones of each, (k, times)."""
    others = (owners[:, None] != owners[None, :]).float()
    usable = others.any(dim=1).nonzero()[:, 0]
    if not len(usable):
        return usable, usable.new_empty(0, times)
    return usable, torch.multinomial(others[usable], times, replacement=True)


@torch.no_grad()
def hardest_negatives(
    matcher: PairMatcher, images: Tensor, sentences: Tensor, owners: Tensor
) -> tuple[Tensor, Tensor]:
    """Positions (k,) that have negatives, and of each the best scored sentence and image among them, (k, 2).

    All pairs of the batch are scored without a gradient, which then flows through the chosen ones alone.
    """
    same = owners[:, None] == owners[None, :]
    usable = (~same).any(dim=1).nonzero()[:, 0]
    scores = matcher.score_encoded(images, sentences).masked_fill(same, -torch.inf)
    return usable, torch.stack([scores.argmax(dim=1), scores.argmax(dim=0)], dim=1)[usable]
