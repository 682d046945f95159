"""The matcher of two frozen towers that were trained together; nothing is learned."""

from __future__ import annotations

from pydantic import PositiveInt
from torch import Tensor

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import unit_vectors
from seesay.matchers.sentences import SentencesLike, read_vectors
from seesay.matchers.settings import register_matcher


@register_matcher("cosine")
class Cosine(EmbeddingMatcher):
    """The cosine of an image's features and a sentence's vector, from encoders of the same space, as CLIP's.

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
        if image_dim != sentence_dim:
            raise SeesayError(
                f"sentence_dim: expected {image_dim}, the width of the image features, got {sentence_dim}; "
                "name one model in encoders and in sentence_encoder, such as "
                "{kind: open_clip, model: FOLDER}."
            )
        self.dim = image_dim

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        check_images(images, self.dim)
        return unit_vectors(images)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        return unit_vectors(read_vectors(sentences, self.dim))
