"""The multi-label CNN of SCO (Huang, Wu, Song, Wang, CVPR 2018), section 3.2: concepts of an image."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from seesay.matchers.base import MatcherInputs, MatcherSettings, check_images, register_matcher


class ConceptSettings(MatcherSettings):
    """Settings of `ConceptClassifier`; `count` is how many concepts are wanted at most."""

    kind: Literal["concepts"] = "concepts"
    count: int = Field(256, gt=0)
    hidden: int = Field(0, ge=0)
    dropout: float = Field(0.0, ge=0, lt=1)

    def build(self, inputs: MatcherInputs) -> ConceptClassifier:
        """Return the classifier of the vocabulary's words, the unknown one left out."""
        return ConceptClassifier(inputs.image_dim, inputs.vocabulary_size - 1, self.hidden, self.dropout)

    @property
    def concept_count(self) -> int:
        """How many concepts are wanted at most."""
        return self.count


@register_matcher(ConceptSettings)
class ConceptClassifier(nn.Module):
    """The output layer of the multi-label CNN: image features to a logit a concept.

    It matches no sentences; a recipe takes its scores as an image encoder (`concepts:RUN`).

    Args:
        image_dim: width of the image features.
        concepts: K.
        hidden: width of a layer before it, with ReLU; 0 for none (the paper tunes the network instead).
        dropout: before the output layer.

    Example:
        >>> import torch
        >>> from seesay.matchers import ConceptClassifier
        >>> ConceptClassifier(image_dim=6, concepts=256)(torch.rand(4, 6)).shape
        torch.Size([4, 256])
    """

    reads_words = reads_vectors = False
    tunable = True

    def __init__(self, image_dim: int, concepts: int, hidden: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.image_dim, self.concepts = image_dim, concepts
        layers: list[nn.Module] = [nn.Linear(image_dim, hidden), nn.ReLU()] if hidden else []
        layers += [nn.Dropout(dropout), nn.Linear(hidden or image_dim, concepts)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits, (n, K); their sigmoids are the concepts' scores."""
        check_images(images, self.image_dim)
        logits: Tensor = self.layers(images)
        return logits
