"""Projection: vectors of packaged encoders, mapped into one space by an ensemble of perceptrons.

Each member of the ensemble maps the joined image features linearly, and the sentence vector, joined with the
mean of learned word vectors, by a perceptron. Class evidence, which is not learned, is added; its weight
depends on the sentence. The score is the inner product of the concatenated, weighted vectors of all parts.
`JointProjection`, the matcher of `seesay-small`, has one pair of maps and fewer numbers.

Class evidence compares the classes that a classifier sees in an image with those that a sentence may mean. It
reverses ConSE (Norouzi et al. 2014), in which an image becomes a mixture of the vectors of class names: here
a sentence becomes a mixture of classes, so that "kitten" means the cats and no other animal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn

from seesay.errors import SeesayError
from seesay.matchers.base import EmbeddingMatcher, Pretrained, check_images
from seesay.matchers.layers import mean_words, unit_vectors
from seesay.matchers.sentences import Sentences, SentencesLike, read_vectors, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout, NonNegative, Positive

CLASSES = 1000  # of ImageNet: the width of the arrays that hold class logits

_SHARPNESS = 10.0  # of the softmax over classes: near 0 all classes are meant, far above it a single one
_TRUST = 0.5  # power of the mixture's length: how much more a class name is trusted than a long sentence
_OF_NAMES = 3.0
"""Power by which class evidence decreases with the number of words: one word has twice the weight, two words
have an eighth more. Chosen on photographs of everyday things, so that captions are not affected."""


class Member(nn.Module):
    """One pair of maps into R^dim; the arguments are those of `Projection`."""

    def __init__(
        self,
        image_dim: int,
        vocabulary_size: int,
        sentence_dim: int,
        dim: int,
        hidden: int,
        word_dim: int,
        dropouts: tuple[float, float, float],
    ) -> None:
        super().__init__()
        of_image, of_sentence, of_hidden = dropouts
        self.image_map = nn.Sequential(nn.Dropout(of_image), nn.Linear(image_dim, dim))
        self.words = nn.EmbeddingBag(vocabulary_size, word_dim, mode="mean")
        self.sentence_map = nn.Sequential(
            nn.Dropout(of_sentence),
            nn.Linear(sentence_dim + word_dim, hidden),
            nn.ReLU(),
            nn.Dropout(of_hidden),
            nn.Linear(hidden, dim),
        )

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors (n, dim)."""
        return unit_vectors(self.image_map(images))

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Return unit vectors (m, dim)."""
        return unit_vectors(self.sentence_map(joined_words(self.words, sentences)))


def joined_words(words: nn.EmbeddingBag, sentences: Sentences) -> Tensor:
    """Return the input of a perceptron: the vectors of sentences and the means of their words, (m, d)."""
    # Scaled so that the components of unit sentence vectors are about as large as those of words.
    vectors = sentences.vectors * math.sqrt(sentences.vectors.shape[1])
    return torch.cat([vectors, mean_words(words, sentences)], dim=1)


class ClassEvidence(nn.Module):
    """Images and sentences as vectors of class shares, (…, 1000); nothing is learned.

    If a sentence means a single class, they have this weight relative to other scores.
    """

    def __init__(self, sentence_dim: int, weight: float) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("classes", torch.zeros(CLASSES, sentence_dim))
        self.register_buffer("class_mean", torch.zeros(sentence_dim))

    def prepare(self, vectors: Tensor) -> None:
        """Set the vectors of the classes, (1000, sentence_dim), which are saved with the weights."""
        mean = vectors.mean(dim=0)
        self.get_buffer("class_mean").copy_(mean)
        self.get_buffer("classes").copy_(unit_vectors(vectors - mean))

    def embed_images(self, logits: list[Tensor]) -> Tensor:
        """Return unit vectors (n, 1000): square roots of the classifiers' mean probabilities."""
        shares = torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0)
        # The gradient of a root is infinite at 0. In half precision, the smallest numbers would add up.
        return shares.float().clamp_min(torch.finfo(torch.float32).tiny).sqrt().to(shares.dtype)

    def embed_sentences(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return unit vectors (m, 1000), and the weight (m, 1) of each relative to other scores.

        A sentence that means no particular class is a flat mixture and has little weight.
        """
        near = unit_vectors(vectors - self.get_buffer("class_mean"))
        shares = (_SHARPNESS * (near @ self.get_buffer("classes").T)).softmax(dim=1)
        lengths = shares.norm(dim=1, keepdim=True)
        return shares / lengths, self.weight * lengths**_TRUST


class _OfPackagedVectors(EmbeddingMatcher):
    """The base class of matchers of packaged vectors, which reads images, sentences and class evidence."""

    evidence: ClassEvidence | None

    def __init__(
        self, image_dims: Sequence[int], vocabulary_size: int, sentence_dim: int, class_names: float
    ) -> None:
        super().__init__()
        if class_names and CLASSES not in image_dims:
            raise SeesayError(
                f"matcher.class_names: needs logits of {CLASSES} classes; add logits to the arrays."
            )
        if all(width == CLASSES for width in image_dims):
            raise SeesayError("image_dims: expected features beside the logits; add pooled to the arrays.")
        self.image_dims, self.vocabulary_size = tuple(image_dims), vocabulary_size
        self.sentence_dim = sentence_dim
        self._pooled_dim = sum(width for width in image_dims if width != CLASSES)

    @staticmethod
    def reads_vectors(settings: Any) -> bool:
        """Return whether there is class evidence, which compares sentence vectors with those of classes."""
        return bool(settings.class_names > 0)

    def prepare(self, pretrained: Pretrained) -> None:
        """Set the vectors of the classes, which are saved with the weights."""
        if self.evidence is not None:
            self.evidence.prepare(torch.from_numpy(pretrained.class_vectors()))

    def _read(self, sentences: SentencesLike) -> Sentences:
        read = read_words(sentences, self.vocabulary_size)
        read_vectors(read, self.sentence_dim)
        return read

    def arrays(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return pooled features (n, width), each encoder's scaled to one length, and logits of classes."""
        check_images(images, sum(self.image_dims), next(self.parameters()))
        parts = torch.split(images, list(self.image_dims), dim=1)
        pooled = [unit_vectors(part) for part in parts if part.shape[1] != CLASSES]
        joined = torch.cat(pooled, dim=1)
        logits = [part for part in parts if part.shape[1] == CLASSES]
        return joined * math.sqrt(joined.shape[1] / len(pooled)), logits

    def _classes_of(self, evidence: ClassEvidence, sentences: Sentences) -> Tensor:
        """Return the classes that sentences mean, weighted, (m, 1000)."""
        classes, weights = evidence.embed_sentences(sentences.vectors)
        # The maps were learned from sentences; for a single name, class evidence is more reliable.
        words = sentences.lengths.clamp(min=1)[:, None].to(weights.dtype)
        return classes * (weights * (1 + words**-_OF_NAMES))


@register_matcher("projection")
class Projection(_OfPackagedVectors):
    """An ensemble of perceptrons over packaged vectors, and class evidence.

    Args:
        image_dims: widths of the joined arrays. Members read the pooled features, all scaled to one length;
            arrays of 1,000 class logits are only used for class evidence.
        vocabulary_size: rows of the word embeddings.
        sentence_dim: width of the sentence encoder's vectors.
        dim: width of a member's embeddings.
        hidden: width of a member's hidden layer.
        word_dim: width of its word embedding.
        members: how many are averaged.
        image_dropout: on the image features.
        sentence_dropout: on the sentence vectors.
        hidden_dropout: on the hidden layer.
        class_names: weight of class evidence for a long sentence that means a single class, relative to 1 for
            the members. Other sentences have less; after training, short ones have up to twice as much. 0 for
            none.

    Example:
        >>> import torch
        >>> from seesay.matchers import Projection, Sentences
        >>> matcher = Projection(image_dims=(6,), vocabulary_size=10, sentence_dim=8, dim=16, members=2)
        >>> ids, lengths, vectors = torch.tensor([[5, 2], [7, 1]]), torch.tensor([2, 2]), torch.rand(2, 8)
        >>> sentences = Sentences.from_padded(ids, lengths, vectors)
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    tunable = True

    def __init__(
        self,
        image_dims: Sequence[PositiveInt],
        vocabulary_size: PositiveInt,
        sentence_dim: NonNegativeInt,
        dim: PositiveInt = 512,
        hidden: PositiveInt = 1024,
        word_dim: PositiveInt = 300,
        members: PositiveInt = 1,
        image_dropout: Dropout = 0.3,
        sentence_dropout: Dropout = 0.1,
        hidden_dropout: Dropout = 0.3,
        class_names: NonNegative = 0.0,
    ) -> None:
        super().__init__(image_dims, vocabulary_size, sentence_dim, class_names)
        dropouts = (image_dropout, sentence_dropout, hidden_dropout)
        alike = (self._pooled_dim, vocabulary_size, sentence_dim, dim, hidden, word_dim, dropouts)
        self.members = cast(Sequence[Member], nn.ModuleList(Member(*alike) for _ in range(members)))
        self.evidence = ClassEvidence(sentence_dim, class_names) if class_names else None

    def training_scores(self, images: Tensor, sentences: SentencesLike) -> list[Tensor]:
        """Return the scores of each member, with class evidence added.

        Members are trained separately, so that their errors differ, and learn to complement class evidence.
        Images whose logits are all 0 have no class evidence.
        """
        sentences, (pooled, logits) = self._read(sentences), self.arrays(images)
        scores = [m.embed_images(pooled) @ m.embed_sentences(sentences).T for m in self.members]
        if self.evidence is None:
            return scores
        seen = torch.cat(logits, dim=1).any(dim=1, keepdim=True)
        classes, weights = self.evidence.embed_sentences(sentences.vectors)
        evidence = seen * (self.evidence.embed_images(logits) @ (classes * weights).T)
        return [each + evidence for each in scores]

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, members·dim), or with class evidence (n, members·dim + 1000)."""
        pooled, logits = self.arrays(images)
        members = self._mean([member.embed_images(pooled) for member in self.members])
        if self.evidence is None:
            return members
        return torch.cat([members, self.evidence.embed_images(logits)], dim=1) * math.sqrt(0.5)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, members·dim), or with class evidence (m, members·dim + 1000)."""
        sentences = self._read(sentences)
        members = self._mean([member.embed_sentences(sentences) for member in self.members])
        if self.evidence is None:
            return members
        return unit_vectors(torch.cat([members, self._classes_of(self.evidence, sentences)], dim=1))

    @staticmethod
    def _mean(parts: list[Tensor]) -> Tensor:
        """Concatenate unit vectors so that inner products of the result are the mean of theirs."""
        return torch.cat(parts, dim=1) * math.sqrt(1 / len(parts))


@register_matcher("joint-projection")
class JointProjection(_OfPackagedVectors):
    """One pair of maps whose inputs include class evidence: a compressed `Projection`, as `seesay-small` is.

    Images are mapped linearly. Sentences pass through hidden layers, each with its own word vectors, and a
    linear map of their concatenation.

    Args:
        members: the number of hidden layers.
        class_names: weight of class evidence in the input of sentences; the other arguments are those of
            `Projection`.
    """

    evidence: ClassEvidence

    def __init__(
        self,
        image_dims: Sequence[PositiveInt],
        vocabulary_size: PositiveInt,
        sentence_dim: NonNegativeInt,
        dim: PositiveInt = 512,
        hidden: PositiveInt = 1024,
        word_dim: PositiveInt = 128,
        members: PositiveInt = 3,
        image_dropout: Dropout = 0.1,
        sentence_dropout: Dropout = 0.1,
        hidden_dropout: Dropout = 0.1,
        class_names: Positive = 1.5,
    ) -> None:
        super().__init__(image_dims, vocabulary_size, sentence_dim, class_names)
        self.image_dropout = nn.Dropout(image_dropout)
        self.image_map = nn.Linear(self._pooled_dim, dim)
        self.image_classes = nn.Linear(CLASSES, dim, bias=False)
        words = (nn.EmbeddingBag(vocabulary_size, word_dim, mode="mean") for _ in range(members))
        self.words = cast(Sequence[nn.EmbeddingBag], nn.ModuleList(words))
        self.hidden = nn.ModuleList(
            nn.Sequential(nn.Dropout(sentence_dropout), nn.Linear(sentence_dim + word_dim, hidden), nn.ReLU())
            for _ in range(members)
        )
        self.hidden_dropout = nn.Dropout(hidden_dropout)
        self.sentence_map = nn.Linear(members * hidden, dim)
        self.sentence_classes = nn.Linear(CLASSES, dim, bias=False)
        self.evidence = ClassEvidence(sentence_dim, class_names)

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, dim)."""
        pooled, logits = self.arrays(images)
        seen = self.image_classes(self.evidence.embed_images(logits))
        return unit_vectors(self.image_map(self.image_dropout(pooled)) + seen)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, dim)."""
        read = self._read(sentences)
        layers = [
            layer(joined_words(words, read)) for layer, words in zip(self.hidden, self.words, strict=True)
        ]
        meant = self.sentence_classes(self._classes_of(self.evidence, read))
        joined = self.hidden_dropout(torch.cat(layers, dim=1))
        return unit_vectors(self.sentence_map(joined) + meant)
