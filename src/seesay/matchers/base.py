"""The one interface: matchers score images against sentences.

Everything downstream (evaluation, search, web) speaks only this.
"""

from __future__ import annotations

from torch import Tensor, nn

from seesay.text.sentences import Sentences
from seesay.text.vocabulary import Vocabulary


class Matcher(nn.Module):
    """Scores images against sentences; images are features (n, d)."""

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """The score matrix (n_images, n_sentences); higher is a better match."""
        raise NotImplementedError

    def prepare(self, vocabulary: Vocabulary) -> None:
        """Fill in what training does not start from chance; called once, before it."""

    def training_scores(self, images: Tensor, sentences: Sentences) -> list[Tensor]:
        """The score matrices that the objective sees: one, or one for each member of an ensemble."""
        return [self.score(images, sentences)]


class EmbeddingMatcher(Matcher):
    """A matcher whose score is the inner product of two vectors, so that it can be indexed."""

    def embed_images(self, images: Tensor) -> Tensor:
        """Image vectors, (n, d)."""
        raise NotImplementedError

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Sentence vectors, (m, d)."""
        raise NotImplementedError

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """Inner products; cosines, since every embedding here has unit length."""
        return self.embed_images(images) @ self.embed_sentences(sentences).T


class PairMatcher(Matcher):
    """A matcher that must look at every pair. Each side is encoded once, however many pairs there are."""

    def encode_images(self, images: Tensor) -> Tensor:
        """What pairs need of the images, n rows."""
        raise NotImplementedError

    def encode_sentences(self, sentences: Sentences) -> Tensor:
        """What pairs need of the sentences, m rows."""
        raise NotImplementedError

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """The score matrix (n, m) of encoded images and sentences."""
        raise NotImplementedError

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Scores (n,) of encoded images and sentences that stand side by side."""
        raise NotImplementedError

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """The score matrix (n, m)."""
        return self.score_encoded(self.encode_images(images), self.encode_sentences(sentences))
