"""Decode encoded images to pixels: 8-bit RGB, upright, whatever the camera or the scanner wrote.

- EXIF rotation is applied; alpha and palette transparency are laid on white.
- 16-bit grey maps its whole range, 0 to 65535, to 0 to 255. 32-bit integers and floats have no range
  of their own: see `_eight_bits`.
- Of an animation the first frame counts.
- A truncated image is refused: half a picture would be encoded as if it were whole.
- An image of more than MAX_PIXELS is refused before it is decoded.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import cache

import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from seesay.data.corpus import ByteSource
from seesay.errors import ImageError

IMAGE_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        *("jpg", "jpeg", "jpe", "jfif", "png", "gif", "webp", "bmp"),
        *("tif", "tiff", "avif", "jp2", "ppm", "pgm", "pbm"),
    )
)
"""Suffixes, in lower case, of the files a reader takes for images."""

MAX_PIXELS = 178_956_970
"""The largest width × height that is decoded: where Pillow's decompression bomb guard raises too."""

# Pillow also knows formats that run other programs (EPS) or fetch things: these do neither.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")
# A DCT-scaled JPEG keeps this many times the wanted side, so that the resize that follows sees detail
# above its own cut-off. Squashed to 224, the lowest cosine of Lite0 features to those of the full image was
# 0.985 at a factor of 1, 0.997 at 1.5 and 0.9995 at 2.
_SCALE_GAP = 2
_HEAD = 1 << 16  # bytes; holds the header of nearly every JPEG, EXIF thumbnail included


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """The header of an image; `width` and `height` in pixels, before EXIF rotation."""

    format: str
    mode: str
    width: int
    height: int
    frames: int


def content_key(data: bytes) -> str:
    """Return the identity of an image everywhere in seesay: BLAKE2b of its encoded bytes, 32 hex digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def decode(data: bytes, name: str, min_side: int | None = None) -> NDArray[np.uint8]:
    """Decode an image to RGB, upright, (h, w, 3).

    Args:
        data: the encoded image.
        name: what error messages call it.
        min_side: decode a JPEG of more than twice this size at a fraction of it, which is faster. The shorter
            side of the result is at least `min_side` wherever the image's own is, and a resize to `min_side`
            gives nearly what it gives of the full image.

    Raises:
        ImageError: not an image, truncated, damaged, or of more than MAX_PIXELS.
    """
    image = _open(data, name)
    try:
        if image.format in ("JPEG", "MPO") and image.mode in ("RGB", "L"):
            pixels = _decode_jpeg(data, image, min_side)
        else:
            pixels = _rgb(image)
        orientation = _orientation(image)  # after loading: a TIFF is upright by then, and says so
    except Exception as error:  # Pillow's plugins raise nearly anything on damaged files
        raise ImageError(f"{name}: truncated or damaged ({_reason(error)}).") from error
    return _turn(pixels, orientation)


def read_header(data: bytes, name: str) -> ImageHeader:
    """Read format, mode and size without decoding.

    Raises:
        ImageError: not an image, or of more than MAX_PIXELS.
    """
    image = _open(data, name)
    try:
        frames = int(getattr(image, "n_frames", 1))
    except Exception as error:
        raise ImageError(f"{name}: truncated or damaged ({_reason(error)}).") from error
    return ImageHeader(image.format or "?", image.mode, image.width, image.height, frames)


def upright_size(data: bytes, name: str) -> tuple[int, int]:
    """Read the width and height of an image in pixels after EXIF rotation, without decoding.

    Raises:
        ImageError: not an image, or of more than MAX_PIXELS.
    """
    image = _open(data, name)
    turned = image.format != "TIFF" and _orientation(image) >= 5  # Pillow gives a TIFF's upright size already
    return (image.height, image.width) if turned else (image.width, image.height)


def source_size(source: ByteSource, name: str) -> tuple[int, int]:
    """Read the upright size of an image from its first bytes, or from all where these do not suffice.

    Raises:
        ImageError: missing, or not an image.
    """
    try:
        return upright_size(source.read(_HEAD), name)
    except ImageError:
        return upright_size(source.read(), name)


def _open(data: bytes, name: str) -> Image.Image:
    if not data:
        raise ImageError(f"{name}: empty, 0 bytes.")
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
    except Image.DecompressionBombError as error:
        raise ImageError(f"{name}: more than {MAX_PIXELS} pixels; make it smaller first.") from error
    except Exception as error:
        raise ImageError(f"{name}: no image that seesay reads, or damaged ({_reason(error)}).") from error
    if image.width * image.height > MAX_PIXELS:
        raise ImageError(
            f"{name}: {image.width}×{image.height}, more than {MAX_PIXELS} pixels; make it smaller first."
        )
    return image


@cache
def _formats() -> tuple[str, ...]:
    """The formats that this build of Pillow has; naming another makes it raise KeyError."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _reason(error: Exception) -> str:
    """The decoder's complaint, without the address of a BytesIO in it."""
    if isinstance(error, UnidentifiedImageError):
        return "unknown format"
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _decode_jpeg(data: bytes, image: Image.Image, min_side: int | None) -> NDArray[np.uint8]:
    """Decode straight to RGB with libjpeg-turbo, or with Pillow if it refuses."""
    side = 0 if min_side is None else min_side * _SCALE_GAP
    side = 0 if side >= min(image.size) else side
    try:
        pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, min_height=side, min_width=side)
    except ValueError:
        return _rgb(image)
    return pixels


def _rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Decode the first frame as 8-bit RGB, transparency on white."""
    image.load()
    if image.mode.startswith(("I", "F")):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image)
    return np.array(image.convert("RGB"))


def _eight_bits(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Convert grey of more than 8 bits, (h, w), to 8 bits.

    Unsigned 16-bit maps 0..65535. The range of 32-bit integers and floats is guessed from the values: floats
    within 0..1 map that, anything within 0..255 stays, within 0..65535 maps that, and other ranges are
    stretched from minimum to maximum. NaN is black, infinities the ends.
    """
    grey = np.asarray(values, np.float64)
    finite = grey[np.isfinite(grey)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        low, high = 0.0, 65535.0
    elif low >= 0:
        fractions = values.dtype.kind == "f" and high <= 1
        low, high = 0.0, 1.0 if fractions else 255.0 if high <= 255 else 65535.0 if high <= 65535 else high
    span = (high - low) or 1.0
    grey = np.nan_to_num(grey, nan=low, posinf=high, neginf=low)
    return np.rint((grey - low) * (255.0 / span)).clip(0, 255).astype(np.uint8)


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8; 1 where there is none or it is damaged."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return 1
    return value if value in range(1, 9) else 1


def _turn(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """Turn stored pixels, (h, w, 3), upright: EXIF 2.32, tag 274."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
