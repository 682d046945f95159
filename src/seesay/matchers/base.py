"""The one interface: matchers score images against sentences.

Everything downstream (evaluation, search, web) speaks only this.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.sentences import Sentences
from seesay.text.vocabulary import Vocabulary

_NEAR, _FAR = 1 << 20, 1 << 28  # bytes: what stays in a core's cache; what keeps a GPU busy


class Matcher(nn.Module):
    """Scores images against sentences; images are features (n, d)."""

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """The score matrix (n_images, n_sentences); higher is a better match."""
        raise NotImplementedError

    def prepare(self, vocabulary: Vocabulary) -> None:
        """Fill in what training does not start from chance; called once, before it."""

    def training_scores(self, images: Tensor, sentences: Sentences) -> list[Tensor]:
        """The score matrices that the loss sees: one, or one for each member of an ensemble."""
        return [self.score(images, sentences)]


class EmbeddingMatcher(Matcher):
    """A matcher whose score is the inner product of two vectors, so that it can be indexed.

    Attributes:
        asks: whether an image or a sentence has another vector where it asks than where it is found; then
            the score depends on which of them asks, and `score` is that of the vectors of what is found.
    """

    asks = False

    def embed_images(self, images: Tensor) -> Tensor:
        """Image vectors, (n, d)."""
        raise NotImplementedError

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Sentence vectors, (m, d)."""
        raise NotImplementedError

    def query_images(self, images: Tensor) -> Tensor:
        """Vectors of images that ask for sentences, (n, d)."""
        return self.embed_images(images)

    def query_sentences(self, sentences: Sentences) -> Tensor:
        """Vectors of sentences that ask for images, (m, d)."""
        return self.embed_sentences(sentences)

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
        """The score matrix (n, m) of encoded images and sentences, a few sentences' pairs at a time.

        However many pairs there are, little more is in memory than their scores and `n` pairs' activations.
        """
        n = len(images)
        scores = self.empty_scores(images, sentences)
        if not scores.numel():
            return scores.T
        few = max(pairs_at_once(sentences[:1]) // n, 1)
        for rows in torch.split(torch.arange(len(sentences), device=sentences.device), few):
            beside = images.repeat(len(rows), *[1] * (images.ndim - 1))
            scores[rows] = self.score_pairs(beside, sentences[rows].repeat_interleave(n, 0)).view(-1, n)
        return scores.T

    def empty_scores(self, images: Tensor, sentences: Tensor) -> Tensor:
        """A matrix (m, n) to write the scores of few sentences at a time to.

        Were these kept one by one, each would take a place amid the freed activations of the last, and
        the next activations would need new memory (m-CNN's sentence level was several times slower so).
        """
        return next(self.parameters(), images).new_empty(len(sentences), len(images))

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Scores (n,) of encoded images and sentences that stand side by side."""
        raise NotImplementedError

    def score(self, images: Tensor, sentences: Sentences) -> Tensor:
        """The score matrix (n, m)."""
        return self.score_encoded(self.encode_images(images), self.encode_sentences(sentences))


class ScoreLayer(nn.Linear):
    """A network's last layer, to one score: (…, width) to (…, 1), in single precision under autocast too.

    Half precision knows some thousand numbers around a score, so that different pairs would tie.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """The scores."""
        with torch.autocast(inputs.device.type, enabled=False):
            return functional.linear(inputs.to(self.weight.dtype), self.weight, self.bias)


def pairs_at_once(activations: Tensor) -> int:
    """How many pairs to compute at once, given one pair's largest activations.

    On a CPU so many that they stay in a core's cache, which made the similarity network half as fast
    again; on a GPU so many that it is busy.
    """
    budget = _NEAR if activations.device.type == "cpu" else _FAR
    return max(budget // max(activations.numel() * activations.element_size(), 1), 1)
