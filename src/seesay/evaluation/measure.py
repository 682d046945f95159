"""Measure a run on prepared inputs, and say what the measured row is a row of."""

from __future__ import annotations

from typing import Any

import numpy as np

from seesay.evaluation.protocols import evaluate_embeddings
from seesay.matchers.inputs import Inputs
from seesay.matchers.run import Run
from seesay.recipes.schema import Recipe


def measure(run: Run, inputs: Inputs, split: str, protocol: str = "standard") -> dict[str, Any]:
    """The run's matcher on one split, as `seesay evaluate --json` prints it."""
    images = run.embed_features(np.asarray(inputs.features))
    sentences = run.embed_prepared(inputs.sentences)
    return evaluate_embeddings(images, sentences, inputs.image_of_sentence, protocol, split)


def provenance(run: Run, seconds: float, commit: str | None) -> dict[str, Any]:
    """What a row of the results needs beside the measures: which run it is of, and how long it took."""
    recipe = run.recipe
    encoder, crops = encoder_and_crops(recipe)
    return {
        "recipe": recipe.name,
        "system": recipe.system,
        "seed": recipe.seed,
        "encoder": encoder,
        "crops": crops,
        "changes": list(recipe.changes),
        "departures": list(recipe.departures),
        "seconds": round(seconds, 1),
        "commit": commit,
    }


_CROPS = {"": "squash", "mirror": "squash and mirror", "ten": "ten crops"}


def encoder_and_crops(recipe: Recipe) -> tuple[str, str]:
    """The recipe's encoders without their crops, and the crops in words."""
    parts = [name.partition(":") for name in recipe.encoders]
    crops = dict.fromkeys(_CROPS.get(crop, "squash") for _, _, crop in parts)
    return "+".join(network for network, _, _ in parts), ", ".join(crops)


def differences(recipe: Recipe) -> list[str]:
    """How a run differs from the published system, in words."""
    return [*recipe.departures, *(f"--set {change}" for change in recipe.changes)]
