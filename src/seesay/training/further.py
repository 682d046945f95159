"""Further losses, which are added to that of each mini-batch in sentence training.

`ClassPairs`    artificial images with the name of a class as sentence
`BesidePairs`   mini-batches of additional corpora

`seesay.training.noun_queries` and `seesay.training.start` define others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.class_names import CLASSES
from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss
from seesay.matchers.base import Matcher
from seesay.matchers.sentences import Sentences
from seesay.recipes.schema import BesideSettings, Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.sentences import PreparedSentences, rows_of_each


@dataclass(frozen=True)
class Step:
    """A mini-batch of n pairs, as further losses receive it.

    Attributes:
        matcher: the matcher that is trained.
        loss: of the recipe.
        images: features, (n, d).
        sentences: n of them.
        rows: of the images in the train split, (n,).
        others: the mini-batches of additional corpora that were drawn for this step.
    """

    matcher: Matcher
    loss: Loss
    images: Tensor
    sentences: Sentences
    rows: NDArray[np.int64]
    others: list[Batch] = field(default_factory=list)


class FurtherLoss(ABC):
    """A loss that is added to that of each mini-batch, with random numbers of its own.

    Args:
        stream: distinguishes its random numbers from those of the sampler and of other losses.
    """

    def __init__(self, *stream: int) -> None:
        self._stream = stream
        self.begin_epoch(0, 0)

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Restart the random numbers from the run's seed and the epoch."""
        self._draw = np.random.default_rng([seed, epoch, *self._stream])

    @abstractmethod
    def add_to(self, losses: list[Tensor], step: Step) -> list[Tensor]:
        """Return the losses of a step, one for each member of an ensemble, with this one added."""


def _weighted(losses: list[Tensor], more: list[Tensor], weight: float) -> list[Tensor]:
    """Add to each loss its weighted counterpart."""
    return [loss + weight * other for loss, other in zip(losses, more, strict=True)]


_WEIGHT = 0.3  # of a pair of a class in the loss, relative to a pair of the corpus
_RISE = 8.0  # of the logit of a class in an image that shows nothing else
_SHARES = 0.6, 1.2  # of that rise, drawn for each image
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class _Classifier:
    """The columns of an encoder's features and logits, and the change of features by class, (1000, width)."""

    pooled: slice
    logits: slice
    changes: Tensor


class ClassPairs(FurtherLoss):
    """Pairs of artificial images of classes, made from photographs, with phrases that name these classes.

    A regression of a classifier's features on its logits shows how features change with a class. The features
    of a photograph, moved in this direction, become those of an image of the class. A matcher thus learns a
    thousand names, most of which do not occur in the corpus.

    Args:
        features: of the train split, (n, d): for each encoder its pooled features, then its 1,000 logits.
        image_dims: widths of these arrays.
        phrases: p names of classes.
        class_of_phrase: the class of each phrase, (p,); every class has one.
        count: pairs in a mini-batch.
    """

    def __init__(
        self,
        features: NDArray[np.float32],
        image_dims: Sequence[int],
        phrases: PreparedSentences,
        class_of_phrase: NDArray[np.int64],
        count: int,
    ) -> None:
        super().__init__(1)
        self.phrases, self.count = phrases, count
        self._phrases_of = rows_of_each(class_of_phrase, CLASSES)
        ends = np.cumsum([0, *image_dims])
        spans = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
        self._classifiers = [
            _Classifier(pooled, logits, _changes(features[:, pooled], features[:, logits]))
            for pooled, logits in zip(spans[::2], spans[1::2], strict=True)
        ]

    def add_to(self, losses: list[Tensor], step: Step) -> list[Tensor]:
        """See `FurtherLoss`."""
        share = _WEIGHT * self.count / len(step.images)
        return _weighted(losses, step.loss.batch_losses(step.matcher, self.draw(step.images)), share)

    def draw(self, photographs: Tensor) -> Batch:
        """Return a mini-batch of images of different classes, made from photographs with features (n, d).

        Their logits are 0, because no classifier has seen them.
        """
        draw, device = self._draw, photographs.device
        classes = draw.choice(CLASSES, self.count, replace=False)
        phrases = np.array([draw.choice(self._phrases_of[number]) for number in classes])
        chosen = torch.from_numpy(draw.integers(len(photographs), size=self.count)).to(device)
        rise = torch.from_numpy(draw.uniform(*_SHARES, (self.count, 1)).astype(np.float32)).to(device)
        numbers, images = torch.from_numpy(classes).to(device), photographs[chosen]
        shown = torch.stack([images[:, each.logits].softmax(dim=1) for each in self._classifiers]).mean(dim=0)
        for each in self._classifiers:
            changes = each.changes.to(device)
            # The class replaces what the photograph shows. Features after a ReLU are not below 0.
            moved = images[:, each.pooled] + rise * changes[numbers] - shown @ changes
            images[:, each.pooled] = moved.clamp(min=0)
            images[:, each.logits] = 0
        return Batch(images, self.phrases.take(phrases).to_tensors(str(device)), numbers)


