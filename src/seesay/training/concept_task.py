"""Concept prediction as a training task: the multi-label CNN of SCO.

A classifier is more certain about its training images than about others, so a matcher that learned from such
scores would trust the concepts of new images too much. The train images are therefore divided into folds, and
each fold is scored by a classifier that was trained on the others, for the number of epochs that was best on
val.

Other recipes use the concepts of a run as an image encoder: `concepts` is the run of the recipe `concepts`,
`run` names that of another recipe, such as `concepts-instances`, or the folder of a run. They keep a copy of
its head, and learn from the scores of the folds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from seesay.encoders.images.base import Arrays
from seesay.encoders.images.concepts import CONCEPT_ENCODERS, StoredHead, about_head, concept_scores
from seesay.encoders.images.tuned import copy_tuned, save_tuned
from seesay.encoders.settings import PRECOMPUTED, EncoderSettings
from seesay.errors import SeesayError
from seesay.losses.base import Batch
from seesay.matchers.settings import MatcherInputs
from seesay.paths import replacing
from seesay.progress import progress
from seesay.recipes.files import included_recipes
from seesay.recipes.schema import Recipe
from seesay.runs.inputs import Inputs
from seesay.runs.run import Run
from seesay.runs.summary import Size, is_finished
from seesay.text.concepts import concept_targets
from seesay.text.vocabulary import Vocabulary
from seesay.training.loop import Steps
from seesay.training.task import Task

_HELD_OUT, _KEPT_HELD_OUT = "held-out.safetensors", "held-out-{}.safetensors"  # in a run's folder


class ConceptTask(Task):
    """Images and the concepts in their sentences: `targets`, (n, K), of a vocabulary of concepts."""

    def __init__(self, recipe: Recipe, data: Inputs, val: Inputs, vocabulary: Vocabulary) -> None:
        super().__init__(recipe, data, val)
        self.targets = torch.from_numpy(concept_targets(vocabulary.words, data.corpus))

    def batches(self, epoch: int) -> Sequence[NDArray[np.int64]]:
        """Return the mini-batches of an epoch: positions of images, each once."""
        shuffled = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(self.data.features))
        size = self.recipe.batch_size
        return [shuffled[i : i + size] for i in range(0, len(shuffled), size)]

    def drawn(self, batch: NDArray[np.int64], device: str, features: Tensor | None = None) -> Batch:
        """Return the images of a mini-batch with their concepts."""
        if features is None:
            features = torch.from_numpy(self.data.features[batch]).float().to(device)
        image_ids = torch.from_numpy(batch).to(device)
        return Batch(features, None, image_ids, targets=self.targets[batch].to(device))

    def sizes(self) -> tuple[Size, Size]:
        """Return the sizes of the train and the val split."""
        train, val = super().sizes()
        without = int((~self.targets.any(dim=1)).sum())
        return train | {"images_without_concepts": without}, val


def score_held_out(task: ConceptTask, run: Run, epochs: int) -> None:
    """Train classifiers for `epochs` without each fold, and store the scores of the folds beside the run.

    Does nothing if the recipe has no folds.
    """
    folds = getattr(run.recipe.matcher, "folds", 0)  # a fine-tuned network has none
    if not folds:
        return
    count = len(task.data.features)
    fold = np.random.default_rng(run.recipe.seed).permutation(count) % folds
    logits = np.zeros((count, task.targets.shape[1]), np.float32)
    with progress("Folds", folds, "folds") as advance:
        for number in range(folds):
            classifier = _trained(task, run, epochs, fold != number)
            mine = np.flatnonzero(fold == number)
            with torch.inference_mode():
                features = torch.from_numpy(task.data.features[mine]).float().to(run.device)
                logits[mine] = classifier(features).float().cpu().numpy()
            advance(1)
    save_held_out(run.folder, [image.name for image in task.data.corpus.images], logits)


def _trained(task: ConceptTask, run: Run, epochs: int, learned: np.ndarray) -> nn.Module:
    """Train a new classifier like that of the run on the images that `learned` (n,) marks."""
    recipe = run.recipe
    torch.manual_seed(recipe.seed)
    classifier = recipe.matcher.build(MatcherInputs(task.image_dims, task.targets.shape[1] + 1))
    classifier.to(run.device).train()
    steps, over = Steps(recipe, classifier), 0
    for epoch in range(1, epochs + 1):
        batches = task.batches(epoch)
        for step, some in enumerate(batches):
            share = recipe.schedule.share(epoch - 1 + step / len(batches), over)
            if share >= 1:  # the last epoch of a schedule of steps may be a part of one
                break
            if len(batch := some[learned[some]]):
                loss = torch.stack(task.losses(classifier, batch, run.device)).sum()
                steps.take(loss, share)
            over += 1
    return (classifier if steps.average is None else steps.average.module).eval()


def concept_recipe(encoder: EncoderSettings) -> str | None:
    """Return the recipe of the run that an encoder refers to; None if it names a run, or reads no concepts.

    >>> runs = ("", "concepts-instances", "runs/concepts")
    >>> [concept_recipe(EncoderSettings("concepts").replaced(run=run)) for run in runs]
    ['concepts', 'concepts-instances', None]
    """
    run = encoder.get("run")
    if encoder.kind not in CONCEPT_ENCODERS or (encoder.get("tuned") and not run):
        return None
    is_recipe = not run or (run in included_recipes() and not Path(run).exists())
    return (run or "concepts") if is_recipe else None


def with_concept_runs(recipe: Recipe, run_of: Callable[[str], Path]) -> Recipe:
    """Complete the concept encoders of a recipe with the folders that `run_of` names for concept recipes.

    Raises:
        SeesayError: there is no finished run in such a folder.
    """
    named = []
    for encoder in recipe.encoders:
        if (meant := concept_recipe(encoder)) is None:
            named.append(encoder)
        elif is_finished(run := run_of(meant)):
            named.append(encoder.replaced(run=str(run)))
        else:
            raise SeesayError(
                f"Recipe '{recipe.name}' reads the concepts of a run, but there is none at {run}; train "
                f"one with `seesay train {meant} --out {run}`, or name it in the recipe: "
                "encoders=[…, {kind: concepts, run: RUN}]."
            )
    return recipe.model_copy(update={"encoders": tuple(named)})


def keep_concepts(encoder: EncoderSettings, run: Path) -> EncoderSettings:
    """Copy the head of a concept encoder to a run's folder, so that the run needs no other run.

    Returns the encoder of that head, or the same if it is another kind of encoder or was copied before.
    """
    if encoder.kind not in CONCEPT_ENCODERS or encoder.get("tuned"):
        return encoder
    head = StoredHead.read(encoder)
    copy_tuned(head.encoder, head.path.parent, run)
    kept = save_tuned(encoder, load_file(head.path), run, about_head(encoder, None))
    if (held_out := head.path.parent / _HELD_OUT).is_file():  # needed if training is resumed
        with replacing(run / _KEPT_HELD_OUT.format(kept.get("tuned"))) as beside:
            shutil.copyfile(held_out, beside)
    return kept


def save_held_out(folder: Path, names: Sequence[str], logits: NDArray[np.float32]) -> None:
    """Store the logits (n, K) of train images, from heads not trained on them, in a run's folder."""
    text = np.frombuffer("\n".join(names).encode(), np.uint8)
    with replacing(folder / _HELD_OUT) as beside:
        save_file({"names": text, "logits": logits}, beside)


