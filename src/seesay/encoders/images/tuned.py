"""Encoder weights that belong to a run: fine-tuned networks, and concept heads.

They are in the run's folder as `encoder-HASH.safetensors`, and the encoder's settings in its recipe identify
them: `{kind: efficientnet-lite0, crops: ten, tuned: HASH}`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from seesay.encoders.settings import EncoderSettings
from seesay.errors import SeesayError
from seesay.paths import replacing

BASE = "encoder"  # in a file's metadata, as JSON: the encoder whose features these weights read


def save_tuned(
    encoder: EncoderSettings,
    tensors: Mapping[str, NDArray[Any]],
    folder: Path,
    about: dict[str, str] | None = None,
) -> EncoderSettings:
    """Write an encoder's weights into a run's folder, with `about` as metadata; return it with them."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / "encoder.safetensors"
    save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, beside, about)
    digest = _digest(beside)
    beside.replace(_file(folder, digest))
    return encoder.replaced(tuned=digest)


def copy_tuned(encoder: EncoderSettings, source: Path, folder: Path) -> None:
    """Copy the weights of an encoder, if they belong to a run, from that run's folder to another.

    The weights of the encoder that a head reads are also copied.

    Raises:
        SeesayError: the weights are missing or cannot be written.
    """
    for each in (encoder_of_head(encoder, source), encoder):
        digest = each.get("tuned") if each else ""
        if digest and not (there := _file(folder, digest)).is_file():
            here = tuned_file(digest, source)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with replacing(there) as beside:
                    shutil.copyfile(here, beside)
            except OSError as error:
                raise SeesayError(f"{here}: cannot be copied ({error.strerror}).") from error


def tuned_file(tuned: str, run: Path | None) -> Path:
    """Return the file of an encoder's weights in a run's folder, by the digits in its settings.

    Raises:
        SeesayError: there is no run, or the file is missing or damaged.
    """
    if run is None:
        raise SeesayError(f"The weights {tuned} of an encoder belong to a run; load that run.")
    path = _file(run, tuned)
    try:
        if _digest(path) != tuned:
            raise SeesayError(f"{path}: damaged; copy the run again, or train again.")
    except OSError as error:
        raise SeesayError(
            f"{path}: the weights of an encoder are missing ({error.strerror}); copy the run again."
        ) from error
    return path


def metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file."""
    with safe_open(path, "numpy") as file:
        return file.metadata() or {}


def encoder_of_head(encoder: EncoderSettings, run: Path) -> EncoderSettings | None:
    """Return the encoder that a head reads, by its file in the run's folder.

    Returns None if it is not a head, or if the file is missing or damaged, which is reported on loading.
    """
    if not (tuned := encoder.get("tuned")):
        return None
    try:
        base = metadata(_file(run, tuned)).get(BASE)
        return EncoderSettings.parse(json.loads(base)) if base else None
    except (OSError, SafetensorError, ValueError):
        return None


def _file(folder: Path, digest: str) -> Path:
    return folder / f"encoder-{digest}.safetensors"


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
