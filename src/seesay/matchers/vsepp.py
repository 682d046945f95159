"""VSE++ (Faghri, Fleet, Kiros, Fidler 2018): a linear image map and a GRU, the field's yardstick."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import check_whole
from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import Standardise, WordEmbedding, image_input, last_states, xavier
from seesay.matchers.sentences import SentencesLike, read_words
from seesay.matchers.settings import MatcherSettings, register_matcher


class VSEPlusPlusSettings(MatcherSettings):
    """Settings of `VSEPlusPlus`."""

    kind: Literal["vse++"] = "vse++"
    dim: int = Field(1024, gt=0)
    word_dim: int = Field(300, gt=0)
    standardise: Standardise = False
    image_dropout: float = Field(0.0, ge=0, lt=1)
    sentence_dropout: float = Field(0.0, ge=0, lt=1)


@register_matcher(VSEPlusPlusSettings)
class VSEPlusPlus(EmbeddingMatcher):
    """VSE++: a linear image map, and a GRU whose state after the last word is the sentence vector.

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
        >>> from seesay.matchers import VSEPlusPlus
        >>> matcher = VSEPlusPlus(image_dim=6, vocabulary_size=10, dim=16)
        >>> sentences = (torch.tensor([[5, 2, 9], [7, 1, 0]]), torch.tensor([3, 2]))  # padded ids, lengths
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True

    def __init__(
        self,
        image_dim: int,
        vocabulary_size: int,
        dim: int = 1024,
        word_dim: int = 300,
        standardise: Standardise = False,
        image_dropout: float = 0.0,
        sentence_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole(1, image_dim=image_dim, dim=dim, word_dim=word_dim)
        self.image_input = image_input(image_dim, standardise, image_dropout)
        self.dropout = nn.Dropout(sentence_dropout)
        self.image_map = xavier(image_dim, dim)
        self.embedding = WordEmbedding(vocabulary_size, word_dim)
        self.gru = nn.GRU(word_dim, dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim); features are brought to unit length first, as its authors do."""
        check_images(images, self.image_map.in_features, self.image_map.weight)
        return functional.normalize(
            self.image_map(functional.normalize(self.image_input(images), dim=1)), dim=1
        )

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        read = read_words(sentences, self.embedding.num_embeddings)
        if not len(read):
            return self.embedding.weight.new_zeros(0, self.gru.hidden_size)
        words = self.dropout(self.embedding(read.words))
        return functional.normalize(self.dropout(last_states(self.gru, read, words)), dim=1)
