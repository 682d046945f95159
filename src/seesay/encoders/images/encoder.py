"""Encoders: pretrained networks that turn pixels into features, chosen by name.

A name is `network` or `network:crop`, such as `efficientnet-lite0` and `efficientnet-lite0:ten`; behind @
stands which fine-tuned weights the network has (`tuned`).
On a CPU the networks of the core run in ONNX Runtime, on a GPU in PyTorch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seesay.encoders.images.crops import CROPS, Pixels, crops_of
from seesay.encoders.images.efficientnet import LITE, PixelsToFeatures, load_lite
from seesay.encoders.images.tuned import load_tuned
from seesay.encoders.names import kind_of
from seesay.errors import SeesayError
from seesay.onnx import exported, onnx_session

Arrays = dict[str, NDArray[np.float32]]
# Pixels (n, side, side, 3) uint8 to named arrays with n rows each.
Network = Callable[[Pixels], Arrays]

HUB = ("timm", "open_clip", "transformers")
CONCEPTS = ("concepts", "concepts-regions")
INSTANCES = "instances"


class Encoder:
    """A network with its preprocessing.

    Attributes:
        name: as a recipe names it, crops included.
        fingerprint: changes with the weights or the preprocessing; the feature store's key.
        size: the side in pixels of the squares the network takes.
        dims: the width of each array it gives, such as {"pooled": 1280, "logits": 1000}.
    """

    def __init__(
        self, name: str, weights: str, size: int, dims: dict[str, int], network: Network, crop: str
    ) -> None:
        self.name = name
        self.size = size
        self.dims = dims
        self.crop = crop
        self._network = network
        what = f"{name} {weights} size={size} bicubic v1"
        self.fingerprint = hashlib.blake2b(what.encode(), digest_size=8).hexdigest()

    @property
    def source(self) -> Encoder:
        """The encoder whose features are stored; another one where these are computed from its."""
        return self

    def from_source(self, arrays: Arrays) -> Arrays:
        """Its arrays from those of its source, n rows each."""
        return arrays

    def crops(self, pixels: Pixels) -> Pixels:
        """What the network sees of one image: (c, size, size, 3) uint8."""
        return crops_of(pixels, self.size, self.crop)

    def prepare(self, pixels: Pixels) -> Any:
        """What `encode_prepared` takes of one image: its crops."""
        return self.crops(pixels)

    def encode_prepared(self, images: Sequence[Any]) -> Arrays:
        """Features of prepared images, n rows an array."""
        return self.encode(np.stack(images))

    def encode(self, crops: Pixels) -> Arrays:
        """Features of images given as their crops, averaged over the crops.

        Args:
            crops: (n, c, size, size, 3) uint8.

        Returns:
            One (n, width) float32 array for each name in `dims`.
        """
        n, c = crops.shape[:2]
        flat = self._network(crops.reshape(n * c, *crops.shape[2:]))
        return {name: rows.reshape(n, c, -1).mean(axis=1) for name, rows in flat.items()}


@lru_cache(maxsize=8)
def load_encoder(name: str, device: str = "cpu") -> Encoder:
    """The encoder of that name on that device, ready to encode.

    Raises:
        SeesayError: no such encoder, or a part of it is not installed.
    """
    network, _, crop = name.partition(":")
    if network in HUB:
        from seesay.encoders.images.hub import load_hub_encoder

        return load_hub_encoder(name, device)
    if kind_of(name) in CONCEPTS:
        from seesay.encoders.images.concepts import load_concept_encoder

        return load_concept_encoder(name, device)
    if name == INSTANCES:
        from seesay.encoders.images.instances import load_instance_encoder

        return load_instance_encoder(device)
    if (known := kind_of(name)) not in LITE or (crop or "squash") not in CROPS:
        raise SeesayError(
            f"No encoder '{name}'. There are {', '.join(LITE)}, each with an optional :mirror or :ten; "
            f"and {', '.join(f'{hub}:NAME' for hub in HUB)} with the hub extra; "
            f"{' and '.join(CONCEPTS)}, each with an optional :RUN; and {INSTANCES}."
        )
    return lite_encoder(name, device, LITE[known].size)


def lite_encoder(name: str, device: str, side: int) -> Encoder:
    """The packaged or fine-tuned network of that name, seeing squares of `side` pixels."""
    where, _, crop = name.partition(":")
    network, _, tuned = where.partition("@")
    lite = LITE[network]
    dims = {"pooled": lite.dim, "logits": 1000}
    run = lite_network(where, device, side)
    return Encoder(name, tuned or lite.sha256, side, dims, run, crop or "squash")


def lite_network(name: str, device: str, side: int) -> Network:
    """The packaged or fine-tuned network of that name on that device, for squares of `side` pixels."""
    network, _, tuned = name.partition("@")
    build = partial(load_tuned if tuned else load_lite, name)
    if device != "cpu":
        return _torch(build(), device)
    lite = LITE[network]
    key = f"{network}-{'' if side == lite.size else f'{side}-'}{tuned or lite.sha256[:16]}"
    return _onnx(key, build, side)


def _onnx(name: str, build: Callable[[], PixelsToFeatures], size: int) -> Network:
    example = torch.zeros(1, size, size, 3, dtype=torch.uint8)
    path = exported(name, build, (example,), ["pixels"], ["pooled", "logits"])
    session = onnx_session(path, threads=1)

    def run(pixels: Pixels) -> Arrays:
        pooled, logits = session.run(None, {"pixels": np.ascontiguousarray(pixels)})
        return {"pooled": pooled, "logits": logits}

    return run


def _torch(module: PixelsToFeatures, device: str) -> Network:
    module = module.to(device)
    kind = torch.device(device).type  # autocast takes "cuda", not "cuda:0"

    @torch.inference_mode()
    def run(pixels: Pixels) -> Arrays:
        with torch.autocast(kind, torch.float16, enabled=kind == "cuda"):
            pooled, logits = module(torch.from_numpy(np.ascontiguousarray(pixels)).to(device))
        return {"pooled": pooled.float().cpu().numpy(), "logits": logits.float().cpu().numpy()}

    return run


def list_encoders() -> list[tuple[str, str]]:
    """Names and what they are, a line each."""
    lines = [
        (name, f"ImageNet CNN, {lite.size} px, {lite.dim}-d pooled features, 1000 class logits")
        for name, lite in LITE.items()
    ]
    lines += [(f"{name}:ten", "the same, ten crops averaged (the papers' protocol)") for name in LITE]
    lines += [(f"{name}:mirror", "the same, image and mirror image averaged") for name in LITE]
    lines += [(f"{hub}:NAME", "any vision tower of that library by name; needs seesay[hub]") for hub in HUB]
    lines += [
        ("concepts:RUN", "scores of the concepts that run learned to predict; runs/concepts without :RUN"),
        ("concepts-regions:RUN", "the same, the highest of 50 regions of the image"),
        (INSTANCES, "1000 class probabilities of each of at most 36 instances: 36,000-d, 72 kB an image"),
    ]
    return lines
