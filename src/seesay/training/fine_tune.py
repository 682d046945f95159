"""Fine-tuning of CNNs together with the matcher that reads their features."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from seesay.encoders.images.base import EACH, crops_of
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.images.tuned import save_tuned
from seesay.encoders.networks.lite import load_lite
from seesay.encoders.spec import EncoderSpec
from seesay.errors import SeesayError
from seesay.matchers.composed import FineTunedSettings
from seesay.recipes.schema import Recipe
from seesay.runs.run import Run
from seesay.training.concept_task import ConceptTask
from seesay.training.epochs import Epoch, OnEpochEnd
from seesay.training.loop import CHECKPOINT, Loop
from seesay.training.sentence_task import SentenceTask
from seesay.training.task import Task
from seesay.training.tuning import FromMaps, FromPixels, PixelsTask, maps_task


def check_tunable(recipe: Recipe) -> FineTunedSettings:
    """Check that there are CNNs to fine-tune, and return the settings.

    Raises:
        SeesayError: the recipe has other encoders, or settings that its encoders do not support.
    """
    settings = recipe.matcher
    assert isinstance(settings, FineTunedSettings)
    for spec in map(EncoderSpec.parse, recipe.encoders):
        if spec.name not in LITE or spec.weights:
            raise SeesayError(
                f"Recipe '{recipe.name}': encoders are {', '.join(recipe.encoders)}; those of "
                f"{', '.join(LITE)} can be fine-tuned."
            )
    if settings.views:
        _check_views(recipe, settings.views)
    if settings.keep_classes and "logits" not in recipe.arrays:
        raise SeesayError(
            f"Recipe '{recipe.name}': matcher.keep_classes is of logits, which the matcher does not read; "
            "set arrays: [pooled, logits], or leave it out."
        )
    return settings


def _check_views(recipe: Recipe, views: int) -> None:
    """Check that maps can be made of the crops that the encoders take."""
    crops = {EncoderSpec.parse(name).variant or "squash" for name in recipe.encoders}
    if len(crops) > 1 or EACH in crops:
        raise SeesayError(
            f"Recipe '{recipe.name}': encoders are {', '.join(recipe.encoders)}; with matcher.views all must "
            "take the same crops of an image, and average them."
        )
    taken = len(crops_of(np.zeros((8, 8, 3), np.uint8), 8, crops.pop()))
    if views < taken:
        raise SeesayError(
            f"Recipe '{recipe.name}': matcher.views is {views}; set it to {taken} or more, which is how many "
            f"crops of an image {recipe.encoders[0]} takes."
        )


def fine_tune(run: Run, task: Task, on_epoch_end: OnEpochEnd | None = None) -> tuple[Recipe, list[Epoch]]:
    """Train a run's matcher in place together with the CNN, which is stored in the run's folder.

    An interrupted fine-tuning continues from the checkpoint in that folder.

    Args:
        run: the first step's weights under the second step's recipe.
        task: of its inputs.
        on_epoch_end: called after each epoch with its metrics.

    Returns:
        The recipe with the name of the fine-tuned encoder, and every epoch.

    Raises:
        SeesayError: there is nothing to fine-tune, or the loss is not finite.
    """
    settings, out = check_tunable(run.recipe), run.folder
    assert isinstance(task, SentenceTask | ConceptTask)
    torch.manual_seed(run.recipe.seed)
    networks = [load_lite(EncoderSpec.parse(name).name) for name in run.recipe.encoders]
    as_learned: AbstractContextManager[PixelsTask]
    if settings.views is None:
        from_what, as_learned = FromPixels, nullcontext(PixelsTask(run.recipe, task))
    else:
        from_what, as_learned = FromMaps, maps_task(run, task, settings.views, settings.keep_classes)
    module = from_what(networks, run.matcher, run.recipe.arrays, settings.at_once).to(run.device)
    out.mkdir(parents=True, exist_ok=True)
    view = Run.from_matcher(out, run.recipe, run.vocabulary, run.sentence_encoder, module)
    with as_learned as tuning:
        loop = Loop(tuning, view, on_epoch_end)
        if (out / CHECKPOINT).is_file():
            loop.restore()
        weights, history = loop.run()
    module.load_state_dict(weights)
    names = []
    for encoder, network in zip(run.recipe.encoders, module.networks, strict=True):
        arrays = {key: value.cpu().numpy() for key, value in network.state_dict().items()}
        names.append(save_tuned(encoder, arrays, out))
    # Were it left, a member that was trained anew would be passed over for it.
    (out / CHECKPOINT).unlink()
    return run.recipe.model_copy(update={"encoders": tuple(names)}), history
