"""All pairs of a pair matcher: each side encoded once, the pairs in blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from seesay.matchers.base import PairMatcher

BLOCK = 1 << 14  # pairs at a time: their activations stay near the cores


def score_all_pairs(matcher: PairMatcher, images: Tensor, sentences: Tensor, block: int = BLOCK) -> Tensor:
    """The score matrix (n, m) of encoded images and sentences.

    Args:
        matcher: whose pairs.
        images: what its `encode_images` gave, n rows.
        sentences: what its `encode_sentences` gave, m rows.
        block: pairs at a time.
    """
    scores = torch.empty(len(images), len(sentences), device=images.device)
    columns = min(len(sentences), block)
    rows = max(block // max(columns, 1), 1)
    for top in range(0, len(images), rows):
        for left in range(0, len(sentences), columns):
            scores[top : top + rows, left : left + columns] = matcher.score_encoded(
                images[top : top + rows], sentences[left : left + columns]
            )
    return scores
