"""Two-branch networks (Wang, Li, Huang, Lazebnik, TPAMI 2019): the embedding and the similarity network.

Each branch is a fully connected layer, ReLU, dropout, a fully connected layer, batch normalisation and
normalisation to unit length (sections 3.2.1 and 5.3); the linear variant only has the first layer and the
last step. Weights are initialised by the defaults of TensorFlow, which the paper uses: Xavier's uniform
weights and zero biases.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, NonNegativeInt, PositiveInt, ValidationInfo
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, Matcher, PairMatcher, check_images
from seesay.matchers.layers import ScoreLayer, Standardise, WordLSTM, image_input, unit_vectors, xavier
from seesay.matchers.sentences import SentencesLike, read_vectors, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout


def _one_width(linear: bool, info: ValidationInfo) -> bool:
    widths = info.data.get("image_hidden"), info.data.get("sentence_hidden")
    if linear and widths[0] != widths[1]:
        raise ValueError(
            "the first layers are the embeddings, so image_hidden and sentence_hidden must be equal; "
            f"they are {widths[0]} and {widths[1]}"
        )
    return linear


Linear = Annotated[bool, AfterValidator(_one_width)]


class _TwoBranch(Matcher):
    """Both branches, which map images (n, d) and sentences to unit vectors."""

    @staticmethod
    def reads_words(settings: Any) -> bool:
        """Return whether an LSTM reads the words."""
        return bool(settings.lstm)

    @staticmethod
    def reads_vectors(settings: Any) -> bool:
        """Return whether it reads the vectors of a sentence encoder instead of words."""
        return not settings.lstm

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: NonNegativeInt = 0,
        vocabulary_size: NonNegativeInt = 0,
        image_hidden: PositiveInt = 2048,
        sentence_hidden: PositiveInt = 2048,
        dim: PositiveInt = 512,
        linear: Linear = False,
        dropout: Dropout = 0.5,
        lstm: NonNegativeInt = 0,
        word_dim: PositiveInt = 256,
        standardise: Standardise = False,
        image_dropout: Dropout = 0.0,
        sentence_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        if not lstm and not sentence_dim:
            raise SeesayError("sentence_dim: without an LSTM, sentences are vectors; got a width of 0.")
        self.image_dim, self.sentence_dim, self.vocabulary_size = image_dim, sentence_dim, vocabulary_size
        reader = WordLSTM(vocabulary_size, word_dim, lstm, sentence_dropout) if lstm else None
        self.branches = nn.ModuleDict({"lstm": reader} if reader is not None else {})
        self.image_input = image_input(image_dim, standardise, image_dropout)
        self.sentence_dropout = nn.Dropout(sentence_dropout)
        self.branches["image_map"] = _branch(image_dim, image_hidden, dim, dropout, linear)
        self.branches["sentence_map"] = _branch(lstm or sentence_dim, sentence_hidden, dim, dropout, linear)

    def image_vectors(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        check_images(images, self.image_dim, next(self.branches["image_map"].parameters()))
        return unit_vectors(self.branches["image_map"](self.image_input(images)))

    def sentence_vectors(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        if "lstm" in self.branches:
            read = self.branches["lstm"](read_words(sentences, self.vocabulary_size))
        else:
            like = next(self.branches["sentence_map"].parameters())
            read = self.sentence_dropout(read_vectors(sentences, self.sentence_dim, like))
        return unit_vectors(self.branches["sentence_map"](read))


@register_matcher("embedding-network")
class TwoBranchEmbedding(_TwoBranch, EmbeddingMatcher):
    """The embedding network; the score is the cosine, which ranks like the Euclidean distance.

    Args:
        image_dim: width of the image or region features.
        sentence_dim: width of the sentence encoder's vectors; required without an LSTM.
        vocabulary_size: rows of the word embedding; required with an LSTM.
        image_hidden: width of the image branch's hidden layer.
        sentence_hidden: width of the sentence branch's hidden layer.
        dim: width of the embeddings.
        linear: keep only the first layer of each branch.
        dropout: after the hidden layers.
        lstm: width of the LSTM; 0 for none.
        word_dim: width of its word embedding.
        standardise: how the image features are scaled, see `layers.standardised`.
        image_dropout: on the image features in training.
        sentence_dropout: on the LSTM's words and state, or on the sentence encoder's vectors, in training.

    Example:
        >>> import torch
        >>> from seesay.matchers import TwoBranchEmbedding
        >>> matcher = TwoBranchEmbedding(image_dim=6, sentence_dim=8, dim=16)
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    embed_images = _TwoBranch.image_vectors
    embed_sentences = _TwoBranch.sentence_vectors


@register_matcher("similarity-network")
class SimilarityNetwork(_TwoBranch, PairMatcher):
    """The similarity network, whose layers compute a score from the product of the branches (section 3.3).

    Args:
        head: widths of the layers between the product and the score; the other arguments are those of
            `TwoBranchEmbedding`.

    Example:
        >>> import torch
        >>> from seesay.matchers import SimilarityNetwork
        >>> matcher = SimilarityNetwork(image_dim=6, sentence_dim=8, dim=16, head=(8,))
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: NonNegativeInt = 0,
        vocabulary_size: NonNegativeInt = 0,
        image_hidden: PositiveInt = 2048,
        sentence_hidden: PositiveInt = 2048,
        dim: PositiveInt = 512,
        linear: Linear = False,
        dropout: Dropout = 0.5,
        lstm: NonNegativeInt = 0,
        word_dim: PositiveInt = 256,
        standardise: Standardise = False,
        image_dropout: Dropout = 0.0,
        sentence_dropout: Dropout = 0.0,
        head: tuple[PositiveInt, ...] = (512, 256),
    ) -> None:
        super().__init__(
            image_dim=image_dim,
            sentence_dim=sentence_dim,
            vocabulary_size=vocabulary_size,
            image_hidden=image_hidden,
            sentence_hidden=sentence_hidden,
            dim=dim,
            linear=linear,
            dropout=dropout,
            lstm=lstm,
            word_dim=word_dim,
            standardise=standardise,
            image_dropout=image_dropout,
            sentence_dropout=sentence_dropout,
        )
        width = image_hidden if linear else dim
        layers: list[nn.Module] = []
        for out in head:
            layers += [xavier(width, out), nn.ReLU()]
            width = out
        self.head = nn.Sequential(*layers, xavier(width, 1, ScoreLayer))

    encode_images = _TwoBranch.image_vectors
    encode_sentences = _TwoBranch.sentence_vectors

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores p of eq. 7 of n images, each with one sentence, (n,)."""
        scores: Tensor = self.head(images * sentences)[..., 0]
        return scores


def _branch(width: int, hidden: int, dim: int, dropout: float, linear: bool) -> nn.Sequential:
    """Return a branch before unit length: R^width to R^dim, or to R^hidden if linear."""
    if linear:
        return nn.Sequential(xavier(width, hidden))
    return nn.Sequential(
        xavier(width, hidden), nn.ReLU(), nn.Dropout(dropout), xavier(hidden, dim), nn.BatchNorm1d(dim)
    )
