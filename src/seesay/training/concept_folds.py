"""Scores of concepts for the images that they were learned from, by classifiers that have not seen them.

A classifier is surer of the images that it was trained on than of others. A matcher that learned from such
scores would trust the concepts of new images too much. So the train images are dealt into folds, and each
fold is scored by a classifier that learned from the others, for as many epochs as were best on val.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from seesay.encoders.images.concepts import save_held_out
from seesay.matchers.sco import ConceptSettings
from seesay.matchers.settings import MatcherInputs
from seesay.progress import progress
from seesay.runs.run import Run
from seesay.training.average import AveragedWeights
from seesay.training.concept_task import ConceptTask
from seesay.training.loop import new_optimizer, set_rate, take_step


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
