"""Order embeddings (Vendrov, Kiros, Fidler, Urtasun 2016): a sentence is more general than its image.

    E(s, i) = ‖max(0, s - i)‖²        score = -E

s and i have no negative component, so the origin is the most general thing there is, and the penalty is 0
where the sentence claims nothing beyond what the image holds. This is not an inner product: an index cannot
rank by it, and every pair is looked at, though without a network. A linear image map and a GRU, the
absolute values of both in unit length, as the paper's text has it (its code leaves the sentence's length
free).
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from seesay.matchers.base import PairMatcher, pairs_at_once
from seesay.matchers.baselines.vsepp import VSEPlusPlus
from seesay.matchers.layers import Standardise
from seesay.matchers.sentences import SentencesLike
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout


@register_matcher("order-embeddings")
class OrderEmbeddings(PairMatcher):
    """The score is 0 where the sentence is more general than the image in each component, else negative.

    Args:
        image_dim: width of the image features.
        vocabulary_size: rows of the word embedding.
        dim: width of the embeddings.
        word_dim: width of the word embedding.
        standardise: bring the image features to mean 0 and variance 1, as training sees them; "power" to
            take their signed square roots first.
        image_dropout: on the image features while training.
        sentence_dropout: on the words' vectors and on the sentence's while training.

    Example:
        >>> import torch
        >>> from seesay.matchers import OrderEmbeddings
        >>> matcher = OrderEmbeddings(image_dim=6, vocabulary_size=10, dim=16)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> bool((matcher(torch.rand(4, 6), sentences) <= 0).all())
        True
    """

    def __init__(
        self,
        image_dim: PositiveInt,
        vocabulary_size: PositiveInt,
        dim: PositiveInt = 1024,
        word_dim: PositiveInt = 300,
        standardise: Standardise = False,
        image_dropout: Dropout = 0.0,
        sentence_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        dropouts = (standardise, image_dropout, sentence_dropout)
        self.maps = VSEPlusPlus(image_dim, vocabulary_size, dim, word_dim, *dropouts)

    def encode_images(self, images: Tensor) -> Tensor:
        """Return non-negative unit vectors, (n, dim)."""
        return self.maps.embed_images(images).abs()

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return non-negative unit vectors, (m, dim)."""
        return self.maps.embed_sentences(sentences).abs()

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the score matrix (n, m), a few sentences' pairs at a time."""
        few = max(pairs_at_once(images), 1)
        parts = torch.split(sentences, few)
        return torch.cat([_score(images[None], part[:, None]) for part in parts]).T

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return scores (n,) of encoded images and sentences side by side."""
        return _score(images, sentences)


def _score(images: Tensor, sentences: Tensor) -> Tensor:
    """-E along the last axis, in single precision: half of it knows too few numbers around a score."""
    return -functional.relu(sentences - images).float().square().sum(dim=-1)
