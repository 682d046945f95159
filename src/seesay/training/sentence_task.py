"""Image-sentence retrieval as a training task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.data.corpus import Corpus
from seesay.encoders.sentences.encoder import SentenceEncoder
from seesay.losses.base import Batch, Loss
from seesay.matchers.base import Matcher, PairMatcher
from seesay.matchers.sentences import Sentences
from seesay.protocols.measure import measure
from seesay.recipes.schema import Recipe
from seesay.runs.cut import count_cut
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.samplers.pairs import SAMPLERS
from seesay.text.vocabulary import Vocabulary
from seesay.training.teacher import Teacher

Positions = tuple[NDArray[np.int64], NDArray[np.int64]]
_PAIRED = 300  # val images that a pair matcher is measured on after each epoch
_BATCH = 4096


@dataclass
class SentenceTask:
    """Sentences and the whole images that they describe."""

    recipe: Recipe
    data: Inputs
    val: Inputs
    teacher: Teacher | None = None
    monitor: str = "mR"
    passed: float = 0.0  # 0 in the first epoch, 1 in the last

    @classmethod
    def of(
        cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary, encoder: SentenceEncoder | None
    ) -> SentenceTask:
        """The task of a corpus; images that lack features are encoded first."""
        train, val = (split_inputs(recipe, corpus, split, vocabulary, encoder) for split in ("train", "val"))
        name = recipe.loss.teacher_run
        return cls(recipe, train, val, None if name is None else Teacher.of(name, corpus, train))

    @property
    def image_dim(self) -> int:
        """Width of the image features."""
        return self.data.features.shape[1]

    def batches(self, epoch: int) -> Sequence[Positions]:
        """Positions of images and of their sentences."""
        recipe, owners = self.recipe, self.data.image_of_sentence
        self.passed = (epoch - 1) / max(recipe.schedule.epochs - 1, 1)
        sampler = SAMPLERS[recipe.sampler]
        batches = list(sampler(owners, recipe.batch_size, recipe.seed, epoch))
        if recipe.loss.loss_class.full_batches:
            return [each for each in batches if len(each[0]) >= recipe.batch_size] or batches
        return batches

    def losses(self, loss: Loss, matcher: nn.Module, positions: Positions, device: str) -> list[Tensor]:
        """The loss on one mini-batch, and what the matcher adds to it."""
        features = self.data.features[torch.from_numpy(positions[0])].to(device)
        batch = self.batch(features, positions, device)
        losses = loss.batch_losses(matcher, batch)
        assert isinstance(matcher, Matcher)
        extra = matcher.auxiliary_loss(batch.images, batch.sentences, self.passed)
        return losses if extra is None else [losses[0] + extra, *losses[1:]]

    def batch(self, features: Tensor, positions: Positions, device: str) -> Batch:
        """A mini-batch of those pairs, their images given as features (n, d)."""
        images, chosen = (torch.from_numpy(part) for part in positions)
        sentences = self.data.sentences.take(chosen).to(device)
        wanted = self.teacher.scores(positions, device) if self.teacher else None
        return Batch(features, sentences, images.to(device), wanted)

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Every sentence with its image."""
        for start in range(0, len(self.data.sentences), _BATCH):
            images = torch.from_numpy(self.data.image_of_sentence[start : start + _BATCH])
            chosen = torch.arange(start, start + len(images))
            yield self.data.features[images], self.data.sentences.take(chosen)

    def measure(self, run: Run) -> dict[str, Any]:
        """Recalls of the val split, both ways; a pair matcher's of its first 300 images.

        All its pairs would take longer than the epoch.
        """
        pairs = ((images.to(run.device), texts.to(run.device)) for images, texts in self.pairs())
        self.recipe.loss.build().finish_epoch(run.matcher, pairs)
        few = isinstance(run.matcher, PairMatcher)
        return measure(run, self.val.of_first_images(_PAIRED) if few else self.val, "val")

    def about(self) -> dict[str, Any]:
        """Sizes of the splits, and broken images."""
        sizes = {
            name: {"images": len(part.features), "sentences": len(part.sentences)}
            | count_cut(self.recipe.matcher, part.sentences)
            for name, part in (("train", self.data), ("val", self.val))
        }
        return sizes | {"broken_images": [str(error) for error in (*self.data.broken, *self.val.broken)]}
