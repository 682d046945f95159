"""Concept prediction as a training task: the multi-label CNN of SCO.

A classifier is surer of the images that it was trained on than of others. A matcher that learned from such
scores would trust the concepts of new images too much. So the train images are dealt into folds, and each
fold is scored by a classifier that learned from the others, for as many epochs as were best on val.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.data.corpus import Corpus
from seesay.encoders.images.concepts import save_held_out
from seesay.losses.base import Batch, Loss
from seesay.matchers.sco import ConceptSettings
from seesay.matchers.settings import MatcherInputs
from seesay.progress import progress
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs, split_inputs
from seesay.runs.run import Run
from seesay.runs.summary import SplitSize
from seesay.text.concepts import concept_targets
from seesay.text.vocabulary import Vocabulary
from seesay.training.average import AveragedWeights
from seesay.training.steps import new_optimizer, set_rate, take_step
from seesay.training.task import Task


@dataclass
class ConceptTask(Task):
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

    def sizes(self) -> tuple[SplitSize, SplitSize]:
        """Return the sizes of the train and the val split."""
        train, val = (
            SplitSize(images=len(part.features), sentences=len(part.sentences))
            for part in (self.data, self.val)
        )
        without = int((~self.targets.any(dim=1)).sum())
        return train.model_copy(update={"images_without_concepts": without}), val


def score_held_out(task: ConceptTask, run: Run, epochs: int, folder: Path) -> None:
    """Train a classifier without each fold, and keep what they say of the images in it in the run's folder.

    Nothing is done where the recipe has no folds.

    Args:
        task: of the run.
        run: of concepts, trained.
        epochs: of each classifier.
        folder: of the run.
    """
    settings = run.recipe.matcher
    if not isinstance(settings, ConceptSettings) or not settings.folds:
        return
    count = len(task.data.features)
    fold = np.random.default_rng(run.recipe.seed).permutation(count) % settings.folds
    logits = np.zeros((count, task.targets.shape[1]), np.float32)
    with progress("Folds", settings.folds, "folds") as advance:
        for number in range(settings.folds):
            classifier = _trained(task, run, epochs, fold != number)
            mine = np.flatnonzero(fold == number)
            with torch.inference_mode():
                features = torch.from_numpy(task.data.features[mine]).to(run.device)
                logits[mine] = classifier(features).float().cpu().numpy()
            advance(1)
    save_held_out(folder, [image.name for image in task.data.corpus.images], logits)


def _trained(task: ConceptTask, run: Run, epochs: int, learned: np.ndarray) -> nn.Module:
    """A new classifier, trained on the images that `learned` (n,) marks.

    It takes the same steps as the run's own, but for the images that are left out. There is no choice of an
    epoch and nothing to resume, which is most of what `Loop` does.
    """
    recipe = run.recipe
    torch.manual_seed(recipe.seed)
    classifier = recipe.matcher.build(MatcherInputs(task.image_dims, task.targets.shape[1] + 1))
    classifier.to(run.device).train()
    optimizer = new_optimizer(recipe.optimizer, classifier.parameters())
    share = recipe.schedule.average
    average = AveragedWeights(classifier, share) if share is not None else None
    for epoch in range(1, epochs + 1):
        batches = task.batches(epoch)
        for step, some in enumerate(batches):
            if not len(batch := some[learned[some]]):
                continue
            set_rate(optimizer, recipe, (epoch - 1 + step / len(batches)) / recipe.schedule.epochs)
            loss = torch.stack(task.losses(classifier, batch, run.device)).sum()
            take_step(optimizer, loss, classifier, recipe.optimizer)
            if average is not None:
                average.update()
    if average is not None:
        average.keep()
    return classifier.eval()
