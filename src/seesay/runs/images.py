"""Images and sentences from callers, and the image features of a recipe or run."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from seesay.data.images import FileSource
from seesay.data.pixels import to_rgb
from seesay.data.texts import LONE_SURROGATE
from seesay.device import default_device
from seesay.encoders.images.base import Arrays, ImageEncoder, load_image_encoder
from seesay.encoders.settings import EncoderSettings
from seesay.errors import ImageError, SeesayError, first_line
from seesay.paths import home_expanded
from seesay.runs.config import RunConfig

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe

ImageInput: TypeAlias = str | Path | bytes | Image.Image | NDArray[np.uint8]


def list_images(images: Iterable[ImageInput]) -> list[ImageInput]:
    """Return the argument `images` as a list; raise a `SeesayError` if it is one image, or not iterable."""
    if isinstance(images, str | Path | bytes | Image.Image):
        raise SeesayError("images: expected a list of images, got a single one; write [image].")
    if not isinstance(images, Iterable):
        raise SeesayError(f"images: expected a list of images, got {type(images).__name__}.")
    return list(images)


def read_images(
    images: Sequence[ImageInput], first: int = 0
) -> tuple[list[bytes | NDArray[np.uint8]], list[str]]:
    """Read images, numbered from `first`, to encoded bytes or pixels (h, w, 3), and names for error messages.

    Raises:
        ImageError: a file cannot be read, or an image is damaged or has no pixels.
        SeesayError: an item has another type, or an array is not (h, w, 3) uint8.
    """
    both = [_read(image, f"images[{number}]") for number, image in enumerate(images, first)]
    return [content for content, _ in both], [name for _, name in both]


def read_texts(texts: Iterable[str], name: str) -> list[str]:
    """Return the strings in the argument `name` as a list.

    Raises:
        SeesayError: it is one string or not iterable, or an item is not a string.
    """
    if isinstance(texts, str):
        raise SeesayError(f"{name}: expected a list of strings, got one string; write [{name[:-1]}].")
    if not isinstance(texts, Iterable):
        raise SeesayError(f"{name}: expected a list of strings, got {type(texts).__name__}.")
    found = list(texts)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise SeesayError(f"{name}[{number}]: expected a string, got {type(text).__name__}.")
        if LONE_SURROGATE.search(text):
            raise SeesayError(f"{name}[{number}]: contains a lone surrogate, not a character.")
    return found


def _read(image: ImageInput, place: str) -> tuple[bytes | NDArray[np.uint8], str]:
    if isinstance(image, str | Path):
        return FileSource(home_expanded(image)).read(), str(image)
    if isinstance(image, bytes):
        return image, place
    if isinstance(image, Image.Image):
        if 0 in image.size:
            raise ImageError(f"{place}: no pixels; an image needs at least one.")
        try:
            upright = ImageOps.exif_transpose(image)
            return to_rgb(upright), place
        except (OSError, ValueError) as error:  # a ValueError if it was closed
            raise ImageError(f"{place}: damaged ({first_line(error)}).") from error
    if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3:
        if not image.size:
            raise ImageError(f"{place}: no pixels; an image needs at least one.")
        return image, place
    got = f"{image.dtype} {image.shape}" if isinstance(image, np.ndarray) else type(image).__name__
    raise SeesayError(
        f"{place}: expected a path, encoded bytes, a PIL image or a uint8 array (h, w, 3), got {got}."
    )


def recipe_encoders(
    recipe: Recipe | RunConfig,
    run: Path | None = None,
    device: str | None = None,
    without: Container[EncoderSettings] = (),
) -> list[ImageEncoder]:
    """Load the image encoders of a recipe, or of a run in that folder; None names the default device.

    Those in `without` are left out.

    Raises:
        SeesayError: the recipe matches regions of images, reads precomputed features, or names an array that
            an encoder lacks.
    """
    if recipe.regions is not None:
        raise SeesayError(
            f"Recipe '{recipe.name}' matches phrases with regions and does not embed whole images; use "
            f"another run, such as seesay-small."
        )
    chosen = [each for each in recipe.encoders if each not in without]
    encoders = [load_image_encoder(each, device or default_device(), run) for each in chosen]
    for encoder in encoders:
        if lacking := [name for name in recipe.arrays if name not in encoder.dims]:
            known = ", ".join(encoder.dims)
            raise SeesayError(f"{recipe.name}: key 'arrays': {encoder.name} has {known}, not {lacking[0]}.")
    return encoders


def join_features(names: Sequence[str], arrays: Sequence[Arrays]) -> NDArray[np.float32]:
    """Concatenate the encoders' arrays with these names, (n, d)."""
    return np.concatenate([each[name] for each in arrays for name in names], axis=1)
