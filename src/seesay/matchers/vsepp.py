"""VSE++ (Faghri, Fleet, Kiros, Fidler 2018): a linear image map and a GRU, compared by the cosine."""

from __future__ import annotations

from pydantic import PositiveInt
from torch import Tensor, nn

from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import Standardise, WordEmbedding, image_input, last_states, unit_vectors, xavier
from seesay.matchers.sentences import SentencesLike, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout


@register_matcher("vse++")
class VSEPlusPlus(EmbeddingMatcher):
    """VSE++: a linear image map, and a GRU whose state after the last word is the sentence vector.

    Args:
        image_dim: width of the image features.
        vocabulary_size: rows of the word embedding.
        dim: width of the embeddings.
        word_dim: width of the word embedding.
        standardise: how the image features are scaled, see `layers.standardised`.
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

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim); features are normalised first, as in the authors' code."""
        check_images(images, self.image_map.in_features, self.image_map.weight)
        return unit_vectors(self.image_map(unit_vectors(self.image_input(images))))

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        read = read_words(sentences, self.embedding.num_embeddings)
        if not len(read):
            return self.embedding.weight.new_zeros(0, self.gru.hidden_size)
        words = self.dropout(self.embedding(read.words))
        return unit_vectors(self.dropout(last_states(self.gru, read, words)))
