"""Projection: packaged vectors of both sides, mapped into one space. The matcher of `seesay-small`.

Each member of the ensemble maps the joined image features linearly, and the sentence vector,
joined with a learned mean of word vectors, through a perceptron. Beside the members stands class
evidence, which is not learned. A sentence decides by itself how much that counts. The score is the
inner product of all parts' weighted vectors, laid end to end.

Class evidence is what a classifier sees in an image, against the classes that a sentence may mean. It is
after ConSE (Norouzi et al. 2014), turned round: there an image becomes a mixture of the class names'
vectors; here a sentence becomes a mixture of classes, so that "kitten" means the cats and no other animal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from seesay.matchers.base import EmbeddingMatcher, Pretrained, check_images
from seesay.matchers.layers import mean_words
from seesay.matchers.sentences import Sentences, SentencesLike, read_vectors, read_words
from seesay.matchers.settings import register_matcher
from seesay.settings import Dropout, NonNegative

CLASSES = 1000  # of ImageNet: the width of the arrays that hold class logits

_SHARPNESS = 10.0  # of the softmax over classes: near to 0 all classes are meant, far above one alone
_TRUST = 0.5  # power of the mixture's length: how much more a name of a class is trusted than a long sentence
_OF_NAMES = 3.0
"""Power by which sentences of more words get less class evidence: that of one word counts twice, that of two
an eighth more. Chosen on photographs of everyday things, so that captions lose nothing."""


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
        # Scaled so that a component of the unit sentence vector is about as large as a word's.
        vectors = sentences.vectors * math.sqrt(sentences.vectors.shape[1])
        joined = torch.cat([vectors, mean_words(self.words, sentences)], dim=1)
        return functional.normalize(self.sentence_map(joined), dim=1)


class ClassEvidence(nn.Module):
    """Images and sentences as vectors of class shares, (…, 1000). Nothing in it is learned.

    Args:
        sentence_dim: width of the sentence encoder's vectors.
        weight: weight beside other scores if a sentence means a single class.
    """

    def __init__(self, sentence_dim: int, weight: float) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("classes", torch.zeros(CLASSES, sentence_dim))
        self.register_buffer("class_mean", torch.zeros(sentence_dim))

    def prepare(self, vectors: Tensor) -> None:
        """Take the classes' unit vectors, (1000, sentence_dim); a saved run carries them."""
        mean = vectors.mean(dim=0)
        self.get_buffer("class_mean").copy_(mean)
        self.get_buffer("classes").copy_(functional.normalize(vectors - mean, dim=1))

    def embed_images(self, logits: list[Tensor]) -> Tensor:
        """Return unit vectors (n, 1000): roots of the probabilities, averaged over the classifiers."""
        return torch.stack([each.softmax(dim=1) for each in logits]).mean(dim=0).sqrt()

    def embed_sentences(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return unit vectors (m, 1000), and the weight (m, 1) of each beside other scores.

        A sentence that means no class in particular is a flat mixture: it gets little weight.
        """
        near = functional.normalize(vectors - self.get_buffer("class_mean"), dim=1)
        shares = (_SHARPNESS * (near @ self.get_buffer("classes").T)).softmax(dim=1)
        lengths = shares.norm(dim=1, keepdim=True)
        return shares / lengths, self.weight * lengths**_TRUST


@register_matcher("projection")
class Projection(EmbeddingMatcher):
    """An ensemble of perceptrons over packaged vectors, and class evidence.

    Args:
        image_dims: widths of the joined arrays. The pooled features feed the members, each brought to one
            length; arrays of 1,000 class logits feed the class evidence alone.
        vocabulary_size: rows of the word embeddings.
        sentence_dim: width of the sentence encoder's vectors.
        dim: width of a member's embeddings.
        hidden: width of a member's hidden layer.
        word_dim: width of its word embedding.
        members: how many are averaged.
        image_dropout: on the image features.
        sentence_dropout: on the sentence's vectors.
        hidden_dropout: on the hidden layer.
        class_names: weight of class evidence for a sentence that means one class and nothing else, beside 1
            for the members; other sentences have less. 0 for none.

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

    @staticmethod
    def reads_vectors(settings: Any) -> bool:
        """Return whether there is class evidence, which compares sentence vectors with those of classes."""
        return bool(settings.class_names > 0)

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
        super().__init__()
        self.image_dims, self.vocabulary_size = tuple(image_dims), vocabulary_size
        self.sentence_dim = sentence_dim
        learned = sum(width for width in image_dims if width != CLASSES)
        dropouts = (image_dropout, sentence_dropout, hidden_dropout)
        self.members = nn.ModuleList(
            Member(learned, vocabulary_size, sentence_dim, dim, hidden, word_dim, dropouts)
            for _ in range(members)
        )
        self.evidence = ClassEvidence(sentence_dim, class_names) if class_names else None

    def prepare(self, pretrained: Pretrained) -> None:
        """Take the classes' vectors; a saved run carries them."""
        if self.evidence is not None:
            self.evidence.prepare(torch.from_numpy(pretrained.class_vectors()))

    def training_scores(self, images: Tensor, sentences: SentencesLike) -> list[Tensor]:
        """Return each member's own scores, and class evidence added to them.

        Members learn by themselves, so that their errors differ, and they learn what the evidence does not
        tell. There is none about images whose logits are all 0.
        """
        sentences, pooled = self._read(sentences), self._pooled(images)
        scores = [m.embed_images(pooled) @ m.embed_sentences(sentences).T for m in self._members()]
        if self.evidence is None:
            return scores
        logits = self._logits(images)
        seen = torch.cat(logits, dim=1).any(dim=1, keepdim=True)
        classes, weights = self.evidence.embed_sentences(sentences.vectors)
        evidence = seen * (self.evidence.embed_images(logits) @ (classes * weights).T)
        return [each + evidence for each in scores]

    def embed_images(self, images: Tensor) -> Tensor:
        """Return unit vectors, (n, members·dim), or with class evidence (n, members·dim + 1000)."""
        pooled = self._pooled(images)
        members = self._mean([member.embed_images(pooled) for member in self._members()])
        if self.evidence is None:
            return members
        return torch.cat([members, self.evidence.embed_images(self._logits(images))], dim=1) * math.sqrt(0.5)

    def embed_sentences(self, sentences: SentencesLike) -> Tensor:
        """Return unit vectors, (m, members·dim), or with class evidence (m, members·dim + 1000)."""
        sentences = self._read(sentences)
        members = self._mean([member.embed_sentences(sentences) for member in self._members()])
        if self.evidence is None:
            return members
        classes, weights = self.evidence.embed_sentences(sentences.vectors)
        # The members learned from sentences, and tell less of a name by itself than the classes do.
        words = sentences.lengths.clamp(min=1)[:, None].to(weights.dtype)
        weights = weights * (1 + words**-_OF_NAMES)
        return functional.normalize(torch.cat([members, classes * weights], dim=1), dim=1)

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

    def _logits(self, images: Tensor) -> list[Tensor]:
        return [p for p in torch.split(images, list(self.image_dims), dim=1) if p.shape[1] == CLASSES]

    @staticmethod
    def _mean(parts: list[Tensor]) -> Tensor:
        """Lay unit vectors end to end so that inner products of the result are the mean of theirs."""
        return torch.cat(parts, dim=1) * math.sqrt(1 / len(parts))
