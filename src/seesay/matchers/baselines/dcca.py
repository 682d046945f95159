"""Deep CCA (Andrew, Arora, Bilmes, Livescu 2013), used for images and text by Yan and Mikolajczyk 2015.

Each side has a perceptron. H₁ and H₂ are their centred outputs for a mini-batch of m pairs, a row for each
pair. They are trained to maximise the correlation of the outputs: the sum of the singular values of

    T = Σ₁₁^(-1/2) Σ₁₂ Σ₂₂^(-1/2),   Σ₁₁ = H₁ᵀH₁ / (m - 1) + r I,   Σ₁₂ = H₁ᵀH₂ / (m - 1)

(section 3). After each epoch, linear CCA of the outputs of all training pairs, with the same r, gives the
projections whose cosine is the score. Choices of this implementation: inputs are scaled to length √d, so that
components are about 1 and small variances stay small; hidden layers have ReLU and dropout; projections may be
scaled as in normalised CCA.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.baselines.cca import CCA, Covariances, solve_cca
from seesay.matchers.layers import unit_vectors, xavier
from seesay.matchers.sentences import SentencesLike, read_vectors
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout, NonNegative


@register_matcher("dcca")
class DCCA(EmbeddingMatcher):
    """Deep CCA: a perceptron for each side; the score is the cosine of their canonical projections.

    Args:
        image_dim: width of the image features.
        sentence_dim: width of the sentence encoder's vectors.
        hidden: widths of the hidden layers.
        dim: width of the outputs, and number of projections.
        dropout: after each hidden layer.
        power: of the eigenvalues by which projections are scaled, as in `CCA`.

    Example:
        >>> import torch
        >>> from seesay.matchers import DCCA
        >>> matcher = DCCA(image_dim=6, sentence_dim=8, hidden=(16,), dim=4)
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    reads_words, reads_vectors = False, True

    def __init__(
        self,
        image_dim: PositiveInt,
        sentence_dim: PositiveInt,
        hidden: tuple[PositiveInt, ...] = (1024,),
        dim: PositiveInt = 128,
        dropout: Dropout = 0.0,
        power: NonNegative = 0.0,
    ) -> None:
        super().__init__()
        self.image_dim, self.sentence_dim = image_dim, sentence_dim
        self.image_map = _perceptron((image_dim, *hidden), dim, dropout)
        self.sentence_map = _perceptron((sentence_dim, *hidden), dim, dropout)
        self.projections = CCA(dim, dim, dim, power)

    def outputs(self, images: Tensor, sentences: SentencesLike) -> tuple[Tensor, Tensor]:
        """Return H₁ and H₂, (m, dim) each, of m pairs of images and sentences."""
        return self._image_outputs(images), self._sentence_outputs(sentences)

    @torch.inference_mode()
    def fit_projections(self, batches: Iterable[tuple[Tensor, SentencesLike]], ridge: float) -> None:
        """Fit linear CCA to the outputs of matching pairs; `ridge` is r, in the units of their variances.

        Raises:
            SeesayError: see `Covariances.add` and `solve_cca`.
        """
        covariances = Covariances()
        for images, sentences in batches:
            covariances.add(*self.outputs(images, sentences))
        shares = (ridge / float(each.diagonal().mean()) for each in (covariances.xx, covariances.yy))
        dim = len(self.projections.get_buffer("correlations"))
        self.projections.fill(solve_cca(covariances, dim, *shares))

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        return self.projections.project(self._image_outputs(images), "image")

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        return self.projections.project(self._sentence_outputs(sentences), "sentence")

    def _image_outputs(self, images: Tensor) -> Tensor:
        check_images(images, self.image_dim, next(self.image_map.parameters()))
        outputs: Tensor = self.image_map(_scaled(images))
        return outputs

    def _sentence_outputs(self, sentences: SentencesLike) -> Tensor:
        vectors = read_vectors(sentences, self.sentence_dim, next(self.sentence_map.parameters()))
        outputs: Tensor = self.sentence_map(_scaled(vectors))
        return outputs


def _scaled(inputs: Tensor) -> Tensor:
    length: float = inputs.shape[1] ** 0.5
    return unit_vectors(inputs) * length


def _perceptron(widths: Sequence[int], dim: int, dropout: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for wide, out in pairwise(widths):
        layers += [xavier(wide, out), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, xavier(widths[-1], dim))
