"""The sentence side of a recipe: its fitted sentence encoder and the vectors of a split, both kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seesay.paths import cache_dir, replacing
from seesay.recipes.schema import Recipe
from seesay.text.encoders import (
    SentenceEncoder,
    fit_sentence_encoder,
    load_sentence_encoder,
    save_sentence_encoder,
)


def fitted_sentence_encoder(recipe: Recipe, texts: Sequence[str]) -> SentenceEncoder | None:
    """The recipe's sentence encoder, fitted on those texts, or as fitted on them before; None without one."""
    name = recipe.sentence_encoder
    if name is None:
        return None
    path = _cached("text", f"{name} {recipe.sentence_dim} v2", texts, "safetensors")
    if path.is_file():
        return load_sentence_encoder(name, path)
    encoder = fit_sentence_encoder(name, texts, recipe.sentence_dim)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_sentence_encoder(encoder, path)
    return encoder


def sentence_vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The encoder's vectors of those texts, (m, dim), or as computed before."""
    path = _cached("sentences", encoder.fingerprint, texts, "npy")
    if path.is_file():
        cached: NDArray[np.float32] = np.load(path, allow_pickle=False)
        return cached
    vectors = encoder.encode(texts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside, beside.open("wb") as file:
        np.save(file, vectors)
    return vectors


def _cached(folder: str, what: str, texts: Sequence[str], suffix: str) -> Path:
    digest = hashlib.blake2b(what.encode(), digest_size=16)
    for text in texts:
        digest.update(text.encode() + b"\0")
    return cache_dir() / folder / f"{digest.hexdigest()}.{suffix}"
