"""Crops: from an image of any size to the squares that an encoder takes.

`squash` shows the whole image to the network and loses the aspect ratio; `mirror` is the squash and its
mirror; `ten` is the papers' (Krizhevsky et al. 2012): four corners and the centre, with their mirrors, of an
image whose short side is 256/224 of the encoder's.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

Pixels = NDArray[np.uint8]

# PyTorch's resize of 8-bit images is Pillow's up to a level of rounding. With AVX2 it takes a quarter of
# the time (500 × 375 to 224: 0.44 ms instead of 1.9), without it more.
_VECTORISED = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")

CROPS = ("squash", "mirror", "ten")


def crops_of(pixels: Pixels, size: int, kind: str) -> Pixels:
    """Crop one image (h, w, 3) to (c, size, size, 3) uint8: c is 1, 2 or 10."""
    if kind == "ten":
        return ten_crops(pixels, size)
    whole = resize(pixels, size, size)
    if kind == "mirror":
        return np.stack([whole, whole[:, ::-1]])
    return whole[None]


def ten_crops(pixels: Pixels, size: int) -> Pixels:
    """Crop four corners and the centre of the image at short side size·256/224, and mirror them."""
    height, width = pixels.shape[:2]
    scale = size * 256 / 224 / min(height, width)
    large = resize(pixels, max(size, round(height * scale)), max(size, round(width * scale)))
    down, right = large.shape[0] - size, large.shape[1] - size
    corners = [(0, 0), (0, right), (down, 0), (down, right), (down // 2, right // 2)]
    five = np.stack([large[y : y + size, x : x + size] for y, x in corners])
    return np.concatenate([five, five[:, :, ::-1]])


def random_crop(pixels: Pixels, size: int, kind: str, draw: np.random.Generator) -> Pixels:
    """Crop and mirror one image at random, (size, size, 3) uint8, to fine-tune a network on.

    The crop is from the enlarged image that `ten` crops, or for other kinds from a squash of the same size.
    """
    height, width = pixels.shape[:2]
    side = round(size * 256 / 224)
    scale = side / min(height, width)
    tall, wide = (side, side)
    if kind == "ten":
        tall, wide = max(side, round(height * scale)), max(side, round(width * scale))
    large = resize(pixels, tall, wide)
    y, x = draw.integers(tall - size + 1), draw.integers(wide - size + 1)
    crop = large[y : y + size, x : x + size]
    return crop[:, ::-1] if draw.random() < 0.5 else crop


def squares_of(pixels: Pixels, boxes: NDArray[np.float32], size: int) -> list[Pixels]:
    """Cut out boxes (r, 4) of one image, x1 y1 x2 y2 in pixels, widened to whole ones, and squash them."""
    ends = np.concatenate([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])], axis=1).astype(int)
    return [resize(pixels[y1:y2, x1:x2], size, size) for x1, y1, x2, y2 in ends]


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """Resize bicubically with antialiasing; return the same array if the size is right already."""
    if pixels.shape[:2] == (height, width):
        return pixels
    if not _VECTORISED:
        return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))
    image = torch.from_numpy(np.require(pixels, requirements=["C", "W"])).permute(2, 0, 1)[None]
    resized = functional.interpolate(image, size=(height, width), mode="bicubic", antialias=True)
    result: Pixels = resized[0].permute(1, 2, 0).numpy()
    return result
