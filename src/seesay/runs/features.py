"""The features of images that a recipe or a run reads: their encoders, and their arrays joined to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seesay.device import default_device
from seesay.encoders.images.base import Arrays, ImageEncoder, load_image_encoder
from seesay.errors import SeesayError
from seesay.runs.config import RunConfig

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe

PRECOMPUTED = "precomputed"  # in place of an encoder: the features that come with a corpus

Vectors = NDArray[np.float32]


def recipe_encoders(recipe: Recipe | RunConfig, device: str | None = None) -> list[ImageEncoder]:
    """Load the image encoders of a recipe or run, on the default device if none is named.

    Raises:
        SeesayError: the recipe matches regions of images, or reads precomputed features.
    """
    if recipe.regions is not None:
        raise SeesayError(
            f"Recipe '{recipe.name}' matches phrases with regions of one image and embeds no whole images; "
            "use a run such as seesay-small for those."
        )
    if PRECOMPUTED in recipe.encoders:
        raise SeesayError(
            "This run was trained on precomputed features: without their encoder it cannot take an image."
        )
    return [load_image_encoder(name, device or default_device()) for name in recipe.encoders]


def array_dims(recipe: Recipe) -> tuple[int, ...]:
    """Return the widths of the arrays that a recipe's image features are joined from."""
    return tuple(encoder.dims[name] for encoder in recipe_encoders(recipe) for name in recipe.arrays)


def join_features(names: Sequence[str], arrays: Sequence[Arrays]) -> Vectors:
    """Concatenate those of the encoders' arrays that have these names, (n, d)."""
    return np.concatenate([each[name] for each in arrays for name in names], axis=1)
