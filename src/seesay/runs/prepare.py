"""Images and sentences from callers, prepared for a run: image features, word ids and sentence vectors."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
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
from seesay.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seesay.matchers.sentences import Sentences
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


@dataclass(frozen=True, eq=False)
class PreparedSentences:
    """m sentences, the NumPy counterpart of `seesay.matchers.Sentences`."""

    words: NDArray[np.int64]  # all their word ids, one sentence after the other, (total,)
    lengths: NDArray[np.int64]  # words in each, (m,), at least 1
    vectors: NDArray[np.float32]  # of the sentence encoder, (m, d); (m, 0) without one

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.lengths)

    def take(self, rows: NDArray[np.int64]) -> PreparedSentences:
        """Return the sentences with those row numbers, in that order."""
        lengths = self.lengths[rows]
        # Word j of the result is at j, less its sentence's start there, plus the start in `self.words`.
        starts = (np.cumsum(self.lengths) - self.lengths)[rows] - (np.cumsum(lengths) - lengths)
        places = np.repeat(starts, lengths) + np.arange(lengths.sum())
        return PreparedSentences(self.words[places], lengths, self.vectors[rows])

    def split(self, size: int) -> list[PreparedSentences]:
        """Return the sentences in parts of at most `size`."""
        return [self.take(np.arange(i, min(i + size, len(self)))) for i in range(0, len(self), size)]

    def to_tensors(self, device: str = "cpu") -> Sentences:
        """Return the same sentences for a matcher in PyTorch."""
        import torch

        from seesay.matchers.sentences import Sentences

        parts = (torch.from_numpy(part) for part in (self.words, self.lengths, self.vectors))
        return Sentences(*parts).to(device)


def number_words(
    texts: Sequence[str], vocabulary: Vocabulary, vectors: NDArray[np.float32] | None = None
) -> PreparedSentences:
    """Look up the word ids of sentences; `vectors` are those of the sentence encoder, if any."""
    numbers = [vocabulary.encode(text) for text in texts]
    words = np.fromiter((n for sentence in numbers for n in sentence), np.int64)
    lengths = np.fromiter((len(sentence) for sentence in numbers), np.int64, len(numbers))
    return PreparedSentences(
        words, lengths, np.zeros((len(texts), 0), np.float32) if vectors is None else vectors
    )


def rows_of_each(owners: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Return, for each of `count` images or other owners, the rows that are its own, in order.

    >>> [rows.tolist() for rows in rows_of_each(np.array([2, 0, 2]), 3)]
    [[1], [], [0, 2]]
    """
    order = np.argsort(owners, kind="stable")
    return np.split(order, np.searchsorted(owners[order], np.arange(count + 1)))[1:-1]


def count_cut(max_words: int | None, sentences: PreparedSentences) -> dict[str, int]:
    """Return the number of truncated sentences and the maximum length; empty without a limit."""
    if max_words is None:
        return {}
    return {"cut_sentences": int((sentences.lengths > max_words).sum()), "max_length": max_words}
