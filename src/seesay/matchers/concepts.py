"""The multi-label CNN of SCO as what a recipe trains: image features to concept scores (section 3.2)."""

from __future__ import annotations

from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import ConceptSettings


class ConceptHead(nn.Module):
    """The output layer of the multi-label CNN: features (n, d) to K logits, sigmoid not yet applied.

    `hidden` is the width of a layer before it, with ReLU; 0 is none (the paper tunes the network instead).
    """

    def __init__(self, image_dim: int, concepts: int, hidden: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(image_dim, hidden), nn.ReLU()] if hidden else []
        layers += [nn.Dropout(dropout), nn.Linear(hidden or image_dim, concepts)]
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Compute the logits, (n, K)."""
        logits: Tensor = self.layers(features)
        return logits


class ConceptPredictor(Matcher):
    """Which concepts an image shows. It matches no sentences: the matchers that do take it as an encoder."""

    def __init__(self, settings: ConceptSettings, image_dim: int, concepts: int) -> None:
        super().__init__()
        self.head = ConceptHead(image_dim, concepts, settings.hidden, settings.dropout)

    def logits(self, images: Tensor) -> Tensor:
        """A logit a concept, (n, K); its sigmoid is the score."""
        found: Tensor = self.head(images)
        return found

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """None.

        Raises:
            SeesayError: always.
        """
        del images, sentences
        raise SeesayError(
            "A run of concepts matches no sentences; name it as an encoder (concepts:RUN) in one that does."
        )
