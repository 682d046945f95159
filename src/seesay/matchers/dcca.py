"""Deep CCA (Andrew, Arora, Bilmes, Livescu 2013), which Yan and Mikolajczyk 2015 match images and text with.

A perceptron a side, H₁ and H₂ what they give of a mini-batch of m pairs, a row a pair, its mean taken off.
They are trained so that their outputs correlate most: by the sum of the singular values of

    T = Σ₁₁^(-1/2) Σ₁₂ Σ₂₂^(-1/2),   Σ₁₁ = H₁ᵀH₁ / (m - 1) + r I,   Σ₁₂ = H₁ᵀH₂ / (m - 1)

(section 3). Behind each epoch linear CCA of all training pairs' outputs, by the same r, gives the projections
whose cosine is the score. What is chosen here: inputs have length √d, so that a number is about 1 and
what varies little stays little; hidden layers are rectified, with dropout; projections may be scaled as those
of normalised CCA are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.cca import CCA, Covariances, solve_cca
from seesay.matchers.sentences import Sentences
from seesay.matchers.two_branch import xavier
from seesay.recipes.matchers import DccaSettings


class DCCA(EmbeddingMatcher):
    """The score is the cosine of the outputs' canonical projections.

    Args:
        settings: of the recipe.
        image_dim: width of the image features.
        sentence_dim: width of the sentence encoder's vectors.
    """

    def __init__(self, settings: DccaSettings, image_dim: int, sentence_dim: int) -> None:
        super().__init__()
        self.image_map = _perceptron(image_dim, settings)
        self.sentence_map = _perceptron(sentence_dim, settings)
        self.projections = CCA(settings.dim, settings.dim, settings.dim, settings.power)

    def outputs(self, images: Tensor, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """H₁ (m, dim) and H₂ (m, dim) of images and sentences side by side."""
        return self.image_map(_scaled(images)), self.sentence_map(_scaled(sentences.vectors))

    @torch.inference_mode()
    def fit_projections(self, batches: Iterable[tuple[Tensor, Sentences]], ridge: float) -> None:
        """Linear CCA of the outputs of matching pairs; `ridge` is r, in the outputs' own unit.

        Raises:
            SeesayError: see `solve_cca`.
        """
        covariances = Covariances()
        for images, sentences in batches:
            covariances.add(*self.outputs(images, sentences))
        shares = (ridge / float(each.diagonal().mean()) for each in (covariances.xx, covariances.yy))
        dim = len(self.projections.get_buffer("correlations"))
        self.projections.fill(solve_cca(covariances, dim, *shares))

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit vectors, (n, dim)."""
        return self.projections.embed(self.image_map(_scaled(images)), "image")

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors, (m, dim)."""
        return self.projections.embed(self.sentence_map(_scaled(sentences.vectors)), "sentence")


def _scaled(inputs: Tensor) -> Tensor:
    length: float = inputs.shape[1] ** 0.5
    return functional.normalize(inputs, dim=1) * length


def _perceptron(width: int, settings: DccaSettings) -> nn.Sequential:
    layers: list[nn.Module] = []
    widths = (width, *settings.hidden)
    for wide, out in pairwise(widths):
        layers += [xavier(wide, out), nn.ReLU(), nn.Dropout(settings.dropout)]
    return nn.Sequential(*layers, xavier(widths[-1], settings.dim))
