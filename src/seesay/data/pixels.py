"""Conversion of an opened image to pixels.

Pillow's decoded image is converted tile by tile, so that only one tile exists beside it and the result.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageCms

_TILE = 1 << 20  # pixels
_MAX_PROFILE = 1 << 20  # bytes of a colour profile; those of displays and cameras have a few thousand
# A JPEG is decoded to at least this many times the wanted side, for detail above the later resize's cut-off.
# The lowest cosine of Lite0 features to those of the full image was 0.985 at 1, 0.997 at 1.5, 0.9995 at 2.
_SCALE_GAP = 2

_PROFILES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}  # the colours of profiles, and modes of Pillow
_SAMPLE = np.stack(np.meshgrid(*[np.linspace(0, 255, 6)] * 3), axis=-1).reshape(1, -1, 3).astype(np.uint8)
_SAME = 2  # levels by which a profile of sRGB may change colours
_END_OF_JPEG = b"\xff\xd9"
_LONGEST = 64  # times the shorter side


def decode_jpeg(data: bytes, image: Image.Image, min_side: int | None) -> NDArray[np.uint8]:
    """Decode directly to RGB with libjpeg-turbo, or with Pillow if that fails.

    A picture that lacks nothing but its end marker is complete: libjpeg-turbo raises an error for any other
    missing byte.
    """
    if image.mode not in ("RGB", "L"):
        return _decode_cmyk(data, image)
    side = (min_side or 0) * _SCALE_GAP
    side = 0 if side >= min(image.size) else side
    for whole in (data, data + _END_OF_JPEG):
        with suppress(ValueError):
            return np.asarray(simplejpeg.decode_jpeg(whole, min_height=side, min_width=side))
    return to_rgb(image)


def _decode_cmyk(data: bytes, image: Image.Image) -> NDArray[np.uint8]:
    try:
        return to_rgb(image)
    except OSError:
        simplejpeg.decode_jpeg(data + _END_OF_JPEG, colorspace="CMYK")
    return to_rgb(Image.open(io.BytesIO(data + _END_OF_JPEG), formats=("JPEG", "MPO")))


def to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Decode the first frame as 8-bit RGB, transparency on white."""
    image.load()
    grey = image.mode.startswith(("I", "F"))
    low, high = _range(image) if grey else (0.0, 0.0)
    transparent = image.info.get("transparency") if grey else None
    transform = _to_srgb(image) if image.mode == "CMYK" else None
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for box in _tiles(image):
        tile = image.crop(box)
        if grey:
            values = np.asarray(tile)
            levels = _eight_bits(values, low, high)
            tile = Image.fromarray(np.where(values == transparent, np.uint8(255), levels))
        elif transform is not None:
            tile = ImageCms.applyTransform(tile, transform) or tile
        if tile.has_transparency_data:
            tile = _on_white(_in_mode(tile, "RGBA"))
        left, upper, right, lower = box
        pixels[upper:lower, left:right] = np.asarray(_in_mode(tile, "RGB"))
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


def _on_white(image: Image.Image) -> Image.Image:
    """Composite an RGBA image on white, like `alpha_composite` in half the time."""
    white = Image.new("RGB", image.size, "white")
    white.paste(image.convert("RGB"), mask=image.getchannel("A"))
    return white


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """Convert an image; one that has the mode is not copied, which would double the time."""
    return image if image.mode == mode else image.convert(mode)


