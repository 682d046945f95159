"""EfficientNet-Lite in PyTorch: its features, and its maps."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


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
        coarse = last_blocks(self.network)(fine)
        return fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1)


def _normalised(pixels: Tensor) -> Tensor:
    """Normalise pixels (n, h, w, 3) uint8 as the packages' weights expect: channels first, around 0."""
    return (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0


def _blocks_to_stride_16(network: Any) -> int:
    """Return the number of blocks before the one with stride 32: 11 for Lite0, 15 for Lite1 and Lite2."""
    strides = [block._depthwise_conv.stride for block in network._blocks]
    return max(i for i, (down, _) in enumerate(strides) if down == 2)


def last_blocks(network: Any) -> nn.Sequential:
    """Return the blocks from maps of stride 16 to maps of stride 32, both channels first."""
    return nn.Sequential(*network._blocks[_blocks_to_stride_16(network) :])


def tunable_parts(network: Any) -> list[nn.Module]:
    """Return the modules after stride 16 except the classifier."""
    return [last_blocks(network), network._conv_head, network._bn1]


def first_stages(network: Any, pixels: Tensor) -> Tensor:
    """Compute maps of stride 16, (n, c, h, w), of pixels (n, side, side, 3) uint8."""
    maps: Tensor = network._swish(network._bn0(network._conv_stem(_normalised(pixels))))
    for block in network._blocks[: _blocks_to_stride_16(network)]:
        maps = block(maps)
    return maps
