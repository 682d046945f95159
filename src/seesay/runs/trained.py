"""Matchers of runs in PyTorch: built, saved, and loaded from a run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from seesay.device import checked_device
from seesay.encoders.images.concepts import save_head_inputs
from seesay.encoders.sentences.base import SentenceEncoder, save_sentence_encoder
from seesay.errors import SeesayError
from seesay.matchers.base import as_matcher
from seesay.matchers.settings import MatcherInputs
from seesay.paths import replace_text, replacing
from seesay.recipes.load import dump_recipe
from seesay.recipes.schema import Recipe
from seesay.runs.exported import WEIGHTS
from seesay.runs.run import RECIPE, TEXT, VOCABULARY, Run
from seesay.text.vocabulary import Vocabulary

_NAMED = 3  # weights of a kind that an error names
_IMAGE_DIMS = "image_dims"  # in the metadata of the weights


def new_matcher(
    recipe: Recipe,
    vocabulary: Vocabulary,
    encoder: SentenceEncoder | None,
    image_dims: Sequence[int],
    module: nn.Module | None = None,
) -> nn.Module:
    """Build the recipe's matcher with initial weights, or wrap a copy of the caller's own module.

    Raises:
        SeesayError: the module is not a matcher, or cannot be copied.
    """
    if module is not None:
        try:
            return as_matcher(deepcopy(uncompiled(module)))
        except (RuntimeError, TypeError) as failure:
            raise SeesayError(
                f"module: one that copy.deepcopy copies is wanted, got {type(module).__name__} ({failure})."
            ) from failure
    inputs = MatcherInputs(tuple(image_dims), len(vocabulary), encoder.dim if encoder else 0)
    return recipe.matcher.build(inputs)


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that `torch.compile` wrapped, or else the module itself."""
    return cast(nn.Module, getattr(module, "_orig_mod", module))


def load_matcher(run: Run, module: nn.Module | None = None) -> nn.Module:
    """Load the matcher of a run's folder onto the run's device, or its weights into a copy of a module.

    Raises:
        SeesayError: the weights are missing or damaged, or those of another matcher, or no such device.
    """
    path = run.folder / WEIGHTS
    weights, image_dims = _read_weights(path)
    matcher = new_matcher(run.recipe, run.vocabulary, run.sentence_encoder, image_dims, module)
    try:
        matcher.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in weights.items()})
    except RuntimeError as failure:
        misfit = _misfit(matcher.state_dict(), weights)
        if module is not None:
            raise SeesayError(
                f"module: the one whose weights are in {path} is wanted, got another one ({misfit})."
            ) from failure
        raise SeesayError(
            f"{path}: not the weights of {run.folder / RECIPE} ({misfit}); train again."
        ) from failure
    return matcher.eval().to(checked_device(run.device))


def save_inputs(run: Run) -> None:
    """Write everything of a run but the weights: recipe, vocabulary and sentence encoder."""
    run.folder.mkdir(parents=True, exist_ok=True)
    replace_text(run.folder / RECIPE, dump_recipe(run.recipe))
    run.vocabulary.save(run.folder / VOCABULARY)
    if run.recipe.matcher.predicts_concepts:
        folds = getattr(run.recipe.matcher, "folds", 0)  # a fine-tuned network has none
        regions = run.recipe.matcher.instances_per_image or 0
        save_head_inputs(run.folder, run.recipe.encoders[0], run.recipe.arrays, folds, regions)
    if run.sentence_encoder is not None:
        save_sentence_encoder(run.sentence_encoder, run.folder / TEXT)


def save_weights(folder: Path, weights: Mapping[str, Tensor], image_dims: Sequence[int]) -> None:
    """Write a matcher's weights, with the widths of the image arrays that it takes."""
    kept = {key: value.contiguous() for key, value in weights.items()}
    with replacing(folder / WEIGHTS) as beside:
        save_file(kept, beside, {_IMAGE_DIMS: json.dumps(list(image_dims))})


def module_device(module: nn.Module) -> str:
    """Return where a module's weights are."""
    return str(next(chain(module.parameters(), module.buffers())).device)


def _misfit(wanted: Mapping[str, Any], found: Mapping[str, Tensor]) -> str:
    """Name the first weights that are missing, unexpected or of another shape."""
    both = [key for key in wanted if key in found]
    names = {
        "missing": [key for key in wanted if key not in found],
        "unexpected": [key for key in found if key not in wanted],
        "of another shape": [key for key in both if np.shape(wanted[key]) != found[key].shape],
    }
    parts = [
        f"{what}: {', '.join(keys[:_NAMED])}{', …' if len(keys) > _NAMED else ''}"
        for what, keys in names.items()
        if keys
    ]
    return "; ".join(parts) or "they do not load"


def _read_weights(path: Path) -> tuple[dict[str, Tensor], list[int]]:
    """Read the weights of a run, and the widths of the image arrays that they take."""
    try:
        with safe_open(path, "pt") as file:
            dims = json.loads((file.metadata() or {}).get(_IMAGE_DIMS, "null"))
            if dims is None:
                raise ValueError(f"no '{_IMAGE_DIMS}' in its metadata")
            return {key: file.get_tensor(key) for key in file.keys()}, dims  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as failure:
        raise SeesayError(f"{path}: unreadable weights ({failure}); train again.") from failure
