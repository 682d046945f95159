"""Encoder weights that belong to a run: fine-tuned networks, and concept heads.

They are stored in the run's folder as `encoder-HASH.safetensors`, and its recipe names the encoder by them:
`efficientnet-lite0@HASH:ten`. Loading a run copies them to the cache, where they are found by name.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from seesay.encoders.spec import EncoderSpec
from seesay.errors import SeesayError
from seesay.paths import cache_dir, replacing

BASE = "encoder"  # in a file's metadata: the encoder whose features these weights read


def save_tuned(
    encoder: str, tensors: Mapping[str, NDArray[Any]], folder: Path, about: dict[str, str] | None = None
) -> str:
    """Write an encoder's weights, and `about` as their metadata, into a run's folder; return its new name."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / "encoder.safetensors"
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, beside, about)
    digest = _digest(beside)
    beside.replace(_file(folder, digest))
    return str(replace(EncoderSpec.parse(encoder), weights=digest))


def copy_tuned(encoder: str, source: Path, folder: Path) -> None:
    """Copy the weights of an encoder, if they belong to a run, from one folder to another.

    The weights of the encoder that a head reads are also copied.

    Raises:
        SeesayError: the weights are missing or cannot be written, or a head reads another head.
    """
    base = encoder_of_head(encoder, folder, source)
    if base and encoder_of_head(base, folder, source):  # an untrusted file can name any encoder, even itself
        raise SeesayError(f"{source}: encoder '{encoder}' reads '{base}', which also reads another encoder.")
    for name in (base, encoder):
        if name:
            _copy(name, source, folder)


def _copy(encoder: str, source: Path, folder: Path) -> None:
    weights = EncoderSpec.parse(encoder).weights
    here, there = _file(source, weights), _file(folder, weights)
    if not weights or there.is_file():
        return
    try:
        there.parent.mkdir(parents=True, exist_ok=True)
        with replacing(there) as beside:
            shutil.copyfile(here, beside)
            if _digest(beside) != weights:
                raise SeesayError(f"{here}: damaged; copy the run again, or train again.")
    except OSError as error:
        raise SeesayError(
            f"{here}: the weights of encoder '{encoder}' cannot be copied ({error.strerror})."
        ) from error


def adopt_tuned(encoder: str, folder: Path) -> None:
    """Copy an encoder's weights from a run's folder to the cache, from where they are loaded."""
    copy_tuned(encoder, folder, _cache())


def tuned_file(spec: EncoderSpec) -> Path:
    """Return the file of an adopted encoder's weights; raise SeesayError if it is missing or damaged."""
    path = _file(_cache(), spec.weights)
    if not path.is_file():
        raise SeesayError(f"Encoder '{spec}': its weights belong to a run; load that run first.")
    if _digest(path) != spec.weights:
        path.unlink()  # the run's own file is then copied again
        raise SeesayError(f"{path}: damaged, and removed now; repeat the command.")
    return path


def metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file."""
    with safe_open(path, "numpy") as file:
        return file.metadata() or {}


def encoder_of_head(encoder: str, *folders: Path) -> str | None:
    """Return the encoder that a head reads, by its file in the first folder that has it.

    Returns None if it is not a head, or if the file is damaged, which is reported on loading.
    """
    if not (weights := EncoderSpec.parse(encoder).weights):
        return None
    try:
        files = (_file(folder, weights) for folder in folders)
        path = next((file for file in files if file.is_file()), None)
        return None if path is None else metadata(path).get(BASE)
    except (OSError, SafetensorError):
        return None


def _cache() -> Path:
    return cache_dir() / "encoders"


def _file(folder: Path, digest: str) -> Path:
    return folder / f"encoder-{digest}.safetensors"


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
