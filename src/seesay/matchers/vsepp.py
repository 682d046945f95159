"""VSE++ (Faghri, Fleet, Kiros, Fidler 2018): a linear image map and a GRU, the field's yardstick."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.sentences import Sentences


class VsePlusPlus(EmbeddingMatcher):
    """Sentence vector: the GRU's state behind the last word. Both sides have unit length."""

    def __init__(self, image_dim: int, words: int, dim: int, word_dim: int) -> None:
        super().__init__()
        self.image_map = nn.Linear(image_dim, dim)
        nn.init.xavier_uniform_(self.image_map.weight)
        nn.init.zeros_(self.image_map.bias)
        self.embedding = nn.Embedding(words, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.gru = nn.GRU(word_dim, dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit image vectors; the features are brought to unit length first, as its authors do."""
        return functional.normalize(self.image_map(functional.normalize(images, dim=1)), dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit sentence vectors; the sentences are packed, so padding costs nothing."""
        _, last = self.gru(sentences.packed(self.embedding(sentences.words)))
        return functional.normalize(last[0], dim=1)
