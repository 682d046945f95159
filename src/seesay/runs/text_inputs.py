"""A recipe's fitted sentence encoder and its vectors of a split; both are cached."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from seesay.encoders import SENTENCE_ENCODERS
from seesay.encoders.sentences.base import (
    SentenceEncoder,
    fit_sentence_encoder,
    load_sentence_encoder,
    save_sentence_encoder,
)
from seesay.encoders.spec import EncoderSpec
from seesay.errors import SeesayError
from seesay.onnx import network_cache
from seesay.paths import replacing

if TYPE_CHECKING:
    from seesay.recipes.schema import Recipe

_ROWS = 1 << 15  # sentences encoded at a time


def fitted_sentence_encoder(
    recipe: Recipe, texts: Sequence[str], images: NDArray[np.int64]
) -> SentenceEncoder | None:
    """Fit the recipe's sentence encoder on texts, or load it from the cache; None if the recipe has none.

    `images` is the row of the image of each text, (m,).
    """
    name = recipe.sentence_encoder
    if name is None:
        return None
    what = f"{name} {recipe.sentence_dim} v2"
    if SENTENCE_ENCODERS[EncoderSpec.parse(name).name].uses_images:
        what += hashlib.blake2b(images.tobytes(), digest_size=16).hexdigest()
    path = _cached("text", what, texts, "safetensors")
    if path.is_file():
        with suppress(SeesayError):  # damaged: fitted again
            return load_sentence_encoder(name, path)
    encoder = fit_sentence_encoder(name, texts, recipe.sentence_dim, images)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_sentence_encoder(encoder, path)
    return encoder


def sentence_vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Encode texts, (m, dim), or read their vectors from the cache.

    The file is memory-mapped, copy on write: 160,000 sentences of 6,000 numbers are 3.8 GB.
    """
    path = _cached("sentences", encoder.fingerprint, texts, "npy")
    if not texts:
        return np.zeros((0, encoder.dim), np.float32)
    if (kept := _mapped(path, (len(texts), encoder.dim))) is not None:
        return kept
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (len(texts), encoder.dim)
    with replacing(path) as beside, beside.open("wb") as file:
        # Written, not mapped: a full disk is an error then, not the end of the process.
        write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for start in range(0, len(texts), _ROWS):
            file.write(np.asarray(encoder.encode(texts[start : start + _ROWS]), "<f4").tobytes())
    vectors = _mapped(path, shape)
    assert vectors is not None
    return vectors


def _mapped(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """Map the array in a file; None if it is missing, damaged or of another shape."""
    try:
        found = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if found.shape == shape and found.dtype == np.float32 else None


def _cached(folder: str, what: str, texts: Sequence[str], suffix: str) -> Path:
    digest = hashlib.blake2b(what.encode(), digest_size=16)
    for text in texts:
        digest.update(text.encode() + b"\0")
    return network_cache(folder) / f"{digest.hexdigest()}.{suffix}"
