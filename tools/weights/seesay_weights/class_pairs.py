"""Loss: pairs of artificial images of classes with the names of these classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from seesay.errors import SeesayError
from seesay.losses import Batch, register_loss
from seesay.matchers.projection import CLASSES
from seesay.runs.inputs import prepare_texts
from seesay.runs.prepare import PreparedSentences, rows_of_each
from seesay.settings import Positive
from seesay_weights.class_phrases import class_phrases
from seesay_weights.drawn import DrawnLoss

_RISE = 8.0  # of the logit of a class in an image that shows nothing else
_SHARES = 0.6, 1.2  # of that rise, drawn for each image
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class _Classifier:
    """The columns of an encoder's features and logits, and the change of features by class, (1000, width)."""

    pooled: slice
    logits: slice
    changes: Tensor


@register_loss("class-pairs")
class ClassPairs(DrawnLoss):
    """The recipe's loss of images of classes, made from photographs, with phrases that name these classes.

    A regression of a classifier's features on its logits shows how features change with a class. The features
    of a photograph, moved in this direction, become those of an image of the class. A matcher thus learns a
    thousand names, most of which do not occur in the corpus.

    Args:
        count: pairs in a mini-batch.
        weight: of a pair, relative to 1 for a pair of the corpus.
    """

    def __init__(self, count: Annotated[int, Field(gt=0, le=CLASSES)] = 250, weight: Positive = 0.3) -> None:
        super().__init__()
        self.count, self.weight = count, weight

    def begin(self, task: Any) -> None:
        """See `Loss`.

        Raises:
            SeesayError: the matcher does not read pooled features and logits.
        """
        super().begin(task)
        if task.recipe.arrays != ("pooled", "logits"):
            raise SeesayError("class-pairs: images are made with logits; set arrays: [pooled, logits].")
        phrases = class_phrases()
        named = prepare_texts(phrases.texts, task.vocabulary, task.encoder)
        self._loss = task.loss
        self.learn(np.asarray(task.data.features, np.float32), task.image_dims, named, phrases.classes)

    def learn(
        self,
        features: NDArray[np.float32],
        image_dims: Sequence[int],
        phrases: PreparedSentences,
        class_of_phrase: NDArray[np.int64],
    ) -> None:
        """Learn how the features of images change with what they show.

        Args:
            features: of the train split, (n, d): for each encoder its pooled features, then its 1,000 logits.
            image_dims: widths of these arrays.
            phrases: p names of classes.
            class_of_phrase: the class of each phrase, (p,); every class has one.
        """
        self._phrases, self._phrases_of = phrases, rows_of_each(class_of_phrase, CLASSES)
        ends = np.cumsum([0, *image_dims])
        spans = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
        self._classifiers = [
            _Classifier(pooled, logits, _changes(features[:, pooled], features[:, logits]))
            for pooled, logits in zip(spans[::2], spans[1::2], strict=True)
        ]

    def batch_losses(self, matcher: Any, batch: Batch) -> list[Tensor]:
        """See `Loss`."""
        share = self.weight * self.count / len(batch.images)
        return [share * loss for loss in self._loss.batch_losses(matcher, self.draw(batch.images))]

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
        return Batch(images, self._phrases.take(phrases).to_tensors(str(device)), numbers)


def _changes(pooled: NDArray[np.float32], logits: NDArray[np.float32]) -> Tensor:
    """Compute how features (n, d) change if the logit (n, 1000) of a class rises by `_RISE`, (1000, d)."""
    # A softmax determines the logits of an image only up to a constant.
    logits = logits - logits.mean(axis=1, keepdims=True)
    logits -= logits.mean(axis=0)
    covariance = logits.T @ (pooled - pooled.mean(axis=0)) / len(pooled)
    variance = np.square(logits).mean(axis=0).clip(_LEAST_VARIANCE)
    return torch.from_numpy(_RISE * covariance / variance[:, None])
