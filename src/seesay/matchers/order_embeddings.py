"""Order embeddings (Vendrov, Kiros, Fidler, Urtasun 2016): a sentence is more general than its image.

    E(s, i) = ‖max(0, s - i)‖²        score = -E

s and i have no negative component, so the origin is the most general thing there is, and the penalty is 0
where the sentence claims nothing beyond what the image holds. This is no inner product: an index cannot rank
by it, and every pair is looked at, though without a network. A linear image map and a GRU, the absolute
values of both in unit length, as the paper's text has it (its code leaves the sentence's length free).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.matchers.base import PairMatcher, pairs_at_once
from seesay.matchers.sentences import Sentences
from seesay.matchers.vsepp import VsePlusPlus
from seesay.recipes.matchers import OrderSettings


class OrderEmbeddings(PairMatcher):
    """The score is 0 where the sentence is more general than the image in each component, and below else.

    Args:
        settings: of the recipe.
        image_dim: width of the image features.
        words: rows of the word embedding.
    """

    def __init__(self, settings: OrderSettings, image_dim: int, words: int) -> None:
        super().__init__()
        self.maps = VsePlusPlus(image_dim, words, settings.dim, settings.word_dim)

    def encode_images(self, images: Tensor) -> Tensor:
        """Non-negative unit vectors, (n, dim)."""
        vectors: Tensor = self.maps.embed_images(images)
        return vectors.abs()

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """Non-negative unit vectors, (m, dim)."""
        vectors: Tensor = self.maps.embed_sentences(sentences)
        return vectors.abs()

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """The score matrix (n, m), a few sentences' pairs at a time."""
        few = max(pairs_at_once(images), 1)
        parts = torch.split(sentences, few)
        return torch.cat([_score(images[None], part[:, None]) for part in parts]).T

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Scores (n,) of encoded images and sentences side by side."""
        return _score(images, sentences)


def _score(images: Tensor, sentences: Tensor) -> Tensor:
    """-E along the last axis, in single precision: half of it knows too few numbers around a score."""
    return -functional.relu(sentences - images).float().square().sum(dim=-1)
