"""Two-branch networks (Wang, Li, Huang, Lazebnik, TPAMI 2019): the embedding and the similarity network.

Each branch is fully connected, ReLU, dropout, fully connected, batch normalisation, unit length
(section 3.2.1); the linear variant is the first layer and unit length alone. Weights start as in
the paper's TensorFlow: Xavier's, with zero biases.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher, PairMatcher, ScoreLayer
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import EmbeddingNetworkSettings, SimilarityNetworkSettings


class Branches(nn.Module):
    """Both branches: features (n, d) and sentences to unit vectors.

    Args:
        settings: of the recipe.
        image_dim: width of the image or region features.
        words: rows of the word embedding, where an LSTM reads the sentence.
        sentence_dim: width of the sentence encoder's vectors, where none does.
    """

    def __init__(
        self,
        settings: EmbeddingNetworkSettings | SimilarityNetworkSettings,
        image_dim: int,
        words: int,
        sentence_dim: int,
    ) -> None:
        super().__init__()
        self.lstm = WordLSTM(words, settings.word_dim, settings.lstm) if settings.lstm else None
        widths = (settings.image_hidden, settings.dim)
        self.image_map = branch(image_dim, *widths, settings.dropout, settings.linear)
        widths = (settings.sentence_hidden, settings.dim)
        self.sentence_map = branch(settings.lstm or sentence_dim, *widths, settings.dropout, settings.linear)

    def images(self, images: Tensor) -> Tensor:
        """Unit vectors, (n, dim)."""
        return functional.normalize(self.image_map(images), dim=1)

    def sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors, (m, dim)."""
        read = sentences.vectors if self.lstm is None else self.lstm(sentences)
        return functional.normalize(self.sentence_map(read), dim=1)


class EmbeddingNetwork(EmbeddingMatcher):
    """The embedding network: the score is the cosine, which ranks as the Euclidean distance does."""

    def __init__(
        self, settings: EmbeddingNetworkSettings, image_dim: int, words: int, sentence_dim: int
    ) -> None:
        super().__init__()
        self.branches = Branches(settings, image_dim, words, sentence_dim)

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit vectors, (n, dim)."""
        vectors: Tensor = self.branches.images(images)
        return vectors

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors, (m, dim)."""
        vectors: Tensor = self.branches.sentences(sentences)
        return vectors


class SimilarityNetwork(PairMatcher):
    """The similarity network: the branches' product goes through layers to one score (section 3.3)."""

    def __init__(
        self, settings: SimilarityNetworkSettings, image_dim: int, words: int, sentence_dim: int
    ) -> None:
        super().__init__()
        self.branches = Branches(settings, image_dim, words, sentence_dim)
        width = settings.image_hidden if settings.linear else settings.dim
        layers: list[nn.Module] = []
        for out in settings.head:
            layers += [xavier(width, out), nn.ReLU()]
            width = out
        self.head = nn.Sequential(*layers, xavier(width, 1, ScoreLayer))

    def encode_images(self, images: Tensor) -> Tensor:
        """The image branch, (n, dim)."""
        vectors: Tensor = self.branches.images(images)
        return vectors

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """The sentence branch, (m, dim)."""
        vectors: Tensor = self.branches.sentences(sentences)
        return vectors

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """The scores p of eq. 7 for pairs side by side, (n,)."""
        scores: Tensor = self.head(images * sentences)[..., 0]
        return scores


class WordLSTM(nn.Module):
    """The state of an LSTM behind the last word; sentences are packed, so padding costs nothing."""

    def __init__(self, words: int, word_dim: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.lstm = nn.LSTM(word_dim, width)

    def forward(self, sentences: Sentences) -> Tensor:
        """(m, width)."""
        state: Tensor = self.lstm(sentences.packed(self.embedding(sentences.words)))[1][0][0]
        return state


def branch(width: int, hidden: int, dim: int, dropout: float, linear: bool) -> nn.Sequential:
    """One branch without its normalisation to unit length: R^width to R^dim, or to R^hidden when linear."""
    if linear:
        return nn.Sequential(xavier(width, hidden))
    return nn.Sequential(
        xavier(width, hidden), nn.ReLU(), nn.Dropout(dropout), xavier(hidden, dim), nn.BatchNorm1d(dim)
    )


def xavier(width: int, out: int, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """A layer with Glorot's uniform weights and zero biases."""
    layer = kind(width, out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
