"""Conversion of an opened image to pixels.

Pillow's decoded image is converted tile by tile, so that only one tile exists beside it and the result.
"""

from __future__ import annotations

import io
from contextlib import suppress
from itertools import product
from typing import cast

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageCms

from seesay.data.colours import cmyk_transform, conversion_of

_TILE = 1 << 20  # pixels
# A JPEG is decoded to at least this many times the wanted side, for detail above the later resize's cut-off.
# The lowest cosine of Lite0 features to those of the full image was 0.985 at 1, 0.997 at 1.5, 0.9995 at 2.
_SCALE_GAP = 2

_END_OF_JPEG = b"\xff\xd9"
_LONGEST = 64  # times the shorter side


def decode_jpeg(data: bytes, image: Image.Image, min_side: int | None) -> NDArray[np.uint8]:
    """Decode to sRGB directly with libjpeg-turbo, or with Pillow if that fails.

    A picture that lacks nothing but its end marker is complete: libjpeg-turbo raises an error for any other
    missing byte.
    """
    if image.mode not in ("RGB", "L"):
        with suppress(OSError):
            return to_rgb(image)
        simplejpeg.decode_jpeg(data + _END_OF_JPEG, colorspace="CMYK")
        return to_rgb(Image.open(io.BytesIO(data + _END_OF_JPEG), formats=("JPEG", "MPO")))
    side = (min_side or 0) * _SCALE_GAP
    side = 0 if side >= min(image.size) else side
    for whole in (data, data + _END_OF_JPEG):
        try:
            pixels = np.asarray(simplejpeg.decode_jpeg(whole, min_height=side, min_width=side))
        except ValueError as error:
            if "end of JPEG" not in str(error):  # decoding it again would fail as well
                break
        else:
            if (convert := conversion_of(image, data)) is not None:
                rows = max(1, _TILE // pixels.shape[1])
                for start in range(0, len(pixels), rows):
                    pixels[start : start + rows] = convert(pixels[start : start + rows])
            return pixels
    return to_rgb(image)


def to_rgb(image: Image.Image, data: bytes = b"") -> NDArray[np.uint8]:
    """Decode the first frame as 8-bit sRGB, transparency on white; `data` are the encoded bytes, if known."""
    image.load()
    grey = image.mode.startswith(("I", "F"))
    low, high = 0.0, 65535.0
    if image.mode in ("I", "F"):
        low, high = cast(tuple[float, float], image.getextrema())
        if not np.isfinite((low, high)).all():
            low, high = 0.0, 1.0
    transparent = image.info.get("transparency") if grey else None
    from_cmyk, convert = cmyk_transform(image), conversion_of(image, data)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    columns = min(image.width, _TILE)
    rows = max(1, _TILE // columns)
    for upper, left in product(range(0, image.height, rows), range(0, image.width, columns)):
        right, lower = min(left + columns, image.width), min(upper + rows, image.height)
        tile = image.crop((left, upper, right, lower))
        if grey:
            values = np.asarray(tile)
            levels = _eight_bits(values, low, high)
            if transparent is not None:  # NumPy is slow to compare numbers with None
                levels = np.where(values == transparent, np.uint8(255), levels)
            tile = Image.fromarray(levels)
        elif from_cmyk is not None:
            tile = ImageCms.applyTransform(tile, from_cmyk) or tile
        mode = "RGBA" if tile.has_transparency_data else "RGB"
        tile = tile if tile.mode == mode else tile.convert(mode)  # a copy would double the time
        part = pixels[upper:lower, left:right]
        part[:] = np.asarray(tile)[..., :3]
        if convert is not None:
            part[:] = convert(part)
        if tile.mode == "RGBA":
            white = Image.new("RGB", tile.size, "white")
            white.paste(Image.fromarray(part), mask=tile.getchannel("A"))
            part[:] = np.asarray(white)
    return pixels


def middle(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Cut the ends off an image (h, w, 3) whose longer side is more than 64 times its shorter one.

    Scaling the shorter side of a single row of 65,535 pixels to the input size, as before a crop, would take
    gigabytes, although its file may have only a hundred bytes.
    """
    height, width = pixels.shape[:2]
    most = _LONGEST * min(height, width)
    y, x = max(height - most, 0) // 2, max(width - most, 0) // 2
    return pixels[y : height - y, x : width - x]


def _eight_bits(values: NDArray[np.generic], low: float, high: float) -> NDArray[np.uint8]:
    """Convert grey, (h, w), to 8 bits: `low` and -∞ to black, `high` and ∞ to white, NaN to black."""
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    grey = values.astype(np.float64)
    if not np.isfinite(grey).all():
        np.nan_to_num(grey, copy=False, nan=low, posinf=high, neginf=low)
    grey -= low
    grey *= 255.0 / ((high - low) or 1.0)
    return np.rint(grey, out=grey).clip(0, 255, out=grey).astype(np.uint8)


def turned(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn stored pixels, (h, w, 3), upright: EXIF 2.32, tag 274."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
