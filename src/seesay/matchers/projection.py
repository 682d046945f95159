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

import torch
from torch import Tensor, nn
from torch.nn import functional

from seesay.encoders.sentences.minilm import CLASSES, class_vectors
from seesay.matchers.base import EmbeddingMatcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.matchers import ProjectionSettings
from seesay.text.vocabulary import Vocabulary


class Member(nn.Module):
    """One pair of maps into R^dim."""

    def __init__(self, settings: ProjectionSettings, image_dim: int, words: int, sentence_dim: int) -> None:
        super().__init__()
        self.image_map = nn.Sequential(nn.Dropout(settings.image_dropout), nn.Linear(image_dim, settings.dim))
        self.words = nn.EmbeddingBag(words, settings.word_dim, mode="mean")
        self.sentence_map = nn.Sequential(
            nn.Dropout(settings.sentence_dropout),
            nn.Linear(sentence_dim + settings.word_dim, settings.hidden),
            nn.ReLU(),
            nn.Dropout(settings.hidden_dropout),
            nn.Linear(settings.hidden, settings.dim),
        )

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit vectors (n, dim)."""
        return functional.normalize(self.image_map(images), dim=1)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors (m, dim)."""
        starts = sentences.lengths.cumsum(0) - sentences.lengths
        # Scaled so that a component of the unit sentence vector is about as large as a word's.
        vectors = sentences.vectors * math.sqrt(sentences.vectors.shape[1])
        joined = torch.cat([vectors, self.words(sentences.words, starts)], dim=1)
        return functional.normalize(self.sentence_map(joined), dim=1)


class Projection(EmbeddingMatcher):
    """An ensemble of members and the class names' part.

    Args:
        settings: of the recipe; `class_names` is the weight of that part, 0 without it.
        image_parts: widths of the joined arrays. The pooled features feed the members, each
            brought to one length; the class logits feed the class names' part alone.
    """

    def __init__(
        self, settings: ProjectionSettings, image_parts: Sequence[int], words: int, sentence_dim: int
    ) -> None:
        super().__init__()
        self.image_parts = list(image_parts)
        self.class_weight = settings.class_names
        learned = sum(width for width in image_parts if width != CLASSES)
        self.members = nn.ModuleList(
            Member(settings, learned, words, sentence_dim) for _ in range(settings.members)
        )
        if self.class_weight:
            self.register_buffer("classes", torch.zeros(CLASSES, sentence_dim))

    def prepare(self, vocabulary: Vocabulary) -> None:  # noqa: ARG002
        """Compute the class names' vectors; a saved run carries them."""
        if self.class_weight:
            self.get_buffer("classes").copy_(torch.from_numpy(class_vectors()))

    def training_scores(self, images: Tensor, sentences: Sentences) -> list[Tensor]:
        """Each member's own score matrix: members learn by themselves, so that their errors differ."""
        pooled = self._pooled(images)
        return [m.embed_images(pooled) @ m.embed_sentences(sentences).T for m in self._members()]

    def embed_images(self, images: Tensor) -> Tensor:
        """Unit vectors, (n, members·dim + 384)."""
        pooled = self._pooled(images)
        parts = [member.embed_images(pooled) for member in self._members()]
        return self._joined(parts, self._class_images(images) if self.class_weight else None)

    def embed_sentences(self, sentences: Sentences) -> Tensor:
        """Unit vectors, (m, members·dim + 384)."""
        parts = [member.embed_sentences(sentences) for member in self._members()]
        return self._joined(parts, sentences.vectors if self.class_weight else None)

    def _members(self) -> list[Member]:
        return [member for member in self.members if isinstance(member, Member)]

    def _pooled(self, images: Tensor) -> Tensor:
        parts = [p for p in torch.split(images, self.image_parts, dim=1) if p.shape[1] != CLASSES]
        joined = torch.cat([functional.normalize(part, dim=1) for part in parts], dim=1)
        return joined * math.sqrt(joined.shape[1] / len(parts))

    def _class_images(self, images: Tensor) -> Tensor:
        logits = [p for p in torch.split(images, self.image_parts, dim=1) if p.shape[1] == CLASSES]
        chances = torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0)
        classes = self.get_buffer("classes")
        return functional.normalize(chances @ classes, dim=1)

    def _joined(self, parts: list[Tensor], classes: Tensor | None) -> Tensor:
        share = math.sqrt((1 - self.class_weight) / len(parts))
        joined = [part * share for part in parts]
        if classes is not None:
            joined.append(classes * math.sqrt(self.class_weight))
        return torch.cat(joined, dim=1)
