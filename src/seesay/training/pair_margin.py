"""Contrastive sampling (m-CNN, eq. 10): a pair against one random negative in each direction."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.matchers.base import PairMatcher
from seesay.text.sentences import Sentences


def pair_margin(
    matcher: PairMatcher, images: Tensor, sentences: Sentences, owners: Tensor, margin: float
) -> Tensor:
    """Eq. 10 for both tasks, on a mini-batch of matching pairs.

    Args:
        matcher: whose scores.
        images: features (n, d).
        sentences: n of them; sentence i belongs to image i.
        owners: which image each is, (n,); two pairs of one image are no negatives of each other.
        margin: μ.

    Returns:
        The mean over the pairs of max(0, μ - s(x, y) + s(x, y')) + max(0, μ - s(x, y) + s(x', y)), with a
        sentence y' and an image x' drawn from the batch. Pairs without a negative there are left out.
    """
    encoded, texts = matcher.encode_images(images), matcher.encode_sentences(sentences)
    usable, others = draw_negatives(owners, 2)
    if not len(usable):
        return encoded.sum() * 0
    left = torch.cat([usable, usable, others[:, 1]])
    right = torch.cat([usable, others[:, 0], usable])
    scores = matcher.score_pairs(encoded[left], texts[right]).float()
    matching, *negative = scores.chunk(3)
    hinges = functional.relu(margin - matching + torch.stack(negative))
    return hinges.sum() / len(usable)


def draw_negatives(owners: Tensor, times: int) -> tuple[Tensor, Tensor]:
    """Positions (k,) that have negatives among `owners` (n,), and `times` random ones of each, (k, times)."""
    others = (owners[:, None] != owners[None, :]).float()
    usable = others.any(dim=1).nonzero()[:, 0]
    if not len(usable):
        return usable, usable.new_empty(0, times)
    return usable, torch.multinomial(others[usable], times, replacement=True)