def held_out_scores(
    encoder: EncoderSettings, names: Sequence[str], folder: Path | None = None
) -> Arrays | None:
    """Return the arrays of train images, from heads that were not trained on them, n rows each.

    `folder` is that of the run whose encoder it is.

    Returns None if it is not the encoder `concepts`, or its run was trained without folds.

    Raises:
        SeesayError: the scores are missing, or the run was trained on other images.
    """
    run = encoder.get("run")
    if encoder.kind != "concepts" or not run or about_head(encoder, folder).get("folds", "0") == "0":
        return None
    path = (folder or Path(run)) / _KEPT_HELD_OUT.format(encoder.get("tuned"))
    path = path if path.is_file() else Path(run) / _HELD_OUT
    if not path.is_file():
        raise SeesayError(
            f"Encoder {encoder}: {path} is missing, the scores that matchers learn from; train the "
            "concepts again, or without folds: --set matcher.folds=0."
        )
    tensors = load_file(path)
    row = {name: i for i, name in enumerate(tensors["names"].tobytes().decode().split("\n"))}
    missing = next((name for name in names if name not in row), None)
    if missing is not None:
        raise SeesayError(
            f"Encoder {encoder}: {run} was trained on other images ({missing} is not among them); "
            "train the concepts on this corpus."
        )
    return concept_scores(tensors["logits"][[row[name] for name in names]])


def with_held_out_concepts(recipe: Recipe, train: Inputs, run: Path | None) -> Inputs:
    """Return the train split with held-out concept scores, if a concept encoder was trained with folds."""
    names = [image.name for image in train.corpus.images]
    widths = iter(train.image_dims)
    features, start = train.features, 0
    for encoder in recipe.encoders:
        scores = held_out_scores(encoder, names, run)
        for array in recipe.arrays[: 1 if encoder.kind == PRECOMPUTED else None]:
            width = next(widths, 0)
            if scores is not None:
                features = features if features is not train.features else train.features.copy()
                features[:, start : start + width] = scores[array]
            start += width
    return replace(train, features=features)