def _tiles(image: Image.Image) -> Iterator[tuple[int, int, int, int]]:
    """Boxes that cover an image, each of at most `_TILE` pixels."""
    columns = min(image.width, _TILE)
    rows = max(1, _TILE // columns)
    for upper in range(0, image.height, rows):
        for left in range(0, image.width, columns):
            yield left, upper, min(left + columns, image.width), min(upper + rows, image.height)


def _range(image: Image.Image) -> tuple[float, float]:
    """The values that become black and white in a grey image of more than 8 bits.

    Unsigned 16-bit images have the range 0..65535. That of 32-bit integers and floats is the smallest of 0..1
    (floats only), 0..255, 0..65535 and 0..maximum that holds all values, or minimum..maximum if some are
    negative.
    """
    if image.mode.startswith("I;16"):
        return 0.0, 65535.0
    low, high = np.inf, -np.inf
    for box in _tiles(image):
        values = np.asarray(image.crop(box))
        if not np.isfinite((values.min(), values.max())).all():  # rare, and masking is slow
            values = values[np.isfinite(values)]
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    if low > high:
        return 0.0, 1.0
    if low >= 0:
        fractions = image.mode == "F" and high <= 1
        return 0.0, 1.0 if fractions else 255.0 if high <= 255 else 65535.0 if high <= 65535 else high
    return low, high


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


def in_srgb(pixels: NDArray[np.uint8], image: Image.Image) -> NDArray[np.uint8]:
    """Convert decoded pixels, (h, w, 3), of an image in other colours to sRGB, in place.

    Pixels without a profile, or with one that cannot be used, stay as they are: colours that are slightly
    wrong are better than no photo. Pixels in sRGB are not converted, nor those of CMYK, which `to_rgb` has
    converted.
    """
    transform = _to_srgb(image)
    table = _gamma_table(image) if transform is None else None
    if transform is not None and transform.input_mode == "CMYK":
        return pixels
    if transform is not None and transform.input_mode == "L":
        levels = Image.fromarray(np.arange(256, dtype=np.uint8)[None])
        table = np.asarray(ImageCms.applyTransform(levels, transform))[0, :, 0]
    rows = max(1, _TILE // pixels.shape[1])
    for start in range(0, len(pixels), rows):
        part = pixels[start : start + rows]
        if table is not None:
            part[:] = table[part]
        elif transform is not None:
            part[:] = np.asarray(ImageCms.applyTransform(Image.fromarray(part), transform))
    return pixels


def _to_srgb(image: Image.Image) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from an image's colours to sRGB; None if they are sRGB, or not known."""
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or not 0 < len(profile) <= _MAX_PROFILE:
        return None
    return _transform(profile, image.mode == "CMYK", len(image.getbands()) < 3)


@lru_cache(32)  # making one takes about as long as decoding a small photo, and photos share a few profiles
def _transform(profile: bytes, is_cmyk: bool, is_grey: bool) -> ImageCms.ImageCmsTransform | None:
    """Return the transform of a profile, if it fits an image of such channels and changes its colours.

    What the profile contains decides, not its name: "sRGB" is also part of the name of linear profiles.
    """
    try:
        own = ImageCms.getOpenProfile(io.BytesIO(profile))
        mode = _PROFILES.get(own.profile.xcolor_space.strip(), "")
        if not {"RGB": not is_cmyk, "L": is_grey, "CMYK": is_cmyk}.get(mode):
            return None
        # The shortcut for grey is several levels wrong in the dark; only its 256 levels are converted.
        flags = ImageCms.Flags.NOOPTIMIZE if mode == "L" else ImageCms.Flags.NONE
        srgb = ImageCms.createProfile("sRGB")
        transform = ImageCms.buildTransform(own, srgb, mode, "RGB", flags=flags)
        if mode == "RGB":
            changed = ImageCms.applyTransform(Image.fromarray(_SAMPLE), transform)
            return None if np.abs(np.asarray(changed, int) - _SAMPLE).max() <= _SAME else transform
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return None
    return transform


def _gamma_table(image: Image.Image) -> NDArray[np.uint8] | None:
    """Return the sRGB level of each level of a PNG with another gamma; None if it has none."""
    gamma = image.info.get("gamma")
    if image.format != "PNG" or "srgb" in image.info or not isinstance(gamma, float):
        return None
    if not 0.05 < gamma < 5 or abs(gamma - 1 / 2.2) < 0.01:  # the second is nearly that of sRGB
        return None
    light = np.linspace(0, 1, 256) ** (1 / gamma)
    level = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * level), np.uint8)


def turned(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn stored pixels, (h, w, 3), upright: EXIF 2.32, tag 274."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
