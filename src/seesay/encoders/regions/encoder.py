"""Region encoders: features of boxes of an image.

`efficientnet-lite0:roi` looks once at the whole image and pools the last convolutional maps of stride 16 and
32 in 3 × 3 bins of each box, as Fast R-CNN does in 7 × 7 (Girshick, ICCV 2015): the bins say which part of a
thing lies where, so a box around half a man is not a box around a man. `efficientnet-lite0:crops` looks at
each box by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seesay.encoders.images.crops import Pixels, resize, squares_of
from seesay.encoders.images.efficientnet import LITE, load_lite
from seesay.encoders.images.encoder import load_encoder
from seesay.errors import SeesayError
from seesay.onnx import exported, onnx_session

Boxes = NDArray[np.float32]
Rows = NDArray[np.float32]
# Pixels (n, SIDE, SIDE, 3) uint8 to maps (n, h, w, c), of stride 16 and of stride 32.
MapNetwork = Callable[[Pixels], list[NDArray[np.float32]]]
# One image and its boxes (r, 4), in pixels, to rows (r, dim).
EncodeImages = Callable[[Sequence[Pixels], Sequence[Boxes]], list[Rows]]

NETWORK = "efficientnet-lite0"
BINS = 3  # a side of each box
STRIDE_16 = 11  # blocks of the network before its stride becomes 32
CHANNELS = (112, 320)  # of the maps of stride 16 and 32
SIDE = 448  # pixels, of the square that the whole image is resized to
CROPS_AT_ONCE = 32
REGION_ENCODERS = (f"{NETWORK}:roi", f"{NETWORK}:crops")


class RegionEncoder:
    """What turns boxes of images into features.

    Attributes:
        name: as a recipe names it.
        fingerprint: changes with the weights or with what is done to image and boxes.
        dim: the width of its features.
    """

    def __init__(self, name: str, weights: str, what: str, dim: int, run: EncodeImages) -> None:
        self.name = name
        self.dim = dim
        self._run = run
        self.fingerprint = hashlib.blake2b(f"{name} {weights} {what}".encode(), digest_size=8).hexdigest()

    def encode(self, pixels: Pixels, boxes: Boxes) -> Rows:
        """Features (r, dim) of the boxes (r, 4) of one image (h, w, 3).

        Boxes are clipped to the image and widened to a pixel.

        Raises:
            SeesayError: a box that is wholly outside the image or is no box.
        """
        return self.encode_images([pixels], [boxes])[0]

    def encode_images(self, images: Sequence[Pixels], boxes: Sequence[Boxes]) -> list[Rows]:
        """The same for several images at once: one (r, dim) array an image."""
        inside = [clip_boxes(b, *p.shape[:2]) for p, b in zip(images, boxes, strict=True)]
        return self._run(images, inside) if images else []


def clip_boxes(boxes: Boxes, height: int, width: int) -> Boxes:
    """Boxes (r, 4) within the image and at least a pixel wide and high.

    Raises:
        SeesayError: a box with no part in the image, with x1 > x2 or y1 > y2, or not finite.
    """
    given = np.asarray(boxes, np.float32).reshape(-1, 4)
    x1, y1, x2, y2 = given.T
    good = (x1 <= x2) & (y1 <= y2) & (x1 < width) & (y1 < height) & (x2 > 0) & (y2 > 0)
    if not (good & np.isfinite(given).all(axis=1)).all():
        row = int(np.argmin(good & np.isfinite(given).all(axis=1)))
        raise SeesayError(
            f"Box {given[row].tolist()} (row {row}) is not in an image of {width}×{height} pixels; "
            "boxes are x1 y1 x2 y2 in pixels."
        )
    ends: Boxes = np.array([width, height, width, height], np.float32)
    starts: Boxes = np.clip(given[:, :2], 0, ends[:2] - 1)
    return np.concatenate([starts, np.clip(given[:, 2:], starts + 1, ends[2:])], axis=1)


def pool_regions(maps: NDArray[np.float32], boxes: Boxes, bins: int) -> Rows:
    """The means over the bins × bins parts of each box of a map (h, w, c) interpolated bilinearly.

    This is precise RoI pooling (Jiang et al., ECCV 2018, eq. 2): the integral of the interpolated map over
    each part, exact, where RoIAlign takes samples. It is linear in the map and separates into rows and
    columns, so all boxes are one matrix product.

    Args:
        maps: (h, w, c).
        boxes: as parts of 1, (r, 4).
        bins: parts a side.

    Returns:
        (r, bins·bins·c), part by part, from left to right and then from top to bottom.
    """
    height, width, channels = maps.shape
    x, y = (
        boxes[:, i, None]
        + (boxes[:, i + 2] - boxes[:, i])[:, None] * np.arange(bins + 1, dtype=np.float32) / bins
        for i in (0, 1)
    )
    down = _overlaps(y[:, :-1].ravel() * height, y[:, 1:].ravel() * height, height).reshape(
        -1, bins, 1, height, 1
    )
    across = _overlaps(x[:, :-1].ravel() * width, x[:, 1:].ravel() * width, width).reshape(
        -1, 1, bins, 1, width
    )
    weights = (down * across).reshape(len(boxes) * bins * bins, height * width)
    rows: Rows = np.matmul(weights, maps.reshape(height * width, channels), dtype=np.float32)
    return rows.reshape(len(boxes), bins * bins * channels)


def _overlaps(starts: NDArray[np.float32], ends: NDArray[np.float32], cells: int) -> NDArray[np.float32]:
    """The part that each of a row's cells has in the mean over [start, end] within [0, cells]: (r, cells).

    Cell i has its value at i + ½, from where it falls linearly to the middles of its neighbours; the
    outermost cells keep theirs up to the border, as if the border were repeated outside.
    """
    middles = np.arange(-1, cells + 1) + 0.5

    def until(ends: NDArray[np.float32]) -> NDArray[np.float64]:
        u = np.clip(ends[:, None] - middles, -1, 1)
        return np.where(u < 0, (1 + u) ** 2 / 2, 1 - (1 - u) ** 2 / 2)

    parts = (until(ends) - until(starts)) / (ends - starts)[:, None]
    parts[:, 1] += parts[:, 0]
    parts[:, -2] += parts[:, -1]
    return parts[:, 1:-1].astype(np.float32)


@lru_cache(maxsize=4)
def load_region_encoder(name: str, device: str = "cpu") -> RegionEncoder:
    """The region encoder of that name on that device.

    Raises:
        SeesayError: no such region encoder, or a part of it is not installed.
    """
    if name not in REGION_ENCODERS:
        raise SeesayError(f"No region encoder '{name}'. There are {', '.join(REGION_ENCODERS)}.")
    lite = LITE[NETWORK]
    if name.endswith(":crops"):
        return RegionEncoder(name, lite.sha256, "squash bicubic v1", lite.dim, _crops(device))
    run = onnx_maps() if device == "cpu" else _torch_maps(device)
    dim = BINS * BINS * sum(CHANNELS)
    return RegionEncoder(name, lite.sha256, f"side={SIDE} bicubic pool={BINS} v2", dim, _pooled(run))


class PixelsToMaps(nn.Module):
    """Pixels (n, side, side, 3) uint8 to maps of stride 16, (n, h, w, 112), and 32, (n, h, w, 320)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The maps, channels last: then a region is a matrix product."""
        network: Any = self.network
        scaled = (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0
        fine = network._swish(network._bn0(network._conv_stem(scaled)))
        for block in network._blocks[:STRIDE_16]:
            fine = block(fine)
        coarse = fine
        for block in network._blocks[STRIDE_16:]:
            coarse = block(coarse)
        return fine.permute(0, 2, 3, 1), coarse.permute(0, 2, 3, 1)


def load_maps() -> PixelsToMaps:
    """The network up to its last block, for any side that 32 divides."""
    return PixelsToMaps(load_lite(NETWORK).network).eval()


def onnx_maps() -> MapNetwork:
    """The same in ONNX Runtime on one core, exported for squares of SIDE pixels."""
    example = torch.zeros(1, SIDE, SIDE, 3, dtype=torch.uint8)
    name = f"{NETWORK}-two-maps-{SIDE}-{LITE[NETWORK].sha256[:16]}"
    session = onnx_session(exported(name, load_maps, (example,), ["pixels"], ["fine", "coarse"]), threads=1)

    def run(pixels: Pixels) -> list[NDArray[np.float32]]:
        maps: list[NDArray[np.float32]] = session.run(None, {"pixels": pixels})
        return maps

    return run


def _torch_maps(device: str) -> MapNetwork:
    module = load_maps().to(device)
    kind = torch.device(device).type  # autocast takes "cuda", not "cuda:0"

    @torch.inference_mode()
    def run(pixels: Pixels) -> list[NDArray[np.float32]]:
        with torch.autocast(kind, torch.float16, enabled=kind == "cuda"):
            maps = module(torch.from_numpy(pixels).to(device))
        return [each.float().cpu().numpy() for each in maps]

    return run


def _pooled(network: MapNetwork) -> EncodeImages:
    def run(images: Sequence[Pixels], boxes: Sequence[Boxes]) -> list[Rows]:
        strides = network(np.stack([resize(pixels, SIDE, SIDE) for pixels in images]))
        ends = [np.array(p.shape[1::-1] * 2, np.float32) for p in images]
        shares: list[Boxes] = [np.divide(b, end) for b, end in zip(boxes, ends, strict=True)]
        return [
            np.concatenate([pool_regions(maps[i], share, BINS) for maps in strides], axis=1)
            for i, share in enumerate(shares)
        ]

    return run


def _crops(device: str) -> EncodeImages:
    encoder = load_encoder(NETWORK, device)

    def one(pixels: Pixels, boxes: Boxes) -> Rows:
        crops = squares_of(pixels, boxes, encoder.size)
        rows = np.zeros((len(boxes), encoder.dims["pooled"]), np.float32)
        for i in range(0, len(crops), CROPS_AT_ONCE):
            part = np.stack(crops[i : i + CROPS_AT_ONCE])[:, None]
            rows[i : i + CROPS_AT_ONCE] = encoder.encode(part)["pooled"]
        return rows

    return lambda images, boxes: [one(p, b) for p, b in zip(images, boxes, strict=True)]
