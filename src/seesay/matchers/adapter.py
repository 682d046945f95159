"""Two frozen towers that were trained together, such as CLIP's or SigLIP's, with and without an adapter.

`Cosine` compares their vectors, and nothing is learned. `Adapter` puts a residual perceptron on each:

    e(v) = v + α · MLP(v), where v has unit length, and e is then scaled to unit length

The last layers start at zero, so training begins with the zero-shot cosine. In training, α is 1. After each
epoch α is chosen on the val split: α = 0 is the zero-shot model, and since the last layer is linear, any α
interpolates its weights between zero-shot and trained (Wortsman et al. 2022). On val, the best epoch is
therefore never worse than the model without the adapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import unit_vectors
from seesay.matchers.sentences import SentencesLike, read_vectors
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout

ALPHAS = tuple(step / 10 for step in range(11))


@register_matcher("cosine")
class Cosine(EmbeddingMatcher):
    """The cosine of an image's features and a sentence's vector, from encoders of the same space.

    Example:
        >>> import torch
        >>> from seesay.matchers import Cosine
        >>> Cosine(image_dim=2, sentence_dim=2)(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]]))
        tensor([[0.8000]])

    Args:
        image_dim: width of the image features.
        sentence_dim: the same width, of the sentence vectors.
    """

    reads_words = False
    reads_vectors = True

    def __init__(self, image_dim: PositiveInt, sentence_dim: PositiveInt) -> None:
        super().__init__()
        check_one_space(image_dim, sentence_dim)
        self.dim = image_dim

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        check_images(images, self.dim)
        return unit_vectors(images)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        return unit_vectors(read_vectors(sentences, self.dim))


def check_one_space(image_dim: int, sentence_dim: int) -> None:
    """Raise `SeesayError` unless the vectors of both sides have the same width."""
    if image_dim != sentence_dim:
        raise SeesayError(
            f"sentence_dim: expected {image_dim}, the width of the image features, got {sentence_dim}; "
            "name one model in encoders and in sentence_encoder, such as open_clip:FOLDER."
        )


class Residual(nn.Module):
    """A residual for unit vectors (n, d): a perceptron whose last layer starts at zero."""

    def __init__(self, dim: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the residual, (n, d)."""
        # Scaled so that the components of a unit vector are about 1.
        hidden = functional.gelu(self.first(vectors * math.sqrt(vectors.shape[1])))
        added: Tensor = self.last(self.dropout(hidden))
        return added


@register_matcher("adapter")
class Adapter(EmbeddingMatcher):
    """Residual perceptrons on two towers of the same space; the score is the cosine.

    Attributes:
        alpha: the factor of the residuals, (1,), chosen on val by `calibrate`; 1 in training.

    Args:
        image_dim: width of the image features.
        sentence_dim: the same width, of the sentence vectors.
        hidden: width of the perceptrons' hidden layers.
        dropout: on the hidden layers.

    Example:
        >>> import torch
        >>> from seesay.matchers import Adapter
        >>> matcher = Adapter(image_dim=2, sentence_dim=2).eval()
        >>> matcher(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])).round(decimals=4).tolist()
        [[0.800000011920929]]
    """

    reads_words = False
    reads_vectors = True

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: PositiveInt,
        hidden: PositiveInt = 512,
        dropout: Dropout = 0.3,
    ) -> None:
        super().__init__()
        check_one_space(image_dim, sentence_dim)
        self.dim = image_dim
        self.images, self.sentences = (Residual(image_dim, hidden, dropout) for _ in range(2))
        self.register_buffer("alpha", torch.ones(1))

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        check_images(images, self.dim, self.images.first.weight)
        return self._adapted(images, self.images)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        return self._adapted(read_vectors(sentences, self.dim, self.sentences.first.weight), self.sentences)

    def _adapted(self, vectors: Tensor, residual: nn.Module) -> Tensor:
        unit = unit_vectors(vectors)
        added = residual(unit)
        return unit_vectors(unit + (added if self.training else self.get_buffer("alpha") * added))

    def metrics(self, images: Tensor, sentences: SentencesLike) -> dict[str, float]:
        """Return the alpha that `calibrate` chose last."""
        del images, sentences
        return {"alpha": self.get_buffer("alpha").item()}

    def calibrate(self, measure: Callable[[], float]) -> None:
        """Choose the alpha of ALPHAS with the highest metric on val; the smallest of several."""
        alpha, found = self.get_buffer("alpha"), {}
        for each in ALPHAS:
            alpha.fill_(each)
            found[each] = measure()
        alpha.fill_(max(ALPHAS, key=lambda each: (found[each], -each)))
