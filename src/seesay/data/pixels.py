"""Conversion of an opened image to pixels, with limits on memory and time that no file can exceed.

Pillow's decoded image is converted tile by tile, so that only one tile exists beside it and the result.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image, ImageCms
from PIL.TiffImagePlugin import TiffImageFile

from seesay.errors import ImageError

MAX_SCANS = 100
"""The most scans of a JPEG; a progressive one has about ten, and each takes as long as decoding once."""

MAX_WORKING_BYTES = 1_000_000_000
"""The most memory that decoding may take in addition to its result, (h, w, 3)."""

_MAX_SCANNED = 1_500_000_000  # scans × pixels of a JPEG; two to four seconds on one core
# Bytes of all threads together: the largest image that is accepted alone, or many photographs at once.
_MAX_IN_FLIGHT = 1_600_000_000
_TILE = 1 << 20  # pixels
_MAX_PROFILE = 1 << 20  # bytes of a colour profile; those of displays and cameras have a few thousand
# A JPEG is decoded to at least this many times the wanted side, for detail above the later resize's cut-off.
# The lowest cosine of Lite0 features to those of the full image was 0.985 at 1, 0.997 at 1.5, 0.9995 at 2.
_SCALE_GAP = 2

_LONGEST = 64  # times the shorter side
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}  # bytes per pixel in Pillow; else 4
# Bytes per pixel that decoders take besides what Pillow stores: canvases, planes and copies, as measured.
_DECODER = {"WEBP": 12, "AVIF": 8, "HEIF": 12, "JPEG2000": 20}
_BITS_PER_SAMPLE = 258  # the tag of a TIFF
_ROW = 8  # bytes per row: Pillow keeps a pointer to each, and an image of one column has many
# A marker of a JPEG other than a restart; in the data of a scan, 0xFF is always followed by 0x00.
_MARKER = re.compile(rb"\xff([^\x00\x01\xff\xd0-\xd8])")
_START_OF_SCAN, _END_OF_IMAGE = 0xDA, 0xD9


def check_cost(image: Image.Image, data: bytes, name: str) -> None:
    """Raise an ImageError if decoding would take too much memory or time for an image of its size."""
    pixels = image.width * image.height
    if image.format in ("JPEG", "MPO") and _count_scans(data, 1) > 1:
        image.info["progressive"] = 1  # decoded like one: all coefficients are kept until the last scan
    if _working_bytes(image) > MAX_WORKING_BYTES:
        most = int(pixels * MAX_WORKING_BYTES / _working_bytes(image))
        raise ImageError(
            f"{name}: {image.width}×{image.height}; at most {most} pixels of such a {image.format} are "
            f"decoded; make it smaller first, or convert it to PNG."
        )
    if image.format in ("JPEG", "MPO"):
        most = min(MAX_SCANS, _MAX_SCANNED // pixels)
        if _count_scans(data, most) > most:
            raise ImageError(
                f"{name}: a JPEG of more than {most} scans, designed to take long; save it again."
            )


def _working_bytes(image: Image.Image) -> int:
    """Bytes that decoding takes in addition to its result."""
    stored = image.height * (_ROW + -(-image.width * _STORED.get(image.mode, 4) // 4) * 4)
    return stored + image.width * image.height * _decoder_bytes(image)


def _decoder_bytes(image: Image.Image) -> int:
    """Bytes per pixel that a decoder takes in addition to Pillow's image."""
    if image.format in ("JPEG", "MPO"):  # with several scans, the decoder keeps all coefficients
        return 2 * len(image.getbands()) if image.info.get("progressive") else 0
    if isinstance(image, TiffImageFile) and image.info.get("compression") != "raw":
        # It may be a single strip, which is decompressed whole.
        bits = image.tag_v2.get(_BITS_PER_SAMPLE, 8)
        return -(-sum(bits if isinstance(bits, tuple) else (bits,)) // 8)
    return _DECODER.get(image.format or "", 0)


def _count_scans(data: bytes, most: int) -> int:
    """Count the scans of a JPEG, up to `most`; segments such as thumbnails are skipped."""
    scans, at = 0, 2
    while scans <= most and (marker := _MARKER.search(data, at)):
        kind, at = marker[1][0], marker.end()
        if kind == _END_OF_IMAGE:
            break
        scans += kind == _START_OF_SCAN
        at += int.from_bytes(data[at : at + 2], "big")
    return scans


_room = threading.Condition()
_taken = 0


@contextmanager
def in_flight(image: Image.Image) -> Iterator[None]:
    """Wait until other threads' decoding leaves enough memory for this image."""
    global _taken
    wanted = image.width * image.height * 3 + _working_bytes(image)
    with _room:
        _room.wait_for(lambda: _taken == 0 or _taken + wanted <= _MAX_IN_FLIGHT)
        _taken += wanted
    try:
        yield
    finally:
        with _room:
            _taken -= wanted
            _room.notify_all()


def decode_jpeg(data: bytes, image: Image.Image, min_side: int | None) -> NDArray[np.uint8]:
    """Decode directly to RGB with libjpeg-turbo, or with Pillow if that fails."""
    side = (min_side or 0) * _SCALE_GAP
    side = 0 if side >= min(image.size) else side
    try:
        return np.asarray(simplejpeg.decode_jpeg(data, min_height=side, min_width=side))
    except ValueError:
        return to_rgb(image)


def to_rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Decode the first frame as 8-bit RGB, transparency on white."""
    image.load()
    grey = image.mode.startswith(("I", "F"))
    low, high = _range(image) if grey else (0.0, 0.0)
    pixels = np.empty((image.height, image.width, 3), np.uint8)
    for box in _tiles(image):
        tile = image.crop(box)
        if grey:
            tile = Image.fromarray(_eight_bits(np.asarray(tile), low, high))
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
    """Convert decoded pixels, (h, w, 3), of an image with another colour profile to sRGB, in place.

    Pixels without a profile, or with one that cannot be used, stay as they are: colours that are slightly
    wrong are better than no photo. Pixels in sRGB are not converted.
    """
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes) or not 0 < len(profile) <= _MAX_PROFILE:
        return pixels
    try:
        own = ImageCms.getOpenProfile(io.BytesIO(profile))
        if own.profile.xcolor_space.strip() != "RGB" or "sRGB" in ImageCms.getProfileDescription(own):
            return pixels
        transform = ImageCms.buildTransform(own, ImageCms.createProfile("sRGB"), "RGB", "RGB")
        rows = max(1, _TILE // pixels.shape[1])
        for start in range(0, len(pixels), rows):
            part = Image.fromarray(pixels[start : start + rows])
            pixels[start : start + rows] = np.asarray(ImageCms.applyTransform(part, transform))
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return pixels
    return pixels


def turned(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn stored pixels, (h, w, 3), upright: EXIF 2.32, tag 274."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
