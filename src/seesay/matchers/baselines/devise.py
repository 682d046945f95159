"""DeViSE (Frome, Corrado, Shlens, Bengio, Dean, Ranzato, Mikolov 2013): images in the space of word vectors.

    loss(image, text) = Σ_{j ≠ text} max[0, margin - t_text M v + t_j M v]

v is the output of a frozen CNN for the image, t is a word vector of unit length, and only the matrix M is
learned. As in the papers on matching, a sentence is the mean of its word vectors. Choices where the paper
leaves details open:

* With a sentence as the query, the products would rank images by the length of M v, too, so scores are
  cosines. Training uses the products, as printed; for an image, both rank sentences in the same order.
* v has unit length.
* The sentence encoder `mean` subtracts the mean over the train split, so that t is centred.
"""

from __future__ import annotations

from pydantic import PositiveInt
from torch import Tensor, nn

from seesay.matchers.base import EmbeddingMatcher, check_images
from seesay.matchers.layers import unit_vectors
from seesay.matchers.sentences import SentencesLike, read_vectors
from seesay.matchers.settings import register_matcher


@register_matcher("devise")
class DeViSE(EmbeddingMatcher):
    """A linear map of images into the space of sentence vectors; the score is the cosine of M v and t.

    Args:
        image_dim: width of the image features.
        sentence_dim: width of the sentence encoder's vectors.

    Example:
        >>> import torch
        >>> from seesay.matchers import DeViSE
        >>> matcher = DeViSE(image_dim=6, sentence_dim=8)
        >>> sentences = torch.rand(2, 8)  # vectors of a sentence encoder
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    reads_words, reads_vectors = False, True

    def __init__(self, image_dim: PositiveInt, sentence_dim: PositiveInt) -> None:
        super().__init__()
        self.image_map = nn.Linear(image_dim, sentence_dim, bias=False)

    def training_scores(self, images: Tensor, sentences: SentencesLike) -> list[Tensor]:
        """Return the products t M v, (n, m)."""
        return [self._project(images) @ self.embed_sentences(sentences).T]

    def embed_images(self, images: Tensor) -> Tensor:
        """Return M v scaled to unit length, (n, sentence_dim)."""
        return unit_vectors(self._project(images))

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return t, (m, sentence_dim)."""
        return unit_vectors(read_vectors(sentences, self.image_map.out_features, self.image_map.weight))

    def _project(self, images: Tensor) -> Tensor:
        check_images(images, self.image_map.in_features, self.image_map.weight)
        projected: Tensor = self.image_map(unit_vectors(images))
        return projected
