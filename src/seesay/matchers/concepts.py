"""The multi-label CNN of SCO as what a recipe trains: image features to concept scores (section 3.2)."""

from __future__ import annotations

from torch import Tensor

from seesay.encoders.images.concepts import ConceptHead
from seesay.errors import SeesayError
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import ConceptSettings


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
