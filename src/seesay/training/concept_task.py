"""Concept prediction as a training task: the multi-label CNN of SCO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.data.corpus import Corpus
from seesay.errors import SeesayError
from seesay.losses.base import Batch, Loss
from seesay.matchers.sentences import Sentences
from seesay.protocols.base import Result
from seesay.protocols.evaluate import measure_inputs
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import SplitSize
from seesay.text.concepts import concept_targets
from seesay.text.vocabulary import Vocabulary


@dataclass
class ConceptTask:
    """Images and which of K concepts their sentences name: `targets`, (n, K)."""

    recipe: Recipe
    loss: Loss
    data: Inputs
    val: Inputs
    targets: Tensor

    @classmethod
    def from_corpus(cls, recipe: Recipe, corpus: Corpus, vocabulary: Vocabulary) -> ConceptTask:
        """Make the task of a corpus, whose vocabulary is its concepts; missing features are encoded first."""
        train, val = (split_inputs(recipe, corpus, split, vocabulary) for split in ("train", "val"))
        targets = torch.from_numpy(concept_targets(vocabulary.words, train.corpus))
        return cls(recipe, recipe.loss.build(), train, val, targets)

    @property
    def image_dims(self) -> tuple[int, ...]:
        """Widths of the arrays that the image features are joined from."""
        return self.data.image_dims

    def batches(self, epoch: int) -> Sequence[NDArray[np.int64]]:
        """Return the mini-batches of an epoch: positions of images, each once."""
        shuffled = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(self.data.features))
        size = self.recipe.batch_size
        return [shuffled[i : i + size] for i in range(0, len(shuffled), size)]

    def losses(self, classifier: nn.Module, batch: NDArray[np.int64], device: str) -> list[Tensor]:
        """Return the loss of a mini-batch."""
        return self.losses_of(
            classifier, torch.from_numpy(self.data.features[batch]).to(device), batch, device
        )

    def losses_of(
        self, classifier: nn.Module, features: Tensor, batch: NDArray[np.int64], device: str
    ) -> list[Tensor]:
        """Return the same from the images' features, (n, d)."""
        targets = self.targets[batch].to(device)
        image_ids = torch.from_numpy(batch).to(device)
        return self.loss.batch_losses(classifier, Batch(features, None, image_ids, targets=targets))

    def pairs(self) -> Iterator[tuple[Tensor, Sentences]]:
        """Raise an error: what is solved in closed form takes sentences."""
        raise SeesayError(f"Recipe '{self.recipe.name}': concepts are not learned in closed form.")

    def measure(self, run: Run) -> Result:
        """Measure the val split."""
        return measure_inputs(run, self.val, "val")

    def figures(self, run: Run) -> dict[str, float]:
        """Return nothing: there are no further figures."""
        del run
        return {}

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        train, val = (
            SplitSize(images=len(part.features), sentences=len(part.sentences))
            for part in (self.data, self.val)
        )
        without = int((~self.targets.any(dim=1)).sum())
        return train.model_copy(update={"images_without_concepts": without}), val

    def broken_images(self) -> tuple[str, ...]:
        """Return the images that cannot be decoded, and why."""
        return tuple(str(error) for error in (*self.data.broken, *self.val.broken))
