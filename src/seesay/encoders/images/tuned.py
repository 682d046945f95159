"""Encoders of a run's own: networks that it fine-tuned, and the head of the concepts that it sees.

Their weights lie in the run's folder as `encoder-HASH.safetensors`, and its recipe names the encoder by them:
`efficientnet-lite0@HASH:ten`. Loading a run copies them to the cache, where the name is enough to find them.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from seesay.encoders.images.efficientnet import LITE, PixelsToFeatures, load_lite
from seesay.encoders.names import TunedName, untuned
from seesay.errors import SeesayError
from seesay.paths import cache_dir, replacing

READS = "reads"  # in a file's metadata: the encoder whose features these weights read


def save_tuned(encoder: str, network: PixelsToFeatures, folder: Path) -> str:
    """Write a network's weights into a run's folder; returns the encoder's new name."""
    return save_own(encoder, network.state_dict(), folder)


def save_own(
    encoder: str, tensors: Mapping[str, Tensor], folder: Path, about: dict[str, str] | None = None
) -> str:
    """Write an encoder's weights into a run's folder, `about` with them; returns the encoder's new name."""
    network, _, crop = untuned(encoder).partition(":")
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / "encoder.safetensors"
    save_file({key: value.cpu().contiguous() for key, value in tensors.items()}, beside, about)
    digest = _digest(beside)
    beside.replace(_file(folder, digest))
    return str(TunedName(network, digest, crop))


def copy_tuned(encoder: str, source: Path, folder: Path) -> None:
    """Copy an encoder's weights from one run to another; nothing where they are not a run's own.

    Raises:
        SeesayError: the source has not got them.
    """
    name = TunedName.of(encoder)
    if name is None:
        return
    here, there = _file(source, name.weights), _file(folder, name.weights)
    if base := _base(there if there.is_file() else here):
        copy_tuned(base, source, folder)
    if there.is_file():
        return
    try:
        there.parent.mkdir(parents=True, exist_ok=True)
        with replacing(there) as beside:
            shutil.copyfile(here, beside)
    except OSError as error:
        raise SeesayError(
            f"{here}: the fine-tuned encoder's weights cannot be had ({error.strerror})."
        ) from error


def adopt_tuned(encoder: str, folder: Path) -> None:
    """Let `load_tuned` find the weights in a run's folder."""
    copy_tuned(encoder, folder, _kept())


def load_tuned(encoder: str) -> PixelsToFeatures:
    """The network of a fine-tuned encoder, in evaluation mode.

    Raises:
        SeesayError: its weights are not at hand, or damaged.
    """
    name = TunedName.of(encoder)
    if name is None or name.network not in LITE:
        raise SeesayError(f"No encoder '{encoder}': what stands behind @ names no fine-tuned weights.")
    path = own_file(name)
    network = load_lite(name.network)
    try:
        network.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as failure:
        raise SeesayError(f"{path}: not the weights of {name.network}; train again.") from failure
    return network.eval()


def own_file(name: TunedName) -> Path:
    """Where the cache keeps an adopted encoder's weights.

    Raises:
        SeesayError: they are not there, or damaged.
    """
    path = _file(_kept(), name.weights)
    if not path.is_file():
        raise SeesayError(
            f"Encoder '{name}': its weights come with the run that fine-tuned it; load that run."
        )
    if _digest(path) != name.weights:
        path.unlink()  # the run's own is copied again
        raise SeesayError(f"{path}: damaged; it is removed. Do the same again.")
    return path


def metadata(path: Path) -> dict[str, str]:
    """What was written with the weights."""
    with safe_open(path, "pt") as file:
        return file.metadata() or {}


def _base(path: Path) -> str | None:
    """The encoder that a head reads; a damaged file is told when it is loaded."""
    try:
        return metadata(path).get(READS)
    except (OSError, SafetensorError):
        return None


def _kept() -> Path:
    return cache_dir() / "encoders"


def _file(folder: Path, digest: str) -> Path:
    return folder / f"encoder-{digest}.safetensors"


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
