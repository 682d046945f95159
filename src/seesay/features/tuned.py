"""Fine-tuned networks: an encoder's weights as a run trained them further.

They lie in the run's folder as `encoder-HASH.safetensors`, and its recipe names the encoder by them:
`efficientnet-lite0@HASH:ten`. Loading a run copies them to the cache, where the name is enough to find them.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from seesay.errors import SeesayError
from seesay.features.efficientnet import LITE, PixelsToFeatures, load_lite
from seesay.paths import cache_dir, replacing
from seesay.recipes.encoder_name import TunedName, untuned


def save_tuned(encoder: str, network: PixelsToFeatures, folder: Path) -> str:
    """Write a network's weights into a run's folder; returns the encoder's new name."""
    network_name, _, crop = untuned(encoder).partition(":")
    beside = folder / "encoder.safetensors"
    save_file({key: value.cpu().contiguous() for key, value in network.state_dict().items()}, beside)
    digest = _digest(beside)
    beside.replace(_file(folder, digest))
    return str(TunedName(network_name, digest, crop))


def copy_tuned(encoder: str, source: Path, folder: Path) -> None:
    """Copy an encoder's weights from one run to another; nothing where it is not fine-tuned.

    Raises:
        SeesayError: the source has not got them.
    """
    name = TunedName.of(encoder)
    if name is None:
        return
    here, there = _file(source, name.weights), _file(folder, name.weights)
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
    path = _file(_kept(), name.weights)
    if not path.is_file():
        raise SeesayError(
            f"Encoder '{encoder}': its weights come with the run that fine-tuned it; load that run."
        )
    if _digest(path) != name.weights:
        path.unlink()  # the run's own is copied again
        raise SeesayError(f"{path}: damaged; it is removed. Do the same again.")
    network = load_lite(name.network)
    try:
        network.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as failure:
        raise SeesayError(f"{path}: not the weights of {name.network}; train again.") from failure
    return network.eval()


def _kept() -> Path:
    return cache_dir() / "encoders"


def _file(folder: Path, digest: str) -> Path:
    return folder / f"encoder-{digest}.safetensors"


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