def _changes(pooled: NDArray[np.float32], logits: NDArray[np.float32]) -> Tensor:
    """Compute how features (n, d) change if the logit (n, 1000) of a class rises by `_RISE`, (1000, d)."""
    # A softmax determines the logits of an image only up to a constant.
    logits = logits - logits.mean(axis=1, keepdims=True)
    logits -= logits.mean(axis=0)
    covariance = logits.T @ (pooled - pooled.mean(axis=0)) / len(pooled)
    variance = np.square(logits).mean(axis=0).clip(_LEAST_VARIANCE)
    return torch.from_numpy(_RISE * covariance / variance[:, None])


class BesidePairs(FurtherLoss):
    """Mini-batches of an additional corpus.

    A few hundred photographs of other things are useful to learn from, but would be rare among thirty
    thousand sentences. Each additional corpus therefore has its own mini-batches, with a weight from the
    recipe. Pairs of different corpora are not negatives of each other, because their style would distinguish
    them.

    Args:
        inputs: the train split of the corpus.
        settings: the number of pairs in a mini-batch, and the weight of its loss.
        number: the number of this corpus, which selects its random numbers.
    """

    def __init__(self, inputs: Inputs, settings: BesideSettings, number: int) -> None:
        super().__init__(3, number)
        self.inputs, self.settings = inputs, settings
        self._sentences_of = rows_of_each(inputs.image_of_sentence, len(inputs.features))
        self._with_sentences = np.flatnonzero([len(each) for each in self._sentences_of])
        self._subjects = _subjects(inputs, self._sentences_of)

    def add_to(self, losses: list[Tensor], step: Step) -> list[Tensor]:
        """See `FurtherLoss`."""
        step.others.append(self.draw(str(step.images.device)))
        more = step.loss.batch_losses(step.matcher, step.others[-1])
        return _weighted(losses, more, self.settings.weight)

    def draw(self, device: str) -> Batch:
        """Return pairs of different images, each with one of its sentences.

        Images with the same first sentence, such as two photographs named "a piano", have the same number in
        `image_ids`, so that they are not negatives of each other.
        """
        count = min(self.settings.pairs, len(self._with_sentences))
        images = self._draw.choice(self._with_sentences, count, replace=False)
        sentences = np.array([self._draw.choice(self._sentences_of[image]) for image in images])
        return Batch(
            torch.from_numpy(self.inputs.features[images]).to(device),
            self.inputs.sentences.take(sentences).to_tensors(device),
            torch.from_numpy(self._subjects[images]).to(device),
        )


def check_beside(recipe: Recipe, corpus: Corpus) -> None:
    """Check that a recipe has settings for exactly the additional corpora.

    Raises:
        SeesayError: it does not.
    """
    wanted, given = recipe.beside, [each.name for each in corpus.beside]
    if repeated := next((name for name in given if given.count(name) > 1), None):
        raise SeesayError(f"Two corpora are named {repeated}; rename one of the folders.")
    if unknown := next((name for name in given if name not in wanted), None):
        raise SeesayError(
            f"Recipe '{recipe.name}' has no settings for the additional corpus {unknown}; set "
            f"beside.{unknown}={{pairs: 100, weight: 0.3}}."
        )
    if missing := ", ".join(name for name in wanted if name not in given):
        raise SeesayError(
            f"Recipe '{recipe.name}' also learns from {missing}; name each with a --data of its own after "
            "the first corpus, or leave them out with beside={}."
        )


def _subjects(inputs: Inputs, sentences_of: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Number images by their first sentence, (n,)."""
    texts = inputs.corpus.texts()
    first = [texts[own[0]] if len(own) else "" for own in sentences_of]
    return np.unique(first, return_inverse=True)[1].reshape(-1).astype(np.int64)
