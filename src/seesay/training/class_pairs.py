"""Class pairs: artificial images with the name of a class as sentence.

A regression of a classifier's features on its logits shows how features change with a class. The features of
a photograph, moved in this direction, become an image of the class, and teach a matcher a thousand names,
most of which do not occur in the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seesay.encoders.sentences.class_names import CLASSES
from seesay.losses.base import Batch
from seesay.runs.sentences import PreparedSentences

WEIGHT = 0.3  # of one of these pairs in the loss, beside 1 of a sentence with its photograph

_RISE = 8.0  # of a class's logit in an image that is wholly of that class
_SHARES = 0.6, 1.2  # of that rise, drawn for each image
_LEAST_VARIANCE = 1e-6
_STREAM = 1  # of random numbers, beside the sampler's


@dataclass(frozen=True)
class _Classifier:
    """The columns of an encoder's features and logits, and the change of features by class, (1000, width)."""

    pooled: slice
    logits: slice
    changes: Tensor


class ClassPairs:
    """Draws artificial images of classes, made from photographs, with phrases that name these classes.

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
        self.phrases, self.count = phrases, count
        self.begin_epoch(0, 0)
        order = np.argsort(class_of_phrase, kind="stable")
        self._phrases_of = np.split(order, np.cumsum(np.bincount(class_of_phrase, minlength=CLASSES))[:-1])
        ends = np.cumsum([0, *image_dims])
        spans = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
        self._classifiers = [
            _Classifier(pooled, logits, _changes(features[:, pooled], features[:, logits]))
            for pooled, logits in zip(spans[::2], spans[1::2], strict=True)
        ]

    def begin_epoch(self, seed: int, epoch: int) -> None:
        """Restart the random numbers from the run's seed and the epoch."""
        self._draw = np.random.default_rng([seed, epoch, _STREAM])

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
            # What the photograph shows goes, and the class comes. No feature behind a ReLU is below 0.
            moved = images[:, each.pooled] + rise * changes[numbers] - shown @ changes
            images[:, each.pooled] = moved.clamp(min=0)
            images[:, each.logits] = 0
        return Batch(images, self.phrases.take(phrases).to_tensors(str(device)), numbers)


def _changes(pooled: NDArray[np.float32], logits: NDArray[np.float32]) -> Tensor:
    """Compute how features (n, d) change if the logit (n, 1000) of a class rises by `_RISE`, (1000, d)."""
    # A softmax knows logits only up to a constant of each image.
    logits = logits - logits.mean(axis=1, keepdims=True)
    logits -= logits.mean(axis=0)
    covariance = logits.T @ (pooled - pooled.mean(axis=0)) / len(pooled)
    variance = np.square(logits).mean(axis=0).clip(_LEAST_VARIANCE)
    return torch.from_numpy(_RISE * covariance / variance[:, None])
