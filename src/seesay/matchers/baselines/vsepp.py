"""VSE++ and order embeddings, which share their encoders: a linear image map and a GRU.

VSE++ (Faghri, Fleet, Kiros, Fidler 2018) compares them by the cosine. In order embeddings (Vendrov, Kiros,
Fidler, Urtasun 2016), a sentence is more general than its image:

    E(s, i) = ‖max(0, s - i)‖²        score = -E

s and i have no negative component, so the origin is the most general point, and the penalty is 0 if no
component of the sentence exceeds that of the image. This is not an inner product: an index cannot rank by it,
and every pair is scored, though without a network. s and i are absolute values of unit vectors, as in the
paper's text (its code does not normalise sentences).
"""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher, check_images
from seesay.matchers.layers import Standardise, WordEmbedding, image_input, last_states, unit_vectors, xavier
from seesay.matchers.sentences import SentencesLike, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout


class LinearAndGRU(Matcher):
    """A linear image map and a GRU, which return unit vectors; the arguments are those of `VSEPlusPlus`."""

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
        self.image_input = image_input(image_dim, standardise, image_dropout)
        self.dropout = nn.Dropout(sentence_dropout)
        self.image_map = xavier(image_dim, dim)
        self.embedding = WordEmbedding(vocabulary_size, word_dim)
        self.gru = nn.GRU(word_dim, dim)

    def image_vectors(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim); features are normalised first, as in the authors' code."""
        check_images(images, self.image_map.in_features, self.image_map.weight)
        return unit_vectors(self.image_map(unit_vectors(self.image_input(images))))

    def sentence_vectors(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        read = read_words(sentences, self.embedding.num_embeddings)
        if not len(read):
            return self.embedding.weight.new_zeros(0, self.gru.hidden_size)
        words = self.dropout(self.embedding(read.words))
        return unit_vectors(self.dropout(last_states(self.gru, read, words)))


@register_matcher("vse++")
class VSEPlusPlus(LinearAndGRU, EmbeddingMatcher):
    """VSE++: a linear image map, and a GRU whose state after the last word is the sentence vector.

    Args:
        image_dim: width of the image features.
        vocabulary_size: rows of the word embedding.
        dim: width of the embeddings.
        word_dim: width of the word embedding.
        standardise: scale the image features to mean 0 and variance 1, by statistics of training; "power"
            takes their signed square roots first.
        image_dropout: on the image features in training.
        sentence_dropout: on the vectors of words and sentences in training.

    Example:
        >>> import torch
        >>> from seesay.matchers import VSEPlusPlus
        >>> matcher = VSEPlusPlus(image_dim=6, vocabulary_size=10, dim=16)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True
    embed_images = LinearAndGRU.image_vectors
    embed_sentences = LinearAndGRU.sentence_vectors


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
        """Return the score matrix (n, m), computed for a few sentences at a time."""
        few = max(self.pairs_at_once(images), 1)
        parts = torch.split(sentences, few)
        return torch.cat([_score(images[None], part[:, None]) for part in parts]).T

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores (n,) of n encoded images, each with one of n encoded sentences."""
        return _score(images, sentences)


def _score(images: Tensor, sentences: Tensor) -> Tensor:
    """Return -E along the last axis, in single precision; half precision has too few values near a score."""
    return -functional.relu(sentences - images).float().square().sum(dim=-1)
