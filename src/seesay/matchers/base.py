"""The interface of matchers, which score images against sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.sentences import SentencesLike, check_dtype

_FAR = 1 << 28  # bytes of activations that keep a GPU busy


class Pretrained(Protocol):
    """Pretrained vectors for the words of a run's vocabulary, which training provides to `prepare`."""

    def word_vectors(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return vectors (V - 1, d) of all words but the unknown one, and which are known (V - 1,)."""
        ...

    def class_vectors(self) -> NDArray[np.float32]:
        """Return vectors (1000, 384) of the ImageNet classes."""
        ...


class Matcher(nn.Module):
    """Scores images against sentences.

    Attributes:
        reads_words: whether it reads the words of sentences, or a static method that returns this for its
            settings.
        reads_vectors: whether it requires the vectors of a sentence encoder, or such a method.
        tunable: True if an image encoder can be fine-tuned together with it.

    Example:
        >>> import torch
        >>> from seesay.matchers import Matcher
        >>> class ConstantMatcher(Matcher):
        ...     def forward(self, images, sentences):
        ...         return torch.zeros(len(images), len(sentences))
        >>> ConstantMatcher()(torch.rand(2, 6), torch.rand(3, 8)).shape
        torch.Size([2, 3])
    """

    reads_words: ClassVar[bool | Callable[..., bool]] = True
    reads_vectors: ClassVar[bool | Callable[..., bool]] = False
    tunable: ClassVar[bool] = False

    def forward(self, images: Tensor, sentences: SentencesLike) -> Tensor:
        """Return the score matrix (n, m); higher is a better match.

        Args:
            images: features, (n, d).
            sentences: m `Sentences`, padded word numbers (m, t) with lengths (m,), or vectors (m, d).
        """
        raise NotImplementedError

    def prepare(self, pretrained: Pretrained) -> None:
        """Initialise weights that are not random, such as word vectors; called once, before training."""

    def training_scores(self, images: Tensor, sentences: SentencesLike) -> list[Tensor]:
        """Return the score matrices that a loss sees: one, or one for each member of an ensemble."""
        return [self(images, sentences)]

    def metrics(self, images: Tensor, sentences: SentencesLike) -> dict[str, float]:  # noqa: ARG002
        """Return metrics of matching val pairs that show how training proceeds, for its history.

        Args:
            images: features, (n, d).
            sentences: n of them.
        """
        return {}


class EmbeddingMatcher(Matcher):
    """A matcher whose score is the inner product of two vectors, so that it can be indexed.

    Attributes:
        asymmetric: True if queries and gallery items are embedded differently; then `forward` returns the
            inner products of gallery vectors.

    Example:
        >>> import torch
        >>> from seesay.matchers import EmbeddingMatcher
        >>> class Linear(EmbeddingMatcher):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.images, self.sentences = torch.nn.Linear(6, 4), torch.nn.Linear(8, 4)
        ...     def embed_images(self, images):
        ...         return self.images(images)
        ...     def embed_sentences(self, sentences):
        ...         return self.sentences(sentences)
        >>> Linear()(torch.rand(2, 6), torch.rand(3, 8)).shape
        torch.Size([2, 3])
    """

    asymmetric: bool = False

    def embed_images(self, images: Tensor) -> Tensor:
        """Return image vectors, (n, d)."""
        raise NotImplementedError

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return sentence vectors, (m, d)."""
        raise NotImplementedError

    def query_images(self, images: Tensor) -> Tensor:
        """Return vectors of images as queries for sentences, (n, d)."""
        return self.embed_images(images)

    def query_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return vectors of sentences as queries for images, (m, d)."""
        return self.embed_sentences(sentences)

    def forward(self, images: Tensor, sentences: SentencesLike) -> Tensor:
        """Return the inner products (n, m): cosines, where embeddings have unit length.

        They are in single precision even under autocast, because half precision would tie scores.
        """
        rows, columns = self.embed_images(images), self.embed_sentences(sentences)
        if not torch.is_autocast_enabled(rows.device.type):
            return rows @ columns.T
        with torch.autocast(rows.device.type, enabled=False):
            return rows.float() @ columns.float().T


class PairMatcher(Matcher):
    """A matcher that scores every pair separately. Each image and sentence is encoded only once.

    Attributes:
        cache_bytes: bytes of activations that are computed at a time on a CPU, to fit into a core's cache.

    Example:
        >>> import torch
        >>> from seesay.matchers import PairMatcher
        >>> class Distance(PairMatcher):
        ...     def encode_images(self, images):
        ...         return images
        ...     def encode_sentences(self, sentences):
        ...         return sentences
        ...     def score_pairs(self, images, sentences):
        ...         return -(images - sentences).norm(dim=1)
        >>> Distance()(torch.zeros(2, 3), torch.ones(1, 3))
        tensor([[-1.7321],
                [-1.7321]])
    """

    cache_bytes: int = 1 << 20

    def encode_images(self, images: Tensor) -> Tensor:
        """Encode images for `score_pairs`, n rows."""
        raise NotImplementedError

    def encode_sentences(self, sentences: SentencesLike) -> Tensor:
        """Encode sentences for `score_pairs`, m rows."""
        raise NotImplementedError

    def score_encoded(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the score matrix (n, m) of encoded images and sentences, a few sentences at a time."""
        n = len(images)
        scores = self.empty_scores(images, sentences)
        if not scores.numel():
            return scores.T
        few = max(self.pairs_at_once(sentences[:1]) // n, 1)
        for rows in torch.split(torch.arange(len(sentences), device=sentences.device), few):
            beside = images.repeat(len(rows), *[1] * (images.ndim - 1))
            scores[rows] = self.score_pairs(beside, sentences[rows].repeat_interleave(n, 0)).view(-1, n)
        return scores.T

    def pairs_at_once(self, activations: Tensor) -> int:
        """Return how many pairs to compute at once, given one pair's largest activations."""
        kind = activations.device.type
        mixed = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        # Under autocast, layers compute in half precision, whatever the type of `activations`.
        size = torch.get_autocast_dtype(kind).itemsize if mixed else activations.element_size()
        budget = self.cache_bytes if kind == "cpu" else _FAR
        return max(budget // max(activations.numel() * size, 1), 1)

    def empty_scores(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return an uninitialised matrix (m, n) for scores; many small ones would fragment the memory."""
        return next(self.parameters(), images).new_empty(len(sentences), len(images))

    def score_pairs(self, images: Tensor, sentences: Tensor) -> Tensor:
        """Return the scores (n,) of n encoded images, each with one of n encoded sentences."""
        raise NotImplementedError

    def forward(self, images: Tensor, sentences: SentencesLike) -> Tensor:
        """Return the score matrix (n, m)."""
        return self.score_encoded(self.encode_images(images), self.encode_sentences(sentences))


def check_images(images: Tensor, dim: int, like: Tensor | None = None) -> None:
    """Raise `SeesayError` unless images are float features (n, dim), of the type of `like`."""
    if not isinstance(images, Tensor):
        raise SeesayError(f"images: expected a torch.Tensor, got {type(images).__name__}.")
    if images.ndim != 2 or images.shape[1] != dim:
        raise SeesayError(f"images: expected features of shape (n, {dim}), got {tuple(images.shape)}.")
    if not images.is_floating_point():
        raise SeesayError(f"images: expected features of a float type, got {images.dtype}.")
    check_dtype("images", images, like)
