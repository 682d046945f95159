"""EfficientNet-Lite in PyTorch, as a whole and in stages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class PixelsToFeatures(nn.Module):
    """Pixels (n, side, side, 3) uint8 RGB to pooled features (n, 1280) and class logits (n, 1000).

    The packages' weights expect (x - 127) / 128, channels first. Both happen here, so an exported graph
    contains its preprocessing.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute pooled features before dropout, and the classifier's logits."""
        maps: Tensor = self.network.extract_features(_normalised(pixels))  # type: ignore[operator]
        pooled = maps.mean(dim=(2, 3))
        return pooled, self.network._fc(pooled)  # type: ignore[operator]


class PixelsToMaps(nn.Module):
    """Pixels (n, side, side, 3) uint8 to Lite0's maps of stride 16, 32: (n, h, w, 112), (n, h, w, 320)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the maps, channels last, so that a region is a matrix product."""
        fine = first_stages(self.network, pixels)
        coarse = through_last_blocks(self.network, fine)
        return fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1)


class PixelsToStages(nn.Module):
    """Pixels (n, side, side, 3) uint8 to maps of stride 16, (n, h, w, c).

    Args:
        network: an EfficientNet-Lite.
        logits: whether to also return class logits, (n, 1000), which needs the rest of the network.
    """

    def __init__(self, network: nn.Module, logits: bool) -> None:
        super().__init__()
        self.network, self.logits = network, logits

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """Compute the input of the last stages and, if wanted, the logits."""
        maps = first_stages(self.network, pixels).permute(0, 2, 3, 1)
        return (maps, last_stages(self.network, maps)[1]) if self.logits else (maps,)


def _normalised(pixels: Tensor) -> Tensor:
    """Normalise pixels (n, h, w, 3) uint8 as the packages' weights expect: channels first, around 0."""
    return (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0


def _blocks_to_stride_16(network: Any) -> int:
    """Return the number of blocks before the one with stride 32: 11 for Lite0, 15 for Lite1 and Lite2."""
    strides = [block._depthwise_conv.stride for block in network._blocks]
    return max(i for i, (down, _) in enumerate(strides) if down == 2)


def last_blocks(network: nn.Module) -> nn.ModuleList:
    """Return the blocks after stride 16."""
    blocks: nn.ModuleList = network._blocks[_blocks_to_stride_16(network) :]  # type: ignore[index,assignment]
    return blocks


def through_last_blocks(network: nn.Module, maps: Tensor) -> Tensor:
    """Compute maps of stride 32 from maps of stride 16, both channels first, by the package's own modules."""
    for block in last_blocks(network):
        maps = block(maps)
    return maps


def tunable_parts(network: Any) -> list[nn.Module]:
    """Return the modules of `last_stages` except the classifier."""
    return [last_blocks(network), network._conv_head, network._bn1]


def first_stages(network: Any, pixels: Tensor) -> Tensor:
    """Compute maps of stride 16, (n, c, h, w), of pixels (n, side, side, 3) uint8."""
    maps: Tensor = network._swish(network._bn0(network._conv_stem(_normalised(pixels))))
    for block in network._blocks[: _blocks_to_stride_16(network)]:
        maps = block(maps)
    return maps


def last_stages(network: Any, maps: Tensor) -> tuple[Tensor, Tensor]:
    """Compute pooled features (n, 1280) and class logits (n, 1000) of maps of stride 16, (n, h, w, c).

    The result equals the network's. A 1 × 1 convolution is a matrix product of maps with channels last, and
    batch normalisation, whose statistics are fixed, is folded into the preceding convolution. This makes
    training twice as fast, or three times as fast if the processor multiplies in bfloat16.
    """
    for block in last_blocks(network):
        inner = functional.relu6(_pointwise(maps, block._expand_conv, block._bn0))
        inner = functional.relu6(_depthwise(inner, block._depthwise_conv, block._bn1))
        inner = _pointwise(inner, block._project_conv, block._bn2)
        maps = maps + inner if inner.shape == maps.shape else inner
    maps = functional.relu6(_pointwise(maps, network._conv_head, network._bn1))
    pooled = maps.float().mean(dim=(1, 2))
    with torch.autocast(maps.device.type, enabled=False):
        return pooled, network._fc(pooled)


def _folded(convolution: Any, norm: Any) -> tuple[Tensor, Tensor]:
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return convolution.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale


def _pointwise(maps: Tensor, convolution: Any, norm: Any) -> Tensor:
    weight, bias = _folded(convolution, norm)
    return functional.linear(maps, weight[:, :, 0, 0], bias)


def _depthwise(maps: Tensor, convolution: Any, norm: Any) -> Tensor:
    weight, bias = _folded(convolution, norm)
    with torch.autocast(maps.device.type, enabled=False):  # slower in bfloat16
        padded = convolution.static_padding(maps.permute(0, 3, 1, 2).float())
        found = functional.conv2d(padded, weight, bias, convolution.stride, groups=len(weight))
    return found.permute(0, 2, 3, 1)
