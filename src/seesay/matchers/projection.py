"""Projection: packaged vectors of both sides, mapped into one space. The matcher of `seesay-small`.

Each member of the ensemble maps the joined image features linearly, and the sentence vector,
joined with a learned mean of word vectors, through a perceptron. Beside the members stands a part
that is not learned (after ConSE, Norouzi et al. 2014): the class names' sentence vectors, averaged
by the encoders' class probabilities, against the sentence's own vector. It knows things that the
training images never showed. All parts' cosines are averaged; that is itself an inner product:
that of their weighted vectors laid end to end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from seesay.errors import check_whole
from seesay.matchers.base import EmbeddingMatcher, Pretrained, check_images
from seesay.matchers.sentences import Sentences, SentencesLike, check_vocabulary, read_vectors, read_words
from seesay.matchers.settings import MatcherSettings, register_matcher

CLASSES = 1000  # of ImageNet: the width of the arrays that hold class logits


class ProjectionSettings(MatcherSettings):
    """Settings of `Projection`."""

    kind: Literal["projection"] = "projection"
    dim: int = Field(512, gt=0)
    hidden: int = Field(1024, gt=0)
    word_dim: int = Field(300, ge=0)
    members: int = Field(1, gt=0)
    image_dropout: float = Field(0.3, ge=0, lt=1)
    sentence_dropout: float = Field(0.1, ge=0, lt=1)
    hidden_dropout: float = Field(0.3, ge=0, lt=1)
    class_names: float = Field(0.0, ge=0, lt=1)

    @property
    def reads_vectors(self) -> bool:
        """True if class names are compared with sentence vectors."""
        return self.class_names > 0


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
        return functional.normalize(self.image_map(images), dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Return unit vectors (m, dim)."""
        starts = sentences.lengths.cumsum(0) - sentences.lengths
        # Scaled so that a component of the unit sentence vector is about as large as a word's.
        vectors = sentences.vectors * math.sqrt(sentences.vectors.shape[1])
        joined = torch.cat([vectors, self.words(sentences.words, starts)], dim=1)
        return functional.normalize(self.sentence_map(joined), dim=1)


@register_matcher(ProjectionSettings)
class Projection(EmbeddingMatcher):
    """An ensemble of perceptrons over packaged vectors, and the class names' part.

    Args:
        image_dims: widths of the joined arrays. The pooled features feed the members, each brought to one
            length; arrays of 1,000 class logits feed the class names' part alone.
        vocabulary_size: rows of the word embeddings.
        sentence_dim: width of the sentence encoder's vectors.
        dim: width of a member's embeddings.
        hidden: width of a member's hidden layer.
        word_dim: width of its word embedding.
        members: how many are averaged.
        image_dropout: on the image features.
        sentence_dropout: on the sentence's vectors.
        hidden_dropout: on the hidden layer.
        class_names: weight of the class names' part; 0 for none.

    Example:
        >>> import torch
        >>> from seesay.matchers import Projection, Sentences
        >>> matcher = Projection(image_dims=(6,), vocabulary_size=10, sentence_dim=8, dim=16, members=2)
        >>> ids, lengths, vectors = torch.tensor([[5, 2], [7, 1]]), torch.tensor([2, 2]), torch.rand(2, 8)
        >>> sentences = Sentences.from_padded(ids, lengths, vectors)
        >>> matcher(torch.rand(4, 6), sentences).shape
        torch.Size([4, 2])
    """

    def __init__(
        self,
        image_dims: Sequence[int],
        vocabulary_size: int,
        sentence_dim: int,
        dim: int = 512,
        hidden: int = 1024,
        word_dim: int = 300,
        members: int = 1,
        image_dropout: float = 0.3,
        sentence_dropout: float = 0.1,
        hidden_dropout: float = 0.3,
        class_names: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole(1, image_dims=image_dims, sentence_dim=sentence_dim)
        check_whole(1, dim=dim, hidden=hidden, word_dim=word_dim, members=members)
        check_vocabulary(vocabulary_size)
        self.image_dims, self.vocabulary_size = tuple(image_dims), vocabulary_size
        self.sentence_dim = sentence_dim
        self.class_weight = class_names
        learned = sum(width for width in image_dims if width != CLASSES)
        dropouts = (image_dropout, sentence_dropout, hidden_dropout)
        self.members = nn.ModuleList(
            Member(learned, vocabulary_size, sentence_dim, dim, hidden, word_dim, dropouts)
            for _ in range(members)
        )
        if class_names:
            self.register_buffer("classes", torch.zeros(CLASSES, sentence_dim))

    def prepare(self, pretrained: Pretrained) -> None:
        """Take the class names' vectors; a saved run carries them."""
        if self.class_weight:
            self.get_buffer("classes").copy_(torch.from_numpy(pretrained.class_vectors()))

    def training_scores(self, images: Tensor, sentences: SentencesLike) -> list[Tensor]:
        """Return each member's own scores: members learn by themselves, so that their errors differ."""
        sentences, pooled = self._read(sentences), self._pooled(images)
        return [m.embed_images(pooled) @ m.embed_sentences(sentences).T for m in self._members()]

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, members·dim + sentence_dim)."""
        pooled = self._pooled(images)
        parts = [member.embed_images(pooled) for member in self._members()]
        return self._joined(parts, self._class_images(images) if self.class_weight else None)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, members·dim + sentence_dim)."""
        sentences = self._read(sentences)
        parts = [member.embed_sentences(sentences) for member in self._members()]
        return self._joined(parts, sentences.vectors if self.class_weight else None)

    def _members(self) -> list[Member]:
        return [member for member in self.members if isinstance(member, Member)]

    def _read(self, sentences: SentencesLike) -> Sentences:
        read = read_words(sentences, self.vocabulary_size)
        read_vectors(read, self.sentence_dim)
        return read

    def _pooled(self, images: Tensor) -> Tensor:
        check_images(images, sum(self.image_dims), next(self.members.parameters()))
        parts = [p for p in torch.split(images, list(self.image_dims), dim=1) if p.shape[1] != CLASSES]
        joined = torch.cat([functional.normalize(part, dim=1) for part in parts], dim=1)
        return joined * math.sqrt(joined.shape[1] / len(parts))

    def _class_images(self, images: Tensor) -> Tensor:
        logits = [p for p in torch.split(images, list(self.image_dims), dim=1) if p.shape[1] == CLASSES]
        chances = torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0)
        classes = self.get_buffer("classes")
        return functional.normalize(chances @ classes, dim=1)

    def _joined(self, parts: list[Tensor], classes: Tensor | None) -> Tensor:
        share = math.sqrt((1 - self.class_weight) / len(parts))
        joined = [part * share for part in parts]
        if classes is not None:
            joined.append(classes * math.sqrt(self.class_weight))
        return torch.cat(joined, dim=1)
