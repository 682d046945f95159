"""Order embeddings (Vendrov, Kiros, Fidler, Urtasun 2016): a sentence is more general than its image.

    E(s, i) = ‖max(0, s - i)‖²        score = -E

s and i have no negative component, so the origin is the most general point, and the penalty is 0 if the
sentence claims nothing that the image lacks. This is not an inner product: an index cannot rank by it, and
every pair is scored, though without a network. The encoders are a linear image map and a GRU; the absolute
values of both have unit length, as in the paper's text (its code does not normalise sentences).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seesay.matchers.base import PairMatcher
from seesay.matchers.baselines.vsepp import LinearAndGRU
from seesay.matchers.sentences import SentencesLike
from seesay.matchers.settings import register_matcher


@register_matcher("order-embeddings")
class OrderEmbeddings(LinearAndGRU, PairMatcher):
    """The score is 0 if the sentence is more general than the image in every component, else negative.

    The arguments are those of `VSEPlusPlus`.

    Example:
        >>> import torch
        >>> from seesay.matchers import OrderEmbeddings
        >>> matcher = OrderEmbeddings(image_dim=6, vocabulary_size=10, dim=16)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> bool((matcher(torch.rand(4, 6), sentences) <= 0).all())
        True
    """

    def encode_images(self, images: Tensor) -> Tensor:
        """Return non-negative unit vectors, (n, dim)."""
        return self.image_vectors(images).abs()

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return non-negative unit vectors, (m, dim)."""
        return self.sentence_vectors(sentences).abs()

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the score matrix (n, m), a few sentences' pairs at a time."""
        few = max(self.pairs_at_once(images), 1)
        parts = torch.split(sentences, few)
        return torch.cat([_score(images[None], part[:, None]) for part in parts]).T

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores (n,) of n encoded images, each with one of n encoded sentences."""
        return _score(images, sentences)


def _score(images: Tensor, sentences: Tensor) -> Tensor:
    """Return -E along the last axis, in single precision; half precision has too few values near a score."""
    return -functional.relu(sentences - images).float().square().sum(dim=-1)
